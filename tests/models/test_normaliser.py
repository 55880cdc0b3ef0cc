"""The normaliser: numbers by hand, and columns that do not vary."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.models import normaliser as module
from driftrl.models.normaliser import Normaliser


def test_fit_computed_by_hand() -> None:
    fitted = Normaliser.fit(np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]]))
    np.testing.assert_allclose(fitted.mean, [3.0, 20.0], rtol=1e-15)
    np.testing.assert_allclose(fitted.std, [np.sqrt(8 / 3), np.sqrt(200.0)], rtol=1e-15)


def test_both_directions_computed_by_hand() -> None:
    normaliser = Normaliser(mean=np.array([1.0, -2.0]), std=np.array([2.0, 0.5]))
    values = np.array([[3.0, -2.0], [1.0, -1.0]])
    normal = np.array([[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(normaliser.normalise(values), normal)
    np.testing.assert_array_equal(normaliser.denormalise(normal), values)
    np.testing.assert_array_equal(normaliser.normalise(values[0]), normal[0])


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.3e5, 1e-300])
def test_a_constant_column_keeps_its_units(constant: float) -> None:
    # The mean of many equal numbers is off by rounding, and so is their spread.
    fitted = Normaliser.fit(np.full((1001, 1), constant))
    assert fitted.std[0] == 1.0
    assert fitted.mean[0] == pytest.approx(constant)


def test_a_small_column_is_not_a_constant_one() -> None:
    fitted = Normaliser.fit(1e-9 * np.array([[1.0], [3.0]]))
    assert fitted.std[0] == pytest.approx(1e-9)
    fitted = Normaliser.fit(1e6 + 0.01 * np.array([[1.0], [3.0]]))
    assert fitted.std[0] == pytest.approx(0.01)


def test_one_row_and_no_rows() -> None:
    one = Normaliser.fit(np.array([[4.0, 5.0]]))
    np.testing.assert_array_equal(one.mean, [4.0, 5.0])
    np.testing.assert_array_equal(one.std, [1.0, 1.0])
    none = Normaliser.fit(np.zeros((0, 3)))
    np.testing.assert_array_equal(none.mean, np.zeros(3))
    np.testing.assert_array_equal(none.std, np.ones(3))


@given(seed=st.integers(0, 2**32), rows=st.integers(2, 40), scale=st.floats(1e-6, 1e6))
def test_normalised_data_have_mean_zero_and_spread_one(
    seed: int, rows: int, scale: float
) -> None:
    values = scale * np.random.default_rng(seed).normal(size=(rows, 3)) + 2 * scale
    fitted = Normaliser.fit(values)
    normal = fitted.normalise(values)
    np.testing.assert_allclose(normal.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(normal.std(axis=0), 1, rtol=1e-9)
    np.testing.assert_allclose(fitted.denormalise(normal), values, rtol=1e-9)


def test_refusals(unchecked: Callable[[ModuleType], Any]) -> None:
    plain = unchecked(module).Normaliser
    with pytest.raises(InputError, match=r"matrix \[N, D\] .* received shape \(3,\)"):
        plain.fit(np.zeros(3))
    for wrong in (np.nan, np.inf):
        with pytest.raises(InputError, match=r"finite numbers; .* finite: False\."):
            plain.fit(np.array([[1.0, wrong]]))
    for std in ([0.0], [-1.0], [np.nan], [1.0, 1.0]):
        with pytest.raises(InputError, match="a positive std for every column"):
            plain(np.zeros(1), np.array(std))

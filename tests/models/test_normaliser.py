"""The normaliser: numbers by hand, and columns that do not vary."""

import numpy as np
import pytest

from driftrl.normaliser import Normaliser


def test_fit_computed_by_hand() -> None:
    fitted = Normaliser.fit(np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]]))
    np.testing.assert_allclose(fitted.mean, [3.0, 20.0], rtol=1e-15)
    np.testing.assert_allclose(fitted.std, [np.sqrt(8 / 3), np.sqrt(200.0)], rtol=1e-15)


def test_normalise_computed_by_hand() -> None:
    normaliser = Normaliser(mean=np.array([1.0, -2.0]), std=np.array([2.0, 0.5]))
    values = np.array([[3.0, -2.0], [1.0, -1.0]])
    normal = np.array([[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(normaliser.normalise(values), normal)
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

"""Growth of regret with N: exponents by hand, and which methods have one."""

import dataclasses

import numpy as np
import pytest

from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.results.growth import fit_exponent, growth_of
from driftrl.results.regret import MethodRegret, StudyRegret
from driftrl.results.statistics import (
    estimate_mean,
    mean,
    standard_error,
)


def method(
    name: str, curves: np.ndarray, seeds: tuple[int, ...] = (0, 1, 2)
) -> MethodRegret:
    return MethodRegret(
        name,
        seeds,
        curves,
        mean(curves),
        standard_error(curves),
        estimate_mean(curves[:, 0]),
    )


def power(exponent: float, episodes: int, *scales: float) -> np.ndarray:
    n = np.arange(1, episodes + 1)
    return np.array([scale * n**exponent for scale in scales])


def study(*methods: MethodRegret) -> StudyRegret:
    table = OracleTable((OracleValue(1.0, 0.0, 0.0),), "made up")
    return StudyRegret((), (), table, "sombrl", 1, methods, (), (), (), (), ())


LENGTHS = (8, 16, 32)
WINDOWED = tuple(
    method(f"sw-ombrl N={n}", power(0.75, n, 1.0, 2.0, 3.0)) for n in LENGTHS
)


def test_exponents_are_slopes_of_logarithms() -> None:
    regrets = np.array([[1.0, 2.0, 4.0], [5.0, 5.0, 5.0], [1.0, 8.0, 16.0]])
    # Of the third: log₂ R = 0, 3, 4 at log₂ N = 0, 1, 2, whose slope is 2.
    assert fit_exponent(np.array([1, 2, 4]), regrets) == pytest.approx([1, 0, 2])


def test_each_length_is_read_at_its_own_end() -> None:
    (found,) = growth_of(study(*WINDOWED))
    assert found.method == "sw-ombrl" and found.lengths.tolist() == [8, 16, 32]
    expected = np.outer([1.0, 2.0, 3.0], np.array(LENGTHS) ** 0.75)
    np.testing.assert_allclose(found.regrets, expected)
    assert found.exponent.mean == pytest.approx(0.75)
    assert found.exponent.values == pytest.approx([0.75] * 3)
    assert found.late_exponent.values == pytest.approx([0.75] * 3)


def test_what_is_paid_at_first_weighs_less_at_the_end() -> None:
    """R_N = 8 + N at N = 8, 16, 32: 16, 24, 40, so the last slope is log₂(40/24)."""
    n = np.arange(1, 33)
    paid = [
        method(
            f"sw-ombrl N={end}", np.array([8.0 + n[:end], 16.0 + 2 * n[:end]]), (0, 1)
        )
        for end in LENGTHS
    ]
    (found,) = growth_of(study(*paid))
    assert found.late_exponent.mean == pytest.approx(np.log2(40 / 24))
    assert found.exponent.mean == pytest.approx(0.5 * np.log2(40 / 16))


def test_one_long_run_is_read_at_the_same_lengths() -> None:
    kept = method("sombrl anytime", power(1.25, 32, 4.0, 5.0, 6.0))
    window, whole = growth_of(study(*WINDOWED, kept))
    assert whole.method == "sombrl anytime"
    assert whole.lengths.tolist() == window.lengths.tolist()
    assert whole.exponent.mean == pytest.approx(1.25)


def test_only_seeds_of_every_length_count() -> None:
    longest = method("sw-ombrl N=32", power(0.5, 32, 3.0, 1.0), seeds=(2, 7))
    (found,) = growth_of(study(*WINDOWED[:2], longest))
    assert found.regrets.tolist() == [
        pytest.approx([3 * 8**0.75, 3 * 16**0.75, 3 * 32**0.5])
    ]


def test_no_growth_without_three_finished_lengths_or_a_regret() -> None:
    assert growth_of(study(*WINDOWED[:2])) == ()
    unfinished = method("sw-ombrl N=32", power(0.75, 31, 1.0, 2.0, 3.0))
    assert growth_of(study(*WINDOWED[:2], unfinished)) == ()
    swept = [
        dataclasses.replace(one, method=one.method.replace("N", "w"))
        for one in WINDOWED
    ]
    assert growth_of(study(*swept)) == ()
    better = method("sw-ombrl N=32", -power(0.75, 32, 1.0, 2.0, 3.0))
    assert growth_of(study(*WINDOWED[:2], better)) == ()

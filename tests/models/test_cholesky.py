"""Factors that grow, shrink and compress, against factors made from scratch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.models.cholesky import (
    append_block,
    drop_leading,
    factorise,
    invert_lower,
    pivoted_factor,
)


def covariance(size: int, seed: int, noise: float = 1e-4) -> np.ndarray:
    """Return a squared-exponential covariance of random points, with noise."""
    x = np.random.default_rng(seed).normal(size=(size, 3))
    distance = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * distance) + noise * np.eye(size)


def test_factor_by_hand() -> None:
    found = factorise(np.array([[4.0, 2.0], [2.0, 10.0]]))
    np.testing.assert_allclose(found, [[2.0, 0.0], [1.0, 3.0]], rtol=1e-15)


@given(size=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_factor_is_numpys(size: int, seed: int) -> None:
    matrix = covariance(size, seed)
    before = matrix.copy()
    found = factorise(matrix)
    np.testing.assert_allclose(found, np.linalg.cholesky(matrix), atol=1e-10)
    np.testing.assert_array_equal(matrix, before)
    np.testing.assert_array_equal(found, np.tril(found))


@pytest.mark.parametrize("deficit", [1e-13, 1e-11, 1e-9, 1e-7])
def test_smallest_jitter_that_works_is_added(deficit: float) -> None:
    # Eigenvalues 2 and −deficit: needs a jitter above the deficit, a decade or two on.
    matrix = np.array([[1.0, 1.0 + deficit], [1.0 + deficit, 1.0]])
    factor = factorise(100.0 * matrix)
    added = np.diag(factor @ factor.T) / 100.0 - 1.0
    np.testing.assert_allclose(added, 10 * deficit, rtol=0.01)


def test_a_matrix_that_needs_no_jitter_gets_none() -> None:
    matrix = covariance(20, 0)
    factor = factorise(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=0, atol=1e-15)


@pytest.mark.parametrize("size", [2, 50])
def test_refusal_of_a_matrix_that_is_not_positive(size: int) -> None:
    matrix = np.eye(size)
    matrix[0, 1] = matrix[1, 0] = 1.0001
    with pytest.raises(
        np.linalg.LinAlgError, match=f"{size}×{size} covariance matrix is not positive"
    ):
        factorise(matrix)


@pytest.mark.parametrize("size", [1, 3, 300])
@pytest.mark.parametrize("where", ["diagonal", "elsewhere"])
def test_refusal_of_nan(size: int, where: str) -> None:
    matrix = np.eye(size)
    row, column = (0, 0) if where == "diagonal" else (size - 1, 0)
    matrix[row, column] = matrix[column, row] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
        factorise(matrix)


@given(old=st.integers(0, 90), new=st.integers(0, 50), seed=st.integers(0, 2**32))
def test_append_equals_refactorisation(old: int, new: int, seed: int) -> None:
    matrix = covariance(old + new, seed)
    found = append_block(
        factorise(matrix[:old, :old]), matrix[old:, :old], matrix[old:, old:]
    )
    np.testing.assert_allclose(found, factorise(matrix), atol=1e-10)
    np.testing.assert_array_equal(found, np.tril(found))


@given(kept=st.integers(0, 110), count=st.integers(0, 90), seed=st.integers(0, 2**32))
def test_drop_equals_refactorisation(kept: int, count: int, seed: int) -> None:
    matrix = covariance(kept + count, seed)
    factor = factorise(matrix)
    before = factor.copy()
    found = drop_leading(factor, count)
    np.testing.assert_allclose(found, factorise(matrix[count:, count:]), atol=1e-10)
    np.testing.assert_array_equal(found, np.tril(found))
    np.testing.assert_array_equal(factor, before)


def test_fifty_steps_of_a_sliding_window() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 45, size=56)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    matrix = covariance(int(ends[-1]), 1)
    factor = factorise(matrix[: ends[6], : ends[6]])
    for step in range(50):
        kept = slice(ends[step + 1], ends[step + 6])
        new = slice(ends[step + 6], ends[step + 7])
        factor = append_block(
            drop_leading(factor, int(lengths[step])),
            matrix[new, kept],
            matrix[new, new],
        )
    whole = slice(ends[50], ends[56])
    np.testing.assert_allclose(factor, factorise(matrix[whole, whole]), atol=1e-9)


@given(size=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_inverse(size: int, seed: int) -> None:
    factor = factorise(covariance(size, seed, noise=1e-2))
    inverse = invert_lower(factor)
    np.testing.assert_allclose(inverse @ factor, np.eye(size), atol=1e-10)
    np.testing.assert_array_equal(inverse, np.tril(inverse))


@given(
    size=st.integers(1, 80),
    tolerance=st.floats(-9, -0.5).map(lambda power: 10**power),
    seed=st.integers(0, 2**32),
)
def test_pivoted_factor_is_within_its_tolerance(
    size: int, tolerance: float, seed: int
) -> None:
    matrix = covariance(size, seed, noise=0.0)
    pivots, basis, columns = pivoted_factor(matrix, tolerance)
    error = np.abs(matrix - columns @ columns.T).max()
    assert error <= tolerance + 1e-13
    assert len(set(pivots.tolist())) == len(pivots) == columns.shape[1]
    # The basis is the factor of the chosen rows, and G = K[:, pivots] · basis⁻ᵀ.
    chosen = matrix[np.ix_(pivots, pivots)]
    np.testing.assert_allclose(basis @ basis.T, chosen, atol=1e-12)
    np.testing.assert_allclose(columns @ basis.T, matrix[:, pivots], atol=1e-12)


def test_pivots_are_the_worst_explained_first() -> None:
    matrix = np.diag([1.0, 3.0, 2.0, 1e-3])
    found = pivoted_factor(matrix, 1e-2)
    np.testing.assert_array_equal(found.pivots, [1, 2, 0])
    np.testing.assert_allclose(found.basis, np.diag(np.sqrt([3.0, 2.0, 1.0])))


def test_a_repeated_point_is_chosen_once() -> None:
    x = np.random.default_rng(0).normal(size=12)
    x = np.concatenate([x, x, x])
    matrix = np.exp(-0.5 * (x[:, None] - x[None]) ** 2)
    assert len(pivoted_factor(matrix, 1e-10).pivots) <= 12
    assert len(pivoted_factor(np.ones((30, 30)), 1e-10).pivots) == 1
    assert len(pivoted_factor(np.zeros((3, 3)), 1e-10).pivots) == 0

"""Random drifting functions spend their budget exactly and keep their bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.theory.drifting_functions import (
    DriftingFunctions,
    Shape,
    draw_functions,
    progress_of,
)
from driftrl.theory.variation import increments, variation_budget


def kernel(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.exp(-2 * ((x[:, None] - z[None]) ** 2).sum(-1))


def draw(seed: int, variation: float, shape: Shape = "steady") -> DriftingFunctions:
    rng = np.random.default_rng(seed)
    return draw_functions(
        kernel,
        rng.uniform(-1, 1, (8, 2)),
        outputs=2,
        rkhs_bound=1.5,
        variation=variation,
        progress=progress_of(shape, 6),
        rng=rng,
    )


@settings(max_examples=25)
@given(
    st.integers(0, 10_000), st.floats(0.0, 5.9), st.sampled_from(["steady", "abrupt"])
)
def test_budget_and_bound_are_met_exactly(
    seed: int, variation: float, shape: Shape
) -> None:
    functions = draw(seed, variation, shape)
    all_of_them = [functions.at(n) for n in range(1, 7)]
    np.testing.assert_allclose(
        increments(all_of_them), functions.increments(), atol=1e-6
    )
    assert variation_budget(functions.increments()) == pytest.approx(variation)
    norms = np.stack([one.norms() for one in all_of_them])
    np.testing.assert_allclose(norms.max(axis=0), 1.5)
    assert np.all(norms <= 1.5 * (1 + 1e-9))


def test_progress() -> None:
    np.testing.assert_allclose(progress_of("steady", 5), [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(progress_of("abrupt", 5), [0, 0, 1, 1, 1])


def test_refusals() -> None:
    with pytest.raises(InputError, match="received a variation of 3.5 for each"):
        draw(0, 7.0)
    with pytest.raises(InputError, match="variation P_N must be a number of at least"):
        draw(0, -1.0)
    with pytest.raises(InputError, match="at least 2 episodes"):
        progress_of("steady", 1)

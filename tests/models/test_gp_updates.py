"""The Gaussian process from episode to episode: what is kept, what is made anew."""

from collections.abc import Callable

import numpy as np
import pytest

from driftrl.config.gp import GPConfig
from driftrl.kernels import covariance, fit_hyperparameters, kernel_named
from driftrl.models import gp
from driftrl.types import Data

pytestmark = pytest.mark.usefixtures("x64")

Swings = Callable[..., Data]


def test_hyperparameters_are_found_anew_every_third_time(swings: Swings) -> None:
    config = GPConfig(refit_every=3)
    state = gp.initial_state(3, 1, config)
    ages, refits = [], []
    for stop in range(40, 320, 40):
        before = state.hyper
        state = gp.fit(state, swings(0, stop), config)
        ages.append(state.age)
        refits.append(state.hyper is not before)
        kernel = kernel_named(config.kernel)
        expected = covariance(kernel, state.hyper, state.x)
        np.testing.assert_allclose(state.factor @ state.factor.T, expected, atol=1e-12)
        assert len(state.x) == stop
    assert ages == [0, 1, 2, 0, 1, 2, 0]
    assert refits == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("rows", [(80, 120), (0, 80)])
def test_data_of_which_nothing_was_there_start_over(
    rows: tuple[int, int], swings: Swings
) -> None:
    # None of the old rows is left, or older ones have come back.
    config = GPConfig(refit_every=100)
    state = gp.fit(gp.initial_state(3, 1, config), swings(40, 80), config)
    data = swings(*rows)
    found = gp.fit(state, data, config)
    assert (found.age, found.offset) == (0, rows[0])
    raw_x = np.concatenate([data.obs, data.actions], axis=1)
    np.testing.assert_allclose(found.inputs.mean, raw_x.mean(axis=0))


def test_the_fit_looks_at_evenly_spread_points(swings: Swings) -> None:
    config = GPConfig(fit_points=21)
    initial = gp.initial_state(3, 1, config)
    state = gp.fit(initial, swings(0, 401), config)
    rows = np.arange(0, 401, 20)
    expected = fit_hyperparameters(
        "se",
        initial.hyper,
        state.x[rows],
        state.y[rows],
        steps=config.fit_steps,
        learn_noise=False,
    )
    np.testing.assert_array_equal(state.hyper.length_scales, expected.length_scales)
    assert len(state.x) == len(state.factor) == 401

"""The Gaussian process from episode to episode: what is kept, what is made anew."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from driftrl.config.gp import GPConfig
from driftrl.models import gp
from driftrl.models.kernels import KERNELS, covariance, factorise, fit_hyperparameters
from driftrl.types import Data

pytestmark = pytest.mark.usefixtures("x64")

Swings = Callable[..., Data]


def check_against_scratch(state: gp.GPState, data: Data, config: GPConfig) -> None:
    """Compare an updated state with one made from ``data`` at once, scales given."""
    raw_x = np.concatenate([data.obs, data.actions], axis=1)
    x = state.inputs.normalise(raw_x)
    y = state.outputs.normalise(data.next_obs - data.obs)
    np.testing.assert_allclose(state.x, x, atol=1e-12)
    np.testing.assert_allclose(state.y, y, atol=1e-12)
    factor = factorise(covariance(KERNELS[config.kernel], state.hyper, x))
    np.testing.assert_allclose(state.factor, factor, atol=1e-8)
    scratch = replace(state, x=x, y=y, factor=factor)
    wanted = gp.predict_all(gp.posterior(scratch, config), data.obs, data.actions)
    found = gp.predict_all(gp.posterior(state, config), data.obs, data.actions)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("kernel", ["se", "matern32", "matern52", "linear"])
def test_appending_and_dropping_equal_starting_over(
    kernel: Any, swings: Swings
) -> None:
    config = GPConfig(kernel=kernel, refit_every=100, fit_steps=10)
    state = gp.fit(gp.initial_state(3, 1, config), swings(0, 80), config)
    first = state
    rows = [(0, 81), (0, 120), (40, 160), (103, 230), (200, 240), (200, 240)]
    for age, (start, stop) in enumerate(rows, start=1):
        data = swings(start, stop)
        state = gp.fit(state, data, config)
        assert (state.age, state.offset) == (age, start)
        assert (state.hyper, state.inputs, state.outputs) == (
            (first.hyper, first.inputs, first.outputs)
        )
        check_against_scratch(state, data, config)


def test_hyperparameters_are_found_anew_every_third_time(swings: Swings) -> None:
    config = GPConfig(refit_every=3)
    state = gp.initial_state(3, 1, config)
    ages, refits = [], []
    for stop in range(40, 320, 40):
        before = state.hyper
        state = gp.fit(state, swings(0, stop), config)
        ages.append(state.age)
        refits.append(state.hyper is not before)
    assert ages == [0, 1, 2, 0, 1, 2, 0]
    assert refits == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("rows", [(80, 120), (0, 80)])
def test_data_that_the_factor_does_not_hold_start_over(
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
    check_against_scratch(found, data, config)


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

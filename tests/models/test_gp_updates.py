"""What a fit of the Gaussian process looks at."""

from collections.abc import Callable

import numpy as np
import pytest

from driftrl.config.gp import GPConfig
from driftrl.kernels import fit_hyperparameters
from driftrl.models import gp
from driftrl.types import Data

pytestmark = pytest.mark.usefixtures("x64")

Swings = Callable[..., Data]


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

"""A run so small that a test can afford several."""

from typing import Any

import pytest

from driftrl.config import RunConfig
from driftrl.envs.tasks import configure

TINY: dict[str, Any] = {
    "episodes": 5,
    "environment": {"steps": 40, "noise_std": 0.01},
    "drift": {"start": 2},
    "forgetting": {"kind": "window", "window": 2},
    "agent": {
        "model": {"fit_steps": 5, "refit_every": 2},
        "planner": {"horizon": 3, "samples": 16, "elites": 4, "iterations": 2},
    },
}


@pytest.fixture
def tiny() -> RunConfig:
    return configure("pendulum", "sw-ombrl", TINY)

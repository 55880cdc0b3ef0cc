"""A run so small that a test can afford several."""

from typing import Any

import pytest

from driftrl.config.run import RunConfig
from driftrl.envs.tasks import configure

TINY: dict[str, Any] = {
    "episodes": 5,
    "environment": {"sim_steps": 40, "noise_std": 0.01},
    "drift": {"start": 2},
    "forgetting": {"kind": "window", "window": 2},
    "agent": {
        "model": {"fit_steps": 5, "refit_every": 2},
        "planner": {"horizon": 3, "samples": 16, "elites": 4, "iterations": 2},
    },
}

TINY_DEEP: dict[str, Any] = {
    "episodes": 5,
    "environment": {"sim_steps": 10, "noise_std": 0.01},
    "drift": {"start": 2},
    "forgetting": {"kind": "window", "window": 2},
    "agent": {
        "model": {"members": 2, "hidden": [8]},
        "sac": {"hidden": [8, 8], "batch_size": 8, "critic": "plain"},
        "learning": {"model_updates": 1, "policy_updates": 2, "learning_starts": 8},
        "soft_reset": {"model": 0.2, "policy": 0.2},
        "optimism": {"rule": "tuned"},
    },
}


@pytest.fixture
def tiny_deep_settings() -> dict[str, Any]:
    return dict(TINY_DEEP)


@pytest.fixture
def tiny_deep() -> RunConfig:
    return configure("pendulum-decay", "sw-ombrl", TINY_DEEP)


@pytest.fixture
def tiny() -> RunConfig:
    return configure("pendulum", "sw-ombrl", TINY)

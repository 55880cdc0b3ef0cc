"""A run so small that a test can afford several."""

from typing import Any

import pytest

from driftrl.config.run import RunConfig
from driftrl.envs.tasks import configure
from factories import TINY, TINY_DEEP


@pytest.fixture
def tiny_deep_settings() -> dict[str, Any]:
    return dict(TINY_DEEP)


@pytest.fixture
def tiny_deep() -> RunConfig:
    return configure("pendulum-decay", "sw-ombrl", TINY_DEEP)


@pytest.fixture
def tiny() -> RunConfig:
    return configure("pendulum", "sw-ombrl", TINY)

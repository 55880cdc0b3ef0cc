"""J*(θ) where it is known, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from driftrl.oracles import known
from driftrl.oracles.known import known_optimum, trainings_missing
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac_settings import settings_for
from driftrl.oracles.sac_table import sac_cache_file
from driftrl.oracles.table import keep
from driftrl.presets.tasks import TASKS

HOPPER = TASKS["hopper"].environment
# On a grid of 0.2: raised to 900 at 0.8, and nothing is known between 0.2 and 0.6.
TRAINED = {0.2: 100.0, 0.6: 900.0, 0.8: 850.0, 1.0: 1000.0}


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known._known.cache_clear()
    path = sac_cache_file("hopper", HOPPER, settings_for(TASKS["hopper"].plant))
    for theta, value in TRAINED.items():
        keep(path, HOPPER, Optimum(theta, value, 1.0, 0.0, "sac", "small", {}), {})


def test_what_is_shipped_is_known() -> None:
    environment = TASKS["pendulum"].environment
    assert known_optimum("pendulum", 2.0, environment) == pytest.approx(-301.8, abs=0.1)
    # Dynamic programming interpolates nothing.
    assert known_optimum("pendulum", 1.98765, environment) is None
    assert known_optimum("pendulum", float("nan"), environment) is None
    assert known_optimum("pendulum", 2.0, replace(environment, sim_steps=50)) is None


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(
    ("theta", "value"),
    [(0.6, 900.0), (0.8, 900.0), (0.9, 950.0), (0.4, None), (0.1, None), (1.1, None)],
)
def test_trained_ones_are_interpolated_between_neighbours(
    theta: float, value: float | None
) -> None:
    found = known_optimum("hopper", theta, HOPPER)
    assert found == (None if value is None else pytest.approx(value))


@pytest.mark.usefixtures("trained")
def test_only_what_is_missing_would_be_trained() -> None:
    thetas = [0.25 + 0.01 * step for step in range(60)]  # a grid of 0.2, 0.4 … 1
    assert trainings_missing("hopper", thetas, HOPPER) == 1
    assert trainings_missing("hopper", [1.0], HOPPER) == 0
    assert trainings_missing("ant", [1.0], TASKS["ant"].environment) == 1
    assert trainings_missing("pendulum", thetas, TASKS["pendulum"].environment) == 0

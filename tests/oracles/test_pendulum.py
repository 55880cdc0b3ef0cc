"""J*(θ) of the pendulum end to end, on coarse grids."""

import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.errors import InputError
from driftrl.oracles.dynamic_programming import Grid
from driftrl.oracles.pendulum import optimal_return
from driftrl.oracles.table import Optimum, StoredOracle

COARSE = Grid(90, 91, 11)
HANGING = EnvironmentConfig(sim_steps=200, action_repeat=5)


@pytest.fixture(scope="module")
def optima() -> dict[float, Optimum]:
    return {theta: optimal_return(theta, HANGING, COARSE) for theta in (0.0, 2.0, 5.0)}


def test_without_torque_it_hangs(optima: dict[float, Optimum]) -> None:
    assert optima[0.0].value == pytest.approx(-200 * np.pi**2, rel=1e-6)
    assert optima[0.0].error < 0.2
    assert optima[0.0].std == 0.0


def test_the_value_is_the_best_that_was_achieved(optima: dict[float, Optimum]) -> None:
    for optimum in optima.values():
        achieved = {
            name: value
            for name, value in optimum.candidates.items()
            if not name.startswith("value")
        }
        assert optimum.value == max(achieved.values()) == achieved[optimum.method]
        assert {"greedy policy", "iCEM"} < set(achieved)


def test_the_error_covers_dynamic_programming_on_both_grids(
    optima: dict[float, Optimum],
) -> None:
    for optimum in optima.values():
        for grid in ("fine", "coarse"):
            promised = optimum.candidates[f"value, {grid} grid"]
            assert abs(promised - optimum.value) <= optimum.error + 1e-9


@pytest.mark.parametrize("theta", [2.0, 5.0])
def test_shipped_values_are_found_again_on_a_coarse_grid(
    optima: dict[float, Optimum], theta: float
) -> None:
    shipped = StoredOracle("pendulum", HANGING).table([theta]).entries[0]
    again = optima[theta]
    assert shipped.source == "shipped"
    assert abs(shipped.value - again.value) <= shipped.error + again.error
    assert shipped.error <= 1.01 * again.error
    assert again.value == pytest.approx(shipped.value, rel=0.01)


def test_random_starts_with_one_decision_have_a_closed_form() -> None:
    # Not acting is best: E[−φ² − 0.1 ω²] with φ ~ U(−π, π), ω ~ U(−1, 1).
    environment = EnvironmentConfig(sim_steps=1, action_repeat=1, start="random")
    optimum = optimal_return(3.0, environment, COARSE)
    mean = -(np.pi**2) / 3.0 - 0.1 / 3.0
    std = np.sqrt(4.0 / 45.0 * (np.pi**4 + 0.1**2))
    assert optimum.value == pytest.approx(mean, abs=0.02)
    assert abs(optimum.value - mean) <= optimum.error
    assert optimum.std == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize("theta", [-0.1, float("nan"), float("inf")])
def test_an_impossible_torque_is_refused(theta: float) -> None:
    with pytest.raises(InputError):
        optimal_return(theta, HANGING)

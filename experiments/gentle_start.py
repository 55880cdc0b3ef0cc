"""A gentle start and limits on three machines that change: what they cost and bring.

A geared motor whose friction grows elevenfold, a cart-pole whose cart gains mass, and
the two tanks of ``examples/my_machine.py`` whose valve clogs.  A PD has driven for 20
episodes and left a log; then the learner drives on the same days.  Ways:

    guided     from the log, with the PD as initial controller
    plain      the same agent without log and PD
    today      the agent that custom environments have by default, without them
    limited    plain, with a limit of states that the model must keep away from
    rate       plain, with a limited rate of the actions that the learner knows;
               plain's own policy is driven with that limit put on afterwards

Prints for each machine, by seed: the worst episode after the log over the PD's own
worst there, the mean return of the last ten beside that of the best fixed PD, which a
search finds on those ten, and violations per 1,000 steps, of all episodes and of those
after the random ones at the start; and the return of the last policy on the last ten
days at the limited rate, without exploration.  With both plain and limited, what the
limit brings in violations and costs in return after the random episodes.

The limits of states are such that something can keep them: the motor's speed is as slow
as one likes, the upper tank is below its limit after a decision without the pump,
wherever it starts, and a PD of gains (3, 6, 100, 20) keeps the cart's speed below 0.86
on 160 days of the seeds 110 to 129, limit 1.  That was decided with the tuning seeds
100 to 102; the limit of 0.8, as it was first, was kept by one of eight PDs, whose
return was three times as bad.

    python experiments/gentle_start.py --seeds 0 1 2 3 4
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from driftrl.training.process import prepare

prepare(os.environ)
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "examples")]

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402
from scipy.optimize import differential_evolution  # noqa: E402

import driftrl  # noqa: E402
from driftrl.config.deep import EnsembleAgentConfig  # noqa: E402
from driftrl.training.logs import Logged  # noqa: E402
from driftrl.training.streams import Purpose, integer_for  # noqa: E402

Tanks = import_module("my_machine").Tanks
LOGGED, LAST = 20, 10
WAYS = ("guided", "plain", "today", "limited", "rate")
AGENT: dict[str, Any] = asdict(EnsembleAgentConfig())
"""The gradient through the model without optimism: a gentle start explores nearby."""
AGENT["optimism"]["weight"] = 0.0
AGENT["learning"]["learning_starts"] = 128  # episodes are short
Gains = tuple[float, ...]


class Machine(gymnasium.Env[np.ndarray, np.ndarray]):
    """What the motor and the cart-pole share: a state, and a number of steps."""

    steps = 50
    volts = 12.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, self.rest().shape)
        self.action_space = spaces.Box(-self.volts, self.volts, (1,))
        self.state, self.day = self.rest(), 1

    def rest(self) -> np.ndarray:
        """Return the state at rest."""
        raise NotImplementedError

    def start(self) -> np.ndarray:
        """Draw the state that an episode starts from."""
        raise NotImplementedError

    def advance(self, command: float) -> float:
        """Move the state by a step; return the reward."""
        raise NotImplementedError

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a day."""
        super().reset(seed=seed)
        self.day = (options or {}).get("episode", self.day + 1)
        self.state, self.left = self.start(), self.steps
        return self.state.astype(np.float32), {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold a command."""
        reward = self.advance(float(np.clip(action[0], -self.volts, self.volts)))
        self.left -= 1
        return self.state.astype(np.float32), reward, False, self.left == 0, {}


class Motor(Machine):
    """Turn a geared motor to its goal: (goal − angle, speed/10), in radians and s."""

    def rest(self) -> np.ndarray:
        """Return zeros."""
        return np.zeros(2)

    def start(self) -> np.ndarray:
        """Draw the state."""
        return np.array([self.np_random.uniform(-2.0, 2.0), 0.0])

    def advance(self, command: float) -> float:
        """Turn against the friction of the day."""
        worn = 1.0 + 10.0 * min(max(self.day - 30, 0) / 15.0, 1.0)
        error, speed = self.state[0], 10.0 * self.state[1]
        for _ in range(5):
            friction = 0.05 * worn * np.tanh(speed / 0.1) + 0.02 * worn * speed
            speed += 0.01 * (command - 0.5 * speed - 6.0 * friction) / 0.3
            error -= 0.01 * speed
        self.state = np.array([error, speed / 10.0])
        return -float(error**2) - 2e-4 * command**2


class CartPole(Machine):
    """Balance a pole in the middle: (place, speed, angle, angular speed)."""

    steps = 100
    volts = 20.0

    def rest(self) -> np.ndarray:
        """Return zeros."""
        return np.zeros(4)

    def start(self) -> np.ndarray:
        """Draw the state."""
        return self.np_random.uniform(-1.0, 1.0, 4) * [0.8, 0.1, 0.15, 0.1]

    def advance(self, command: float) -> float:
        """Push the cart of the day."""
        cart = 1.0 + 3.0 * min(max(self.day - 30, 0) / 15.0, 1.0)
        pole, length = 0.1, 0.5
        x, v, angle, turn = self.state
        for _ in range(2):
            sin, cos = np.sin(angle), np.cos(angle)
            push = (command + pole * length * turn**2 * sin) / (cart + pole)
            inertia = length * (4.0 / 3.0 - pole * cos**2 / (cart + pole))
            turning = (9.8 * sin - cos * push) / inertia
            speeding = push - pole * length * turning * cos / (cart + pole)
            x, v = x + 0.02 * v, v + 0.02 * speeding
            angle, turn = angle + 0.02 * turn, turn + 0.02 * turning
            if abs(angle) > 1.2:  # it lies on its stop
                angle, turn = float(np.clip(angle, -1.2, 1.2)), 0.0
            if abs(x) > 2.5:
                x, v = float(np.clip(x, -2.5, 2.5)), 0.0
        self.state = np.array([x, v, angle, turn])
        return -float(x**2 + 5.0 * angle**2 + 1e-3 * command**2)


def motor_pd(obs: np.ndarray, gains: Gains = (10.0, 12.0)) -> float:
    """Return the voltage for a motor."""
    return float(gains[0] * obs[0] - gains[1] * obs[1])


def cart_pole_pd(obs: np.ndarray, gains: Gains = (6.0, 8.0, 80.0, 15.0)) -> float:
    """Return the force on a cart: a PD of its place, and one of the pole."""
    return float(np.dot(gains, obs))


def tanks_pd(obs: np.ndarray, gains: Gains = (20.0, 5.0)) -> float:
    """Return the voltage of the pump: what holds the level when new, and a PD."""
    upper, lower, goal = obs
    hold = 6.0 * np.sqrt(max(goal, 0.0))
    return float(hold + gains[0] * (goal - lower) - gains[1] * (upper - lower))


class Plant(NamedTuple):
    """A machine, its PD, where a search looks for a better one, and limits."""

    make: Callable[[], gymnasium.Env[Any, Any]]
    pd: Callable[..., float]
    box: tuple[tuple[float, float], ...]
    state: tuple[float, float, float]
    rate: float
    rest: float = 0.0


PLANTS = {
    "motor": Plant(Motor, motor_pd, ((0, 100), (0, 100)), (1, -0.35, 0.35), 0.2),
    "cart_pole": Plant(
        CartPole,
        cart_pole_pd,
        ((0, 20), (0, 20), (10, 150), (0, 40)),
        (1, -1.0, 1.0),
        0.2,
    ),
    "tanks": Plant(Tanks, tanks_pd, ((0, 100), (0, 50)), (0, -1.0, 0.85), 0.2, -1.0),
}


def drive(
    plant: Plant, seed: int, day: int, act: Callable[[np.ndarray], Any]
) -> Logged:
    """Return a day as something else drives it."""
    env, space = plant.make(), plant.make().action_space
    assert isinstance(space, spaces.Box)
    start = integer_for(seed, Purpose.ENVIRONMENT, day)
    obs, _ = env.reset(seed=start, options={"episode": day})
    rows, actions, rewards, over = [obs], [], [], False
    while not over:
        action = np.clip(np.atleast_1d(act(obs)), space.low, space.high)
        obs, reward, _, over, _ = env.step(action)
        rows.append(obs)
        actions.append(action)
        rewards.append(float(reward))
    return Logged(np.array(rows, float), np.array(actions), np.array(rewards))


def returns_of(
    plant: Plant, seed: int, days: range, act: Callable[[np.ndarray], Any]
) -> list[float]:
    """Return what days earn that something else drives."""
    return [float(drive(plant, seed, day, act).rewards.sum()) for day in days]


def best_pd(plant: Plant, seed: int, days: range) -> float:
    """Return the mean return of the best fixed PD on some days, by a search on them."""

    def cost(gains: np.ndarray) -> float:
        return -fmean(returns_of(plant, seed, days, partial(plant.pd, gains=gains)))

    found = differential_evolution(
        cost, plant.box, maxiter=12, popsize=8, rng=seed, polish=False, tol=1e-4
    )
    return -float(found.fun)


def settings_of(plant: Plant, way: str, seed: int, days: int) -> dict[str, Any]:
    """Return the settings of a run."""
    entry, low, high = plant.state
    limits: dict[str, Any] = {"states": [[entry, low, high]], "price": 0.0}
    if way == "limited":
        limits["price"] = 10.0
    if way == "rate":
        limits |= {"rate": plant.rate, "rest": [plant.rest]}
    settings: dict[str, Any] = {"environment": {"limits": limits}, "seed": seed}
    if way != "today":
        settings["agent"] = AGENT
    settings["environment"]["sim_steps"] = len(drive(plant, 0, 1, plant.pd).rewards)
    if way == "guided":
        path = f"gentle_start:{plant.pd.__name__}"
        settings["initial"] = {"controller": path, "episodes": LOGGED}
    return {**settings, "episodes": days}


def learn(name: str, way: str, seed: int, days: int, out: Path) -> dict[str, Any]:
    """Run a way; return its rows, and the return of its policy on the last days."""
    plant = PLANTS[name]
    directory = out / f"{name}-{way}-{seed}"
    settings = settings_of(plant, way, seed, days)
    if way == "guided":
        log = [drive(plant, seed, day, plant.pd) for day in range(1, LOGGED + 1)]
        driftrl.import_log(log, directory, task=plant.make(), settings=settings)
    trained = driftrl.train(
        plant.make(), episodes=days, out=directory, settings=settings
    )
    rows = trained.records
    last = range(days - LAST + 1, days + 1)
    result: dict[str, Any] = {
        "returns": [row.return_executed for row in rows],
        "violations": [row.violations for row in rows],
        "steps": [row.steps for row in rows],
        "reach": [row.reach for row in rows],
        "seconds": sum(row.wall_s for row in rows),
    }
    if way in ("plain", "rate"):
        driver = partial(Limited, trained, plant, known=way == "rate")
        runs = [drive(plant, seed, day, driver()) for day in last]
        result["limited_return"] = fmean(float(run.rewards.sum()) for run in runs)
        result["largest_change"] = max(largest_change(plant, run) for run in runs)
    return result


class Limited:
    """A policy at a limited rate, which it knows or which filters what it wants."""

    def __init__(self, trained: Any, plant: Plant, *, known: bool) -> None:
        self._trained, self._known, self._rate = trained, known, plant.rate
        self._before = np.array([plant.rest])

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return the command."""
        plant = self._trained.plant
        if self._known:
            command = self._trained.act(obs, plant.command(self._before))
        else:
            wanted = plant.share(self._trained.act(obs))
            near = np.clip(wanted, self._before - self._rate, self._before + self._rate)
            command = plant.command(near)
        self._before = plant.share(command)
        return command


def largest_change(plant: Plant, run: Logged) -> float:
    """Return the largest change of an action, of −1 to 1, in a run from rest."""
    space = plant.make().action_space
    assert isinstance(space, spaces.Box)
    shares = 2.0 * (run.actions - space.low) / (space.high - space.low) - 1.0
    return float(np.abs(np.diff(shares, axis=0, prepend=plant.rest)).max())


def stored(path: Path, make: Callable[[], Any]) -> Any:
    """Return what a file holds, or make it and store it there."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        result = make()
        path.write_text(json.dumps(result))
    return json.loads(path.read_text())


def summary(name: str, seed: int, days: int, ways: list[str], out: Path) -> str:
    """Run the ways on a machine with a seed, and say what came of them."""
    plant, last = PLANTS[name], range(days - LAST + 1, days + 1)

    def by_pd() -> dict[str, Any]:
        fixed = returns_of(plant, seed, range(1, days + 1), plant.pd)
        return {"returns": fixed, "best": best_pd(plant, seed, last)}

    file = f"{name}-{{}}-{seed}-{days}.json"
    pd = stored(out / file.format("pd"), by_pd)
    worst = min(pd["returns"])
    lines = [
        f"{name}, seed {seed}: PD worst {worst:.2f}, last ten "
        f"{fmean(pd['returns'][-LAST:]):.2f}; best fixed PD there {pd['best']:.2f}"
    ]
    after: dict[str, tuple[float, float, float]] = {}
    for way in ways:
        made = partial(learn, name, way, seed, days, out)
        run = stored(out / file.format(way), made)
        own = slice(LOGGED if way == "guided" else 0, None)
        random = AGENT["learning"]["learning_starts"]
        learned = sum(before < random for before in np.cumsum([0, *run["steps"]]))
        per = [
            1000 * sum(run["violations"][first:]) / sum(run["steps"][first:])
            for first in (own.start, max(own.start, int(learned)))
        ]
        late = fmean(run["returns"][max(own.start, int(learned)) :])
        after[way] = per[1], late, fmean(run["returns"][-LAST:])
        free = sum(reach == 2.0 for reach in run["reach"])
        text = (
            f"  {way:8} worst {min(run['returns'][own]):8.2f} = "
            f"{min(run['returns'][own]) / worst:5.2f} of the PD's, last ten "
            f"{fmean(run['returns'][-LAST:]):8.2f}, violations per 1,000 steps "
            f"{per[0]:5.1f}, {per[1]:5.1f} after the random ones, "
            f"free {free}, {run['seconds']:.0f} s"
        )
        if "limited_return" in run:
            kind = "rate known" if way == "rate" else "filtered"
            text += (
                f"; {kind}: {run['limited_return']:.2f}, "
                f"largest change {run['largest_change']:.6f}"
            )
        lines.append(text)
    if {"plain", "limited"} <= after.keys():
        before, kept = after["plain"], after["limited"]
        share, *price = kept[0] / max(before[0], 1e-9), *np.subtract(before, kept)[1:]
        lines.append(
            f"  limit: {share:.3f} of the violations, at a price of {price[0]:.2f} in "
            f"the mean return after the random ones, {price[1]:.2f} in the last ten"
        )
    return "\n".join(lines)


def main() -> None:
    """Run every way on every machine with every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--plants", nargs="+", default=[*PLANTS], choices=[*PLANTS])
    parser.add_argument("--ways", nargs="+", default=[*WAYS], choices=WAYS)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("runs/gentle_start"))
    asked = parser.parse_args()
    for name in asked.plants:
        for seed in asked.seeds:
            text = summary(name, seed, asked.episodes, asked.ways, asked.out)
            print(text, flush=True)


if __name__ == "__main__":
    main()

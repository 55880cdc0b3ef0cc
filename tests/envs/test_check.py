"""What the checker reports of environments, good and bad."""

import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.envs.check import Report, check
from driftrl.envs.custom import sized_task
from driftrl.errors import InputError

LEVELS = spaces.Box(-np.inf, np.inf, (2,), np.float64)
VALVES = spaces.Box(0.0, 1.0, (2,), np.float64)


class Tanks(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two tanks with a valve each; any part can be replaced."""

    def __init__(
        self,
        *,
        observed: spaces.Space[Any] = LEVELS,
        acted: spaces.Space[Any] = VALVES,
        observe: Callable[[np.ndarray], Any] = np.copy,
        pay: Callable[[np.ndarray], Any] = lambda levels: -float(levels.sum()),
        fails_after: int | None = None,
        stops_after: int | None = 30,
    ) -> None:
        self.observation_space, self.action_space = observed, acted
        self.observe, self.pay = observe, pay
        self.fails_after, self.stops_after = fails_after, stops_after

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.levels, self.count = self.np_random.uniform(size=2), 0
        return self.observe(self.levels), {}

    def step(self, action: np.ndarray) -> Any:
        self.levels = 0.9 * self.levels + 0.1 * action
        self.count += 1
        ended, late = self.count == self.fails_after, self.count == self.stops_after
        return self.observe(self.levels), self.pay(self.levels), ended, late, {}


def report_of(**changes: Any) -> Report:
    return check(lambda: Tanks(**changes), "tanks", episodes=2)


def test_a_good_environment() -> None:
    report = check(lambda: TimeLimit(Tanks(), 25), "tanks", episodes=3)
    assert report.ok and report.errors == report.warnings == ()
    assert report.facts["Gymnasium's checker"] == "no objection"
    assert report.facts["random episodes"].startswith("3 of 25 to 25 steps; 0 term")
    task = sized_task("tanks", (2, 2), 25)
    assert isinstance(task.agent, EnsembleAgentConfig)
    assert report.settings == {
        "environment.sim_steps": 25,
        "agent.imagination.termination": "learned",
        "agent.learning.learning_starts": task.agent.learning.learning_starts,
        "agent.sac.batch_size": task.agent.sac.batch_size,
        "agent.sac.hidden": [*task.agent.sac.hidden],
        "forgetting.window": task.window,
    }


class WithoutOptions(Tanks):
    def reset(self, *, seed: int | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().reset(seed=seed)


class FourResults(Tanks):
    def step(self, action: np.ndarray) -> Any:
        return super().step(action)[:4]


class Raises(Tanks):
    def step(self, action: np.ndarray) -> Any:
        if self.count == 4:
            raise ZeroDivisionError
        return super().step(action)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Tanks(observed=spaces.Dict({"x": LEVELS})), "FlattenObservation"),
        (lambda: Tanks(acted=spaces.Box(-np.inf, np.inf, (2,))), "finite bounds"),
        (lambda: Tanks(acted=spaces.Discrete(3)), "Discrete"),
        (WithoutOptions, r"reset\(\) of WithoutOptions"),
        (lambda: Tanks(observe=lambda levels: levels * np.nan), "nan"),
        (lambda: Tanks(observe=lambda levels: np.zeros(3)), r"\(3,\)"),
        (lambda: Tanks(pay=lambda levels: np.inf), "reward .* inf"),
        (lambda: Tanks(pay=lambda levels: np.ones(1)), r"reward .* \(1,\)"),
        (FourResults, "expected 5"),
        (Raises, "number 5 raised ZeroDivisionError"),
    ],
)
def test_what_must_be_fixed(make: Callable[[], Any], error: str) -> None:
    report = check(make, "tanks")
    assert not report.ok and report.warnings == ()
    (sentence,) = report.errors
    assert re.search(error, sentence), sentence


FOUR: dict[str, Any] = {
    "observed": spaces.Box(-1e9, 1e9, (4,), np.float64),
    "observe": lambda levels: np.array([*levels, 3.0, 1e4 * levels[0]]),
}
KELVIN: dict[str, Any] = {"observe": lambda levels: [1, 0.01] * levels + [300, 0]}
FIXED = spaces.Box(np.array([0.0, 2.0]), np.array([1.0, 2.0]), dtype=np.float64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"acted": FIXED}, "values are equal"),
        ({"observed": spaces.Box(0.0, 0.01, (2,), np.float64)}, "not within the obs"),
    ],
)
def test_gymnasium_objects(changes: dict[str, Any], words: str) -> None:
    report = report_of(**changes)
    assert report.ok and words in report.facts["Gymnasium's checker"]
    assert any("objects (see below)" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (FOUR, ["never changed: 2 (counted", "Large observations", ": 3 (counted"]),
        (KELVIN, ["hardly vary", ": 0, 1 (counted"]),
        ({"acted": spaces.Box(0, 9, (2,), np.int32)}, ["integers"]),
        ({"pay": lambda levels: 0.5}, ["0.5 at every step"]),
        ({"pay": lambda levels: 1e-4 * float(levels.sum())}, ["largest reward"]),
        ({"stops_after": None}, ["No episode ended within 1000 steps"]),
        ({"fails_after": 12}, ["terminated after exactly 12 steps"]),
        ({"stops_after": 2}, ["40 transitions", "never learn"]),
    ],
)
def test_warnings(changes: dict[str, Any], words: list[str]) -> None:
    report = report_of(**changes)
    assert report.ok
    text = " ".join(report.warnings)
    assert all(word in text for word in words), text
    assert report_of().warnings == ()


class Wearing(Tanks):
    """Wears by the episode in the options, or else by its own count."""

    episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode = (options or {}).get("episode", self.episode + 1)
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> Any:
        return super().step(action / self.episode)


class Unseeded(Tanks):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=None)


class Numbered(Tanks):
    """Differs between instances."""

    instances = 0

    def __init__(self) -> None:
        super().__init__()
        Numbered.instances += 1
        self.instance = Numbered.instances

    def step(self, action: np.ndarray) -> Any:
        return super().step(action / self.instance)


class Counting(Tanks):
    """Wears from its 50th reset on, whatever the options say."""

    resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.resets += 1
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> Any:
        return super().step(action / max(1, self.resets - 50))


@pytest.mark.parametrize(
    ("make", "start"),
    [
        (Counting, "It drifts by a count of its own"),
        (Wearing, "It drifts on its own"),
        (Unseeded, "The same seed and actions give another episode"),
        (Numbered, "A second instance"),
    ],
)
def test_repeatability(make: Callable[[], Any], start: str) -> None:
    report = check(make, "tanks", episodes=2)
    assert report.warnings[0].startswith(start)
    assert report.facts["episodes 1 and 100"] == (
        "alike" if make in (Counting, Numbered) else "differ"
    )


def test_time_and_episodes_are_limited() -> None:
    report = check(lambda: Tanks(stops_after=None), "tanks", seconds=1e-6)
    assert report.facts["random episodes"].startswith("1 of 1 to 1 steps")
    for options in ({"episodes": 0}, {"seconds": 0.0}, {"seed": -1}):
        with pytest.raises(InputError):
            check(Tanks, "tanks", **options)  # pyright: ignore[reportArgumentType]

"""What is worth knowing of an environment, and what a run on it would assume."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from driftrl.envs.advice import default_rows, remarks, rows
from driftrl.envs.custom import custom_task, task_of
from driftrl.envs.inspection import Findings, defaults_for, inspect

LEVELS = spaces.Box(-np.inf, np.inf, (2,), np.float64)
VALVES = spaces.Box(0.0, 1.0, (2,), np.float64)


class Tanks(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two tanks with a valve each, which can be made strange in several ways."""

    def __init__(
        self,
        *,
        observed: spaces.Box = LEVELS,
        chosen: spaces.Box = VALVES,
        see: Callable[[np.ndarray], np.ndarray] = np.copy,
        pay: Callable[[np.ndarray], float] = lambda levels: -float(levels.sum()),
        fails_after: int | None = None,
        stops_after: Callable[[], int] | None = lambda: 30,
    ) -> None:
        self.observation_space, self.action_space = observed, chosen
        self.see, self.pay = see, pay
        self.fails_after, self.stops_after = fails_after, stops_after

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.levels, self.count = self.np_random.uniform(size=2), 0
        self.limit = None if self.stops_after is None else self.stops_after()
        return self.see(self.levels), {}

    def step(self, action: np.ndarray) -> Any:
        self.levels = 0.9 * self.levels + 0.1 * action
        self.count += 1
        failed = self.fails_after is not None and self.count >= self.fails_after
        late = self.limit is not None and self.count >= self.limit
        return self.see(self.levels), self.pay(self.levels), failed, late, {}


def found_of(episodes: int = 2, **changes: Any) -> Findings:
    return inspect(lambda: Tanks(**changes), "tanks", episodes=episodes)


STUCK = spaces.Box(np.array([0.0, 2.0]), np.array([1.0, 2.0]), dtype=np.float64)
FOUR = spaces.Box(-1e9, 1e9, (4,), np.float64)
STRANGE: dict[str, Any] = {
    "observed": FOUR,
    "see": lambda levels: np.array([*levels, 3.0, 1e4 * levels[0]]),
}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"stops_after": None},
            "It never ended in 1000 steps and declares no limit: say how long",
        ),
        ({"fails_after": 1}, "Every random episode ended with its first step"),
        (
            {"fails_after": 12},
            "Every random episode was terminated after exactly 12 steps. This looks "
            "like a clock: return truncated when the time is up",
        ),
        (STRANGE, r"Observation 2 \(from 0\) never changed: nothing can be learned"),
        (STRANGE, r"Observation 3 \(from 0\) reached \d+, and the policy takes obs"),
        (
            {"see": lambda levels: 1e5 * levels},
            r"Observations 0, 1 \(from 0\) reached \S+e\+04, and the policy takes",
        ),
        (
            {"see": lambda levels: levels.astype(np.float32)},
            "Observations are returned as float32, and observation_space declares "
            "float64: declare what is returned",
        ),
        (
            {"chosen": spaces.Box(0, 9, (2,), np.int32)},
            "Actions are whole numbers: driftrl commands real ones, of which the part",
        ),
        (
            {"observed": spaces.Box(0.0, 0.01, (2,), np.float64)},
            r"Observations 0, 1 \(from 0\) left the bounds that observation_space",
        ),
        ({"chosen": STUCK}, r"Action 1 \(from 0\) can't be moved: low and high are"),
        ({"pay": lambda _: 0.0}, "The reward was 0 at every step: a learner sees what"),
        (
            {"pay": lambda levels: 900 * float(levels.sum())},
            r"The largest reward was \d+: scale rewards to about ±1",
        ),
        (
            {"pay": lambda levels: -1e-4 * float(levels.sum())},
            r"The largest reward was -0.000\d+, which is little beside the bonus",
        ),
    ],
)
def test_what_should_be_known(changes: dict[str, Any], sentence: str) -> None:
    found = found_of(**changes)
    assert found.learnable
    known = " ".join(remarks(found))
    assert len(re.findall(sentence, known)) == 1, known


def test_a_clock_is_told_from_a_failure() -> None:
    counts = itertools.count(12)

    class Falls(Tanks):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.fails_after = next(counts)
            return super().reset(seed=seed)

    assert "clock" not in " ".join(remarks(inspect(Falls, "tanks", episodes=2)))
    once = remarks(found_of(episodes=1, fails_after=12))
    assert "clock" not in " ".join(once)


def test_flags_that_are_no_truth_values_are_named() -> None:
    class Silent(Tanks):
        def step(self, action: np.ndarray) -> Any:
            obs, reward, _, truncated, info = super().step(action)
            return obs, reward, None, np.bool_(truncated), info

    known = remarks(inspect(Silent, "tanks", episodes=2))
    assert known == (
        "step() returned terminated = None, which counts as False: return True or "
        "False.",
    )


def test_nothing_is_remarked_of_good_tanks() -> None:
    assert remarks(found_of()) == ()
    assert "finite bounds, not symmetric" in dict(rows(found_of()))["actions"]


class Wearing(Tanks):
    """Wears by the episode it is told, or else by its own count."""

    episode, told = 0, []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.told.append(options)
        self.episode = (options or {}).get("episode", self.episode + 1)
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> Any:
        return super().step(action / self.episode)


def test_a_simulation_that_is_told_its_wear_can_be_repeated() -> None:
    found = inspect(Wearing, "tanks", episodes=3)
    assert found.repeats is not None
    assert (found.repeats.here, found.repeats.elsewhere) == (None, None)
    (known,) = remarks(found)
    assert known.startswith(
        "It drifts by itself: the same seed and actions give the same episode, bit for "
        "bit, if reset is told which one it is, as a run tells it, and another one if "
        "not (observations differ from step 1 on, by up to "
    )
    assert dict(rows(found))["told no episode"] in known
    assert Wearing.told[:5] == [
        {"episode": 1, "steps": 0},
        {"episode": 2, "steps": 30},
        {"episode": 3, "steps": 60},
        {"episode": 1, "steps": 0},
        None,
    ]


# ---- what follows --------------------------------------------------------------------


def shorter() -> Callable[[], int]:
    """Return a clock that stops an episode a step sooner every time."""
    lengths = itertools.count(20, -1)
    return lambda: next(lengths)


ASSUMED = "assumed, as the environment declares no limit; "


@pytest.mark.parametrize(
    ("make", "lasts", "reason"),
    [
        (lambda: TimeLimit(Tanks(), 25), 25, "the environment declares it"),
        (
            Tanks,
            30,
            ASSUMED + "its clock ended random episodes after 30: give "
            "--environment.sim_steps 30",
        ),
        (
            lambda: Tanks(stops_after=shorter()),
            20,
            ASSUMED + "its clock ended random episodes after 20 at the latest: give "
            "--environment.sim_steps 20",
        ),
        (lambda: Tanks(stops_after=None), 200, ASSUMED + "choose what an attempt"),
        (
            lambda: Tanks(stops_after=None, fails_after=12),
            200,
            ASSUMED + "choose what an attempt takes, as --environment.sim_steps",
        ),
        (
            lambda: Tanks(stops_after=None, fails_after=300),
            300,
            ASSUMED + "choose what an attempt takes",
        ),
    ],
)
def test_length_of_an_episode(make: Callable[[], Any], lasts: int, reason: str) -> None:
    defaults = defaults_for(inspect(make, "tanks", episodes=3))
    assert defaults.lasts == lasts
    assert defaults.reasons["steps"].startswith(reason)
    # What a run and a robot take it to be, which is no guess of the trial's.
    task = task_of("tanks", make())
    assert defaults.steps == task.environment.sim_steps
    assert defaults.steps == (25 if lasts == 25 else 1000)
    assert ("1000 steps are assumed" in task.notes) == (lasts != 25)


def test_defaults_are_those_that_a_run_starts_from() -> None:
    found = inspect(lambda: TimeLimit(Tanks(), 25), "tanks")
    defaults, task = defaults_for(found), custom_task("tanks", (2, 2), 25)
    agent: Any = task.agent
    assert defaults.hidden == agent.sac.hidden == agent.model.hidden
    assert defaults.batch == agent.sac.batch_size
    assert defaults.learning_starts == agent.learning.learning_starts
    assert defaults.termination == agent.imagination.termination
    assert defaults.forget_after == task.window == task.reset_period
    assert all(value and why for _, value, why in default_rows(defaults))
    waits = -(-defaults.learning_starts // 25)
    assert defaults.reasons["learning_starts"].endswith(f"until then: {waits}")
    assert f"up to {25 * task.window} transitions" in defaults.reasons["forget_after"]


def test_why_an_end_is_learned() -> None:
    falls = found_of(episodes=5, fails_after=12)
    assert defaults_for(falls).reasons["termination"] == "5 of 5 random episodes ended"
    assert dict(rows(falls))["end of the task"] == "seen in 5 of 5 random episodes"
    unseen = defaults_for(found_of(episodes=5)).reasons["termination"]
    assert unseen.startswith("none of 5 random episodes ended, which proves nothing")


def test_too_little_to_learn_from_is_noticed() -> None:
    found = found_of(stops_after=lambda: 2)
    (known,) = remarks(found)
    defaults = defaults_for(found)
    assert known.startswith(f"{defaults.forget_after} episodes of 2 steps are ")
    assert "a method that forgets would never learn" in known

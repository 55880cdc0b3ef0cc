"""What is found of environments, good and bad, and what is said of it."""

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from driftrl.envs.advice import remarks, rows, verdict
from driftrl.envs.inspection import (
    Findings,
    declared,
    defaults_for,
    difference,
    gymnasium_says,
    inspect,
)
from driftrl.envs.trial import Trial, drive, limited, random_actions
from driftrl.errors import InputError

ACTIONS = spaces.Box(-2.0, 2.0, (1,))


class Cart(gymnasium.Env[np.ndarray, np.ndarray]):
    """A mass pushed about: the good one, from which the others differ."""

    observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space: spaces.Space[Any] = ACTIONS
    steps: int | None = 30

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=2)
        self.count = 0
        return self.observe(), {}

    def step(self, action: np.ndarray) -> Any:
        x, v = self.state
        v = v + 0.1 * float(action[0])
        self.state = np.array([x + 0.1 * v, v])
        self.count += 1
        return self.observe(), self.reward(), self.failed(), self.late(), {}

    def observe(self) -> Any:
        return self.state.copy()

    def reward(self) -> Any:
        return -abs(float(self.state[0]))

    def failed(self) -> bool:
        return False

    def late(self) -> bool:
        return self.steps is not None and self.count >= self.steps


def found_of(make: Callable[[], Any], **options: Any) -> Findings:
    return inspect(make, "cart", **options)


def row(findings: Findings, name: str) -> str:
    return dict(rows(findings))[name]


# ---- the good one --------------------------------------------------------------------


def test_a_good_environment() -> None:
    found = found_of(lambda: TimeLimit(Cart(), 30))
    assert found.learnable and verdict(found) == "cart can be learned."
    assert found.sizes == (2, 1) and found.limit == 30
    assert (found.low, found.high) == ((-2.0,), (2.0,))
    assert found.checker == () and remarks(found) == ()
    assert found.repeats is not None and found.repeats.steps == 30
    assert (found.repeats.here, found.repeats.elsewhere) == (None, None)
    said = dict(rows(found))
    assert said["observations"].endswith("(2,), float64), not all within finite bounds")
    assert "finite bounds, symmetric; driftrl scales [−1, 1]" in said["actions"]
    assert said["Gymnasium's checker"] == "no objection"
    assert said["episode"] == (
        "declares 30 steps at most; random ones took 30 steps, the clock ended 5 of 5"
    )
    assert said["end of the task"] == "not seen in 5 random episodes"
    assert said["same seed again"] == said["second instance"] == "the same, bit for bit"


def test_statistics_are_those_of_the_episodes_driven() -> None:
    found = found_of(Cart, episodes=3, seed=5).driven
    assert found is not None
    trials = [
        drive(
            Cart(),
            limited(random_actions(ACTIONS, 5 + n, held=n == 1), 99, np.inf),
            seed=5 + n,
        )
        for n in range(3)
    ]
    rewards = np.concatenate([trial.rewards for trial in trials])
    seen = np.concatenate([trial.observations for trial in trials])
    assert found.lengths == (30, 30, 30) and found.cut is None
    assert (found.terminated, found.truncated) == (0, 3)
    assert found.reward_mean == pytest.approx(rewards.mean(), rel=1e-12)
    assert found.reward_spread == pytest.approx(rewards.std(), rel=1e-12)
    assert found.reward_largest == rewards.min()
    assert found.lowest == tuple(seen.min(axis=0).tolist())
    assert found.highest == tuple(seen.max(axis=0).tolist())
    assert found.step_ms > 0


def test_asking_does_not_touch() -> None:
    class Alone(Cart):
        def reset(self, **_: Any) -> Any:
            raise AssertionError

        def step(self, action: np.ndarray) -> Any:
            raise AssertionError

    found = declared(TimeLimit(Alone(), 7), "alone")
    assert (found.sizes, found.limit, found.driven) == ((2, 1), 7, None)
    assert found.checker is None and row(found, "Gymnasium's checker") == "not asked"
    assert row(found, "episode") == "declares 7 steps at most"
    assert defaults_for(found).reasons["termination"].startswith("right whether")


def test_random_actions_fill_their_bounds_and_are_held() -> None:
    space = spaces.Box(np.array([0.0, -3.0]), np.array([1.0, 5.0]), dtype=np.float64)
    for held, different in ((False, 400), (True, 40)):
        draw = random_actions(space, 1, held=held)
        drawn = np.array([draw(step) for step in range(400)])
        assert len(np.unique(drawn[:, 0])) == different
        assert (drawn >= space.low).all() and (drawn <= space.high).all()
        assert np.ptp(drawn, axis=0) == pytest.approx([1.0, 8.0], rel=0.15)


# ---- what must be mended -------------------------------------------------------------


class Nested(Cart):
    observation_space = spaces.Dict({"x": spaces.Box(-1.0, 1.0, (2,))})


class Unbounded(Cart):
    action_space = spaces.Box(-np.inf, np.inf, (1,))


class Choices(Cart):
    action_space = spaces.Discrete(3)


class Breaks(Cart):
    """Returns NaN as the fifth observation after the reset."""

    def observe(self) -> Any:
        return self.state * (np.nan if self.count >= 5 else 1.0)


class Unpaid(Cart):
    def reward(self) -> Any:
        return np.inf if self.count == 3 else 0.0


class Wide(Cart):
    def observe(self) -> Any:
        return np.zeros(3)


class Wordy(Cart):
    def observe(self) -> Any:
        return "here"


class Listed(Cart):
    def reward(self) -> Any:
        return np.ones(1)


class Old(Cart):
    def step(self, action: np.ndarray) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class Bare(Cart):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class Raises(Cart):
    def step(self, action: np.ndarray) -> Any:
        if self.count == 2:
            raise OSError("the cable\nis out.")
        return super().step(action)


class Seedless(Cart):
    def reset(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().reset()


class Optionless(Cart):
    def reset(self, seed: int | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().reset(seed=seed)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Nested, "Observations are a dict and must be one vector; wrap"),
        (Unbounded, "Actions must have finite bounds"),
        (Choices, "Actions must be a Box of one axis, received Discrete(3)"),
        (
            Breaks,
            "step() number 5 of an episode returned what is not finite: number 0 "
            "(from 0) is nan.",
        ),
        (
            Unpaid,
            "step() number 3 of an episode, as a reward, returned what is not finite: "
            "it is inf.",
        ),
        (Wide, "reset() returned numbers of shape (3,) where (2,) belongs."),
        (Wordy, "reset() returned a str, which is no number."),
        (
            Listed,
            "step() number 1 of an episode, as a reward, returned numbers of shape "
            "(1,) where () belongs.",
        ),
        (
            Old,
            "step() number 1 of an episode must return (obs, reward, terminated, "
            "truncated, info): it was a tuple of 4.",
        ),
        (Bare, "reset() must return (obs, info), and returned a ndarray."),
        (
            Raises,
            "step() number 3 of an episode raised OSError: the cable is out.",
        ),
        (
            Seedless,
            "reset() of Seedless can't be called with seed and options (got an "
            "unexpected keyword argument 'seed'): write it as def reset(self, *, "
            "seed=None, options=None).",
        ),
        (lambda: TimeLimit(Optionless(), 9), "reset() of Optionless can't be called"),
    ],
)
def test_what_can_not_be_learned(make: Callable[[], Any], sentence: str) -> None:
    found = found_of(make)
    assert not found.learnable
    assert verdict(found) == "cart can't be learned before this is mended:"
    (fault,) = found.faults
    assert fault.startswith(sentence), fault
    assert found.checker is not None and all("\n" not in text for text in found.checker)
    assert remarks(found) == () and len(rows(found)) >= 4
    if found.sizes is None:
        with pytest.raises(InputError, match=r"must"):
            defaults_for(found)


def test_what_came_before_a_fault_is_still_told() -> None:
    driven = found_of(Breaks).driven
    assert driven is not None and driven.lengths == (4,)
    assert np.isfinite(driven.reward_mean) and driven.cut is None
    assert found_of(Wide).driven is None and found_of(Wide).repeats is None


def raises() -> Any:
    raise ConnectionError


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (raises, "Making the environment 'cart' raised ConnectionError."),
        (lambda: 3, "'cart' made 3, which is no gymnasium.Env."),
        (gymnasium.Env, "Environment 'cart' has no observation_space"),
    ],
)
def test_what_is_no_environment(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        found_of(make)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"episodes": 0}, "episodes must be a number of at least 1"),
        ({"seconds": 0.0}, "seconds must be positive"),
        ({"seed": -1}, "seed must be a number of at least 0"),
    ],
)
def test_bad_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        found_of(Cart, **options)


# ---- what should be known ------------------------------------------------------------


class Noisy(Cart):
    """Draws from a stream that no seed reaches."""

    stream = np.random.default_rng(1)

    def observe(self) -> Any:
        return self.state + (1e-9 * self.stream.normal() if self.count >= 4 else 0.0)


class Unseeded(Cart):
    stream = np.random.default_rng(1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.stream.normal(size=2)
        return self.observe(), {}


class Drifting(Cart):
    """Every instance is a little heavier than the one before."""

    made = itertools.count()

    def __init__(self) -> None:
        self.mass = 1.0 + next(self.made)

    def reward(self) -> Any:
        return super().reward() / self.mass


class Tired(Cart):
    """Its episodes get shorter with every reset."""

    resets = 0

    def late(self) -> bool:
        return self.count >= 20 - self.resets

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.resets += 1
        return super().reset(seed=seed)


def test_not_the_same_twice() -> None:
    found = found_of(Noisy)
    assert found.learnable
    (known,) = remarks(found)
    assert known.startswith(
        "With the same seed and actions an episode is not the same twice: observations "
        "differ from step 4 on, by up to "
    )
    assert "It can be learned, as a real machine can" in known
    assert row(found, "same seed again").startswith("observations differ from step 4")
    assert "observations differ from the reset on" in remarks(found_of(Unseeded))[0]
    tired = found_of(Tired, episodes=1)
    assert "one ends after step 18, and the other goes on" in remarks(tired)[0]


def test_not_the_same_elsewhere() -> None:
    known = remarks(found_of(Drifting))[0]
    assert known.startswith("In a second instance the same seed and actions give")
    assert "rewards differ from step 1 on, by up to" in known
    counts = itertools.count()

    def once() -> Cart:
        if next(counts):
            raise OSError("busy")
        return Cart()

    assert remarks(found_of(once)) == (
        "It could not be made a second time, and there is none: Making the environment "
        "'cart' raised OSError: busy.",
    )


def test_difference_is_exact() -> None:
    def trial(*values: float, terminated: bool = False) -> Trial:
        numbers = np.array(values)
        steps = len(values) - 1
        rewards = np.zeros(steps)
        return Trial(
            numbers[:, None], rewards, rewards, rewards, terminated, False, None
        )

    assert difference(trial(1, 2, 3), trial(1, 2, 3)) is None
    assert difference(trial(1, 2, 3), trial(1, 2)) is None  # fewer actions
    found = difference(trial(1, 2, 3), trial(1, 2.5, 3.25))
    assert found == "observations differ from step 1 on, by up to 0.5"
    found = difference(trial(1, 2, 3), trial(1, 2, terminated=True))
    assert found == "one ends after step 1, and the other goes on"
    close = np.nextafter(2.0, 3.0)
    assert difference(trial(1, 2), trial(1, close)) is not None


class Clings(Cart):
    def close(self) -> None:
        raise OSError("busy")


def test_what_can_not_be_closed_can_be_learned() -> None:
    assert found_of(Clings).learnable


class Endless(Cart):
    steps = None


class Pinned(Cart):
    action_space = spaces.Box(2.0, 2.0, (1,))


class Rounded(Cart):
    """Says single precision and gives double."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


def test_a_checker_that_objects_is_quoted_in_sentences() -> None:
    found = found_of(Rounded)
    assert found.learnable and found.checker is not None
    assert found.checker[-1].endswith("not within the observation space.")
    assert row(found, "Gymnasium's checker") == " ".join(found.checker)
    assert gymnasium_says(Pinned()) == (
        "A Box action space maximum and minimum values are equal.",
    )
    # What is of no concern here is left out.
    assert gymnasium_says(TimeLimit(Cart(), 9)) == ()


def test_time_is_limited() -> None:
    found = found_of(Endless, episodes=50, seconds=1e-9)
    assert found.driven is not None
    assert found.driven.lengths == (1,) and found.driven.cut == 1
    assert row(found, "episode").endswith("; no end was waited for after 1")

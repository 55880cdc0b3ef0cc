"""Seeds in one program: the same records as apart, and nobody waits for ever."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.agents import practice
from driftrl.agents.practice import DeepState
from driftrl.agents.replay import Replay
from driftrl.agents.ring import empty_ring
from driftrl.config import RunConfig
from driftrl.config_deep import SACAgentConfig
from driftrl.config_file import overridden
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.imagination.policy_rollout import Known
from driftrl.training import loop, together
from driftrl.training.together import (
    Gathering,
    Stopped,
    check_together,
    run_together,
)
from driftrl.types import EpisodeRecord

EPISODES, STEPS = 4, 10
# A batched product may add up in another order, which moves a number of single
# precision by parts in 10⁷; after all the units of these runs that has become parts in
# 10⁶ at most (measured).  Another draw of a batch would be parts in 10¹.
ROWS, ARRAYS = 1e-5, 1e-4
SMALL: dict[str, Any] = {
    "episodes": EPISODES,
    "environment": {"steps": STEPS, "noise_std": 0.01},
    "drift": {"start": 2},
    "forgetting": {"kind": "window", "window": 2},
    "agent": {
        "sac": {"hidden": [8], "batch": 8, "critic": "plain"},
        "learning": {"model_updates": 1, "policy_updates": 2, "least_transitions": 8},
    },
}

# Programs for several agents at once take long to compile.
pytestmark = pytest.mark.slow


def ignore(*_: object) -> None:
    pass


def seeds(config: RunConfig, *numbers: int) -> list[RunConfig]:
    return [overridden(config, {"seed": number}) for number in numbers]


def placed(configs: list[RunConfig], out: Path) -> list[tuple[RunConfig, Path]]:
    return [(config, out / config.name) for config in configs]


def go_on(pair: list[RunConfig], out: Path) -> tuple[BaseException | None, ...]:
    return run_together(placed(pair, out), resume=True, warn=ignore)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    return [{**json.loads(line), "wall_s": 0.0} for line in lines]


def newest_arrays(directory: Path) -> dict[str, np.ndarray]:
    path = sorted((directory / "checkpoint").iterdir())[-1]
    with np.load(path / "state.npz") as archive:
        return {name: archive[name] for name in archive.files}


def assert_same_run(first: Path, second: Path) -> None:
    """Compare rows and all that was learned; what is no float must be the same."""
    one, other = rows_of(first), rows_of(second)
    assert len(one) == len(other)
    for row, again in zip(one, other, strict=True):
        assert again == {
            name: pytest.approx(value, rel=ROWS) if type(value) is float else value
            for name, value in row.items()
        }
    assert one[0] == other[0]  # nothing had been learned yet
    arrays, again = newest_arrays(first), newest_arrays(second)
    assert arrays.keys() == again.keys()
    for name, array in arrays.items():
        largest = float(np.max(np.abs(array), initial=0.0))
        np.testing.assert_allclose(
            again[name], array, rtol=0, atol=ARRAYS * largest, err_msg=name
        )


def run_apart(pair: list[RunConfig], out: Path) -> None:
    for config, directory in placed(pair, out):
        loop.run(config, directory, warn=ignore)


@pytest.fixture(scope="module")
def pair() -> list[RunConfig]:
    return seeds(configure("pendulum-decay", "sac", SMALL), 0, 1)


@pytest.fixture(scope="module")
def apart(
    pair: list[RunConfig], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("apart")
    run_apart(pair, out)
    yield out


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each practice was for."""
    found: list[int] = []
    done = together._practised

    def counted(calls: Sequence[Any]) -> tuple[DeepState, ...]:
        found.append(len(calls))
        return done(calls)

    monkeypatch.setattr(together, "_practised", counted)
    return found


def test_records_are_those_of_separate_runs(
    pair: list[RunConfig], apart: Path, batches: list[int], tmp_path: Path
) -> None:
    assert go_on(pair, tmp_path) == (None, None)
    for config in pair:
        assert_same_run(apart / config.name, tmp_path / config.name)
    assert batches == [2] * EPISODES
    first, second = (rows_of(tmp_path / config.name)[-1] for config in pair)
    assert first["q"] != pytest.approx(second["q"], rel=1e-2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_records_of_an_ensemble_are_those_of_separate_runs(
    tiny_deep: RunConfig, batches: list[int], tmp_path: Path
) -> None:
    three = seeds(tiny_deep, 3, 4, 5)
    run_apart(three, tmp_path / "apart")
    assert go_on(three, tmp_path / "together") == (None, None, None)
    for config in three:
        names = (tmp_path / where / config.name for where in ("apart", "together"))
        assert_same_run(*names)
    assert batches == [3] * tiny_deep.episodes


class Broken(Exception):
    pass


def broken_after(episode: int, seed: int) -> Callable[..., None]:
    def stop(config: RunConfig, record: EpisodeRecord) -> None:
        if (config.seed, record.episode) == (seed, episode):
            raise Broken

    return stop


def test_a_run_that_is_ahead_is_joined_and_then_left_behind(
    pair: list[RunConfig], apart: Path, batches: list[int], tmp_path: Path
) -> None:
    config, directory = placed(pair, tmp_path)[0]
    with pytest.raises(Broken):
        told = partial(broken_after(3, 0), config)
        loop.run(config, directory, on_episode=told, warn=ignore)
    assert go_on(pair, tmp_path) == (None, None)
    assert batches == [2, 1, 1, 1]
    for config in pair:
        assert_same_run(apart / config.name, tmp_path / config.name)


def test_a_run_that_fails_leaves_the_others_alone_and_is_resumed(
    pair: list[RunConfig], apart: Path, batches: list[int], tmp_path: Path
) -> None:
    ended: list[tuple[int, bool]] = []
    failed, fine = run_together(
        placed(pair, tmp_path),
        on_episode=broken_after(2, 0),
        on_end=lambda config, error: ended.append((config.seed, error is None)),
        warn=ignore,
    )
    assert isinstance(failed, Broken) and fine is None
    assert ended == [(0, False), (1, True)]
    assert batches == [2, 2, 1, 1]
    assert_same_run(apart / pair[1].name, tmp_path / pair[1].name)
    assert len(rows_of(tmp_path / pair[0].name)) == 2
    assert go_on(pair, tmp_path) == (None, None)
    assert_same_run(apart / pair[0].name, tmp_path / pair[0].name)


def test_a_run_that_can_not_begin_is_not_waited_for(
    pair: list[RunConfig], apart: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / pair[0].name / "config.toml"
    wrong.parent.mkdir()
    wrong.write_text('task = "other"\nmethod = "sombrl"\n')
    refused, fine = go_on(pair, tmp_path)
    assert isinstance(refused, InputError) and "different run" in str(refused)
    # It was alone from the start, so there is nothing to tell it from one by itself.
    name = pair[1].name
    assert fine is None and rows_of(tmp_path / name) == rows_of(apart / name)


def test_what_goes_wrong_in_shared_practice_ends_all(
    pair: list[RunConfig], apart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Broken

    monkeypatch.setattr(together, "practise_together", fail)
    errors = go_on(pair, tmp_path)
    assert all(isinstance(error, Broken) for error in errors)


def test_an_interrupt_stops_all_and_loses_nothing(
    pair: list[RunConfig], apart: Path, tmp_path: Path
) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(config: RunConfig, record: EpisodeRecord) -> None:
        if (config.seed, record.episode) == (0, 2):
            signal.pthread_kill(main, signal.SIGINT)
            threading.Event().wait(0.2)  # until it has been taken notice of

    with pytest.raises(KeyboardInterrupt):
        run_together(placed(pair, tmp_path), on_episode=interrupt, warn=ignore)
    assert len(rows_of(tmp_path / pair[0].name)) == 2
    assert go_on(pair, tmp_path) == (None, None)
    for config in pair:
        assert_same_run(apart / config.name, tmp_path / config.name)


# ---- who waits for whom --------------------------------------------------------------

AGENT = SACAgentConfig()


@pytest.fixture(scope="module")
def asked() -> tuple[DeepState, Replay]:
    agent = configure("pendulum-decay", "sac", SMALL).agent
    assert isinstance(agent, SACAgentConfig)
    state = practice.initial_state((3, 1), agent, key=jax.random.key(0))
    return state, empty_ring((3, 1), 8).replay


def call(
    gathering: Gathering, member: int, asked: tuple[DeepState, Replay], units: int
) -> DeepState:
    count, key = jnp.asarray(units, jnp.int32), jax.random.key(0)
    return gathering.practise(member, *asked, count, AGENT, Known(), key)


@settings(max_examples=25)
@given(calls=st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_every_practice_is_for_all_that_are_still_going(
    calls: list[int], asked: tuple[DeepState, Replay]
) -> None:
    sizes: list[int] = []

    def practised(batch: Sequence[Any]) -> tuple[DeepState, ...]:
        sizes.append(len(batch))
        return tuple(one.state for one in batch)

    gathering = Gathering(len(calls))

    def live(member: int) -> None:
        for _ in range(calls[member]):
            assert call(gathering, member, asked, 1) is asked[0]
        gathering.leave(member)

    threads = [
        threading.Thread(target=live, args=(member,), daemon=True)
        for member in range(len(calls))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "_practised", practised)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    assert sizes == [sum(n > i for n in calls) for i in range(max(calls))]


def in_background(act: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Start a call that may wait; what it raises, or else returns, is in the list."""
    found: list[object] = []

    def live() -> None:
        try:
            found.append(act())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    return thread, found


def test_different_numbers_of_units_are_refused_to_all(
    asked: tuple[DeepState, Replay],
) -> None:
    gathering = Gathering(2)
    thread, found = in_background(lambda: call(gathering, 0, asked, 30))
    with pytest.raises(InputError, match="ask for 20 and 30 units.*Run the seeds apar"):
        call(gathering, 1, asked, 20)
    thread.join(timeout=30)
    assert isinstance(found[0], InputError)


def test_no_units_are_done_without_the_others(asked: tuple[DeepState, Replay]) -> None:
    assert call(Gathering(2), 0, asked, 0) is asked[0]


def test_who_waits_is_sent_home_and_nobody_comes_in_again(
    asked: tuple[DeepState, Replay],
) -> None:
    gathering = Gathering(2)
    thread, found = in_background(lambda: call(gathering, 0, asked, 1))
    while not gathering._calls:
        pass
    gathering.stop()
    thread.join(timeout=30)
    assert isinstance(found[0], Stopped)
    with pytest.raises(Stopped):
        call(gathering, 1, asked, 1)
    with pytest.raises(Stopped):
        gathering.refuse_when_stopped()


# ---- refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "changes", "sentence"),
    [
        ("pendulum", {}, "pendulum-sombrl-s0 can't share .*'gp' has no units of prac"),
        (
            "pendulum-decay",
            {"agent": {"learning": {"when": "step"}}},
            "when = 'step' practises within episodes.*Choose 'episode'",
        ),
        (
            "hopper",
            {
                "environment": {"terminates": True},
                "agent": {"imagination": {"termination": "known"}},
            },
            "hopper-sombrl-s0 .*end before their time.*terminates = false",
        ),
    ],
)
def test_a_run_that_can_not_share_is_refused(
    task: str, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        check_together([configure(task, "sombrl", changes)])


def test_runs_that_are_not_alike_are_refused(pair: list[RunConfig]) -> None:
    check_together(pair)
    longer = overridden(pair[1], {"episodes": 9})
    with pytest.raises(InputError, match="alike but for their seeds; .*-s0 and .*-s1"):
        check_together([pair[0], longer])
    with pytest.raises(InputError, match=r"different seeds.*received \[0, 0\]"):
        check_together([pair[0], pair[0]])
    with pytest.raises(InputError, match=r"at least one; received \[\]"):
        check_together([])

"""Runs that differ in their seeds alone, in one program.

Each run goes on in a thread of its own, with its own session and directory, as it would
by itself.  Only the units of practice are shared: each run waits until all that are
still going have come, and then one compiled call does the units of all of them
(``driftrl.agents.together``).  Runs need not stand at the same episode, and one that
ends or fails leaves the others a smaller batch.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from jaxtyping import Array, Int, Key

from driftrl.agents.practice import Config, DeepState, practise
from driftrl.agents.replay import Replay
from driftrl.agents.together import practise_together
from driftrl.config import RunConfig
from driftrl.config_gp import GPAgentConfig
from driftrl.drift.schedules import Unknown
from driftrl.errors import InputError, require
from driftrl.imagination.policy_rollout import Known
from driftrl.training.assembly import practising
from driftrl.training.loop import run
from driftrl.training.process import mended_cache
from driftrl.types import EpisodeRecord


def but_for_seed(config: RunConfig) -> RunConfig:
    """Return what runs must have in common to go on in one program."""
    return replace(config, seed=0)


def check_shareable(config: RunConfig) -> None:
    """Refuse a run whose practice can't be shared with other seeds."""
    agent, start = config.agent, f"{config.name} can't share a program with other seeds"
    if isinstance(agent, GPAgentConfig):
        raise InputError(
            f"{start}: agent.kind = 'gp' has no units of practice to share. Choose "
            "'ensemble' or 'sac', or run the seeds apart."
        )
    require(
        agent.learning.when == "episode",
        f"{start}: agent.learning.when = 'step' practises within episodes, and runs "
        "would wait for each other at every step. Choose 'episode', or run the seeds "
        "apart.",
    )
    require(
        not config.environment.terminates and not isinstance(config.drift, Unknown),
        f"{start}: its episodes may end before their time, and shared practice needs "
        "episodes of one length. Set environment.terminates = false where the task "
        "allows it, or run the seeds apart.",
    )


def check_together(configs: Sequence[RunConfig]) -> None:
    """Refuse runs that can't go on in one program."""
    for config in configs:
        check_shareable(config)
        require(
            but_for_seed(config) == but_for_seed(configs[0]),
            "Runs in one program must be alike but for their seeds; "
            f"{configs[0].name} and {config.name} are not.",
        )
    seeds = [config.seed for config in configs]
    require(
        len(set(seeds)) == len(seeds) > 0,
        f"Runs in one program need different seeds, at least one; received {seeds}.",
    )


@dataclass(frozen=True)
class _Call:
    """Units of practice that a run has asked for."""

    state: DeepState
    replay: Replay
    count: Int[Array, ""]
    settings: tuple[Config, Known]
    key: Key[Array, ""]
    answer: "Future[DeepState]" = field(default_factory=Future)


class Stopped(Exception):
    """The runs are to stop where they are."""


class Gathering:
    """Where runs meet to practise; whoever comes last does it for all.

    A run that leaves may be the one that the others were waiting for: then it does
    their practice before it goes.  So nobody ever waits for nobody.
    """

    def __init__(self, members: int) -> None:
        """Expect runs 0 to ``members`` − 1."""
        self._lock = threading.Lock()
        self._going = set(range(members))
        self._calls: dict[int, _Call] = {}
        self._stopped = False

    def practise(
        self,
        member: int,
        state: DeepState,
        replay: Replay,
        count: Int[Array, ""],
        config: Config,
        known: Known,
        key: Key[Array, ""],
    ) -> DeepState:
        """Do the units of one run, with those of all others that are still going."""
        if int(count) == 0:  # as at the warm-up: there is nothing to wait for
            return state
        call = _Call(state, replay, count, (config, known), key)
        with self._lock:
            self._refuse_when_stopped()
            self._calls[member] = call
            due = self._due()
        _answer(due)
        return call.answer.result()

    def leave(self, member: int) -> None:
        """Don't wait for a run any more."""
        with self._lock:
            self._going.discard(member)
            due = self._due()
        _answer(due)

    def stop(self) -> None:
        """Send those home who wait, and whoever comes."""
        with self._lock:
            self._stopped = True
            calls, self._calls = self._calls, {}
        for call in calls.values():
            call.answer.set_exception(Stopped())

    def refuse_when_stopped(self) -> None:
        """Raise ``Stopped`` if the runs are to stop."""
        with self._lock:
            self._refuse_when_stopped()

    def _refuse_when_stopped(self) -> None:
        if self._stopped:
            raise Stopped

    def _due(self) -> list[_Call]:
        """Return all calls, in the order of the runs, if there are no more to come."""
        if not self._calls or self._calls.keys() != self._going:
            return []
        calls, self._calls = self._calls, {}
        return [calls[member] for member in sorted(calls)]


def _answer(calls: Sequence[_Call]) -> None:
    """Answer calls, all of them by states or all of them by what went wrong."""
    if not calls:
        return
    try:
        learned = _practised(calls)
    except BaseException as error:
        for call in calls:
            call.answer.set_exception(error)
        return
    for call, state in zip(calls, learned, strict=True):
        call.answer.set_result(state)


def _practised(calls: Sequence[_Call]) -> tuple[DeepState, ...]:
    counts = sorted({int(call.count) for call in calls})
    require(
        len(counts) == 1,
        "Runs in one program must practise equally long, and the episodes of these "
        f"ask for {' and '.join(map(str, counts))} units: they were not of one "
        "length. Run the seeds apart.",
    )
    first = calls[0]
    with mended_cache():
        if len(calls) == 1:
            one = practise(
                first.state, first.replay, first.count, *first.settings, first.key
            )
            return (one,)
        return practise_together(
            tuple(call.state for call in calls),
            tuple(call.replay for call in calls),
            first.count,
            *first.settings,
            tuple(call.key for call in calls),
        )


def _ignored(config: RunConfig, what: object) -> None:
    del config, what


def _warned(config: RunConfig, message: str) -> None:
    warnings.warn(f"{config.name}: {message}", stacklevel=2)


def run_together(
    runs: Sequence[tuple[RunConfig, Path]],
    *,
    resume: bool = False,
    on_episode: Callable[[RunConfig, EpisodeRecord], None] = _ignored,
    on_end: Callable[[RunConfig, BaseException | None], None] = _ignored,
    warn: Callable[[RunConfig, str], None] = _warned,
) -> tuple[BaseException | None, ...]:
    """Run configurations that differ in their seeds, each in its directory.

    What one of them raises ends that run alone.  An interrupt (Ctrl-C) stops all of
    them when the practice under way is over, which nothing can break off but a second
    interrupt; their files stay resumable.

    Args:
        runs: The runs, each with where its files are.
        resume: Whether episodes that are already there may be continued.
        on_episode: Is told each episode's row once the episode is safe on disk.
        on_end: Is told when a run has ended, and what it raised, if anything.
        warn: Is told what a user should know but needn't act on.

    Returns:
        What each run raised, None where it is finished.
    """
    check_together([config for config, _ in runs])
    gathering = Gathering(len(runs))
    outcomes: list[Future[BaseException | None]] = [Future() for _ in runs]
    begun: list[Future[BaseException | None]] = []

    def live(member: int, config: RunConfig, directory: Path) -> None:
        def told(record: EpisodeRecord) -> None:
            on_episode(config, record)
            gathering.refuse_when_stopped()

        raised = None
        try:
            with practising(partial(gathering.practise, member)):
                run(
                    config,
                    directory,
                    resume=resume,
                    on_episode=told,
                    warn=partial(warn, config),
                )
        except BaseException as error:
            raised = error
        try:
            on_end(config, raised)
        finally:
            gathering.leave(member)
            outcomes[member].set_result(raised)

    try:
        for member, (config, directory) in enumerate(runs):
            # Daemons, lest the program wait for them after a second interrupt.
            thread = threading.Thread(
                target=live, args=(member, config, directory), daemon=True
            )
            thread.start()
            begun.append(outcomes[member])
        # Not by join: an interrupted join takes its thread for ended.
        wait(begun)
    except BaseException:
        gathering.stop()
        wait(begun)
        raise
    return tuple(outcome.result() for outcome in outcomes)

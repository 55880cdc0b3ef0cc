"""A learner with files, the same for a simulator and for a real machine.

    session = Session(config, directory)
    session.begin_episode()
    action = session.act(obs)                                  # in [−1, 1]
    session.observe(obs, reward, terminated, truncated)        # what followed
    session.end_episode()                                      # or abort_episode()
    session.learn()                                            # or learn(seconds=60)

An episode is on the disk when ``end_episode`` returns, and what was learned from it
when ``learn`` returns.  Whatever happens in between, ``Session.resume(directory)`` goes
on from there.

With ``Session(…, continuing=True, segment=200)`` the machine is never reset: episodes
are segments of one long run.  With ``background`` too, a thread stores a segment and
learns from it while the next one runs (``learn_beside`` in place of ``learn``).
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Float

from driftrl.agents.base import State
from driftrl.agents.rollouts import TaskFunctions
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.envs.tasks import check_fits
from driftrl.errors import CorruptFile, InputError, require
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import (
    EpisodeSummary,
    ForgettingRule,
    Since,
    decide,
    forget_before,
    replace_rule,
)
from driftrl.records import load_run
from driftrl.training import assembly
from driftrl.training.checkpoint import flatten, unflatten
from driftrl.training.health import Health, health
from driftrl.training.learner import Learned, Learner, Observation, Theta
from driftrl.training.run_directory import Pending, RunDirectory, Warn, read_config
from driftrl.types import Episode, EpisodeRecord

_CARRY = "carry"


class Session(Learner):
    """One run: a learner, and the directory of its episodes and checkpoints."""

    def __init__(  # noqa: PLR0913 - every argument but two is optional
        self,
        config: RunConfig,
        directory: str | Path,
        *,
        functions: TaskFunctions | None = None,
        resume: bool = False,
        change: bool = False,
        continuing: bool = False,
        segment: int | None = None,
        warn: Warn = warnings.warn,
    ) -> None:
        """Begin a run, or go on with one; compiles everything that acting needs.

        Args:
            config: The run, such as ``configure(custom_task("press", …), "sw-ombrl")``.
            directory: Where its files are; created if needed.
            functions: Reward and termination of a custom task, where they need not be
                learned: functions of (obs, action, next_obs) that JAX can trace.
            resume: Whether episodes that are already there may be continued.
            change: Whether they may be continued with other settings.
            continuing: Whether the machine is never reset, whatever ``config`` says.
            segment: Decisions of a segment then (default: those of an episode).
            warn: Called with warnings.
        """
        if continuing or segment is not None:
            config = config.in_segments(segment)
        if functions is not None:
            config = assembly.with_functions(config, functions)
        check_fits(config)
        assembly.check_learns(config)
        self.config = config
        self._warn = warn
        self._warned_of_no_data = self._closed = False
        # Least and most of the observations in episodes that something else drove.
        self._logged: Float[np.ndarray, "2 S"] | None = None
        self._is_far = np.zeros(assembly.sizes_of(config)[0], bool)
        self._events: Sequence[Mapping[str, Any]] = ()  # of the newest episode
        self._newest: Learned | None = None  # in the background, what acts next
        self._job: Future[tuple[EpisodeRecord, Learned]] | None = None
        self._thread = ThreadPoolExecutor(1)  # starts when it is needed
        agent, steps = assembly.make_agent(config, functions), config.environment.steps
        self._files = RunDirectory(
            Path(directory), config, resume=resume, change=change, warn=warn
        )
        try:
            memory = EpisodeMemory(*assembly.sizes_of(config), agent.precision)
            template = assembly.initial_state(agent, config)
            state, decision = self._files.restore(template, memory)
            super().__init__(
                agent,
                config.forgetting,
                memory,
                steps=steps,
                seed=config.seed,
                state=state,
                decision=decision,
            )
            if self.number <= config.episodes:
                agent.warm_up(assembly.most_points(config), steps)
                # What else compiles on first use does so now.
                self.begin_episode()
                self.act(np.zeros(assembly.sizes_of(config)[0]))
                self.abort_episode()
            self._logged = self._files.load_logged_range(len(self._is_far))
            self._lag = int(config.background)
            self._go_on(template)
        except BaseException:
            self.close()
            raise

    @classmethod
    def resume(
        cls,
        directory: str | Path,
        *,
        functions: TaskFunctions | None = None,
        warn: Warn = warnings.warn,
    ) -> Self:
        """Go on with the run in a directory, as it was begun."""
        config = read_config(Path(directory))
        return cls(config, directory, functions=functions, resume=True, warn=warn)

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._files.path

    @property
    def place(self) -> dict[str, int]:
        """Where episode n is on the clocks of an environment."""
        return {"episode": self.number, "steps": sum(self.memory.lengths)}

    def end_episode(
        self,
        *,
        theta: Theta = math.nan,
        machine: Mapping[str, np.ndarray] | None = None,
        events: Sequence[Mapping[str, Any]] = (),
    ) -> Episode:
        """End episode n and store it; ``learn`` or ``learn_beside`` comes next.

        Args:
            theta: The drifting parameter, as for a ``Learner``.
            machine: Where the machine is now, by name, if that can be restored.
            events: What happened to it, for the log of continuing operation.
        """
        self._require_open()
        carry = self._running and self._running.carry
        episode = super().end_episode(theta=theta)
        self.machine, self._events = dict(machine or {}), list(events)
        if self.config.continuing:
            # A plan goes on across the boundary; after a fall there is none.
            self._carry = None if episode.terminated else carry
            self.machine |= flatten(self._carry, _CARRY) if self.machine else {}
        if not self.config.background:
            self._files.save_pending(self.number, self._pending)
        return episode

    @property
    def _pending(self) -> Pending:
        assert self._unlearned is not None
        return Pending(*self._unlearned, self.machine, self._events)

    def _added(self, episode: Episode) -> None:
        """Store it, and its range: observations far outside are warned of later."""
        seen = [episode.obs, episode.next_obs[-1:]]
        seen = np.concatenate(seen if self._logged is None else [*seen, self._logged])
        logged = np.stack([seen.min(axis=0), seen.max(axis=0)])
        if not np.array_equal(logged, self._logged):  # pyright: ignore[reportArgumentType]
            self._files.save_logged_range(logged)
            self._logged = logged
        self._files.save_pending(self.number, self._pending)

    def _learned_from(self, record: EpisodeRecord, episode: Episode) -> None:
        """Store row and checkpoint."""
        ended = Pending(episode, record.theta, self.machine, self._events)
        self._files.append(record, ended, self.state, self.decision)
        self._warn_of_no_data(record)

    def learn_beside(self) -> EpisodeRecord | None:
        """Learn from segment n in a thread, while segment n + 1 runs.

        That one acts by what was learned from the segments before n.  If learning from
        these has not ended yet, it is waited for.  Returns the row of segment n − 1,
        which is on the disk now.
        """
        self._require_open()
        require(
            self.config.background and self._unlearned is not None,
            "learn_beside() needs background = true, and end_episode() before it.",
        )
        stored, ended = self._settled(), self._pending
        record = self._row(ended.episode, ended.theta, None)
        record = replace(record, wall_s=time.perf_counter() - self._began)
        assert self._newest is not None
        self.state, self.decision, self.policy = self._newest
        self.memory.append(ended.episode, EpisodeSummary.of(record))
        self._unlearned = None
        self._job = self._thread.submit(self._learn_and_store, record, ended)
        self._warn_of_no_data(record)
        return stored

    def finish(self) -> EpisodeRecord | None:
        """Wait for the thread, act by what it has learned, and return its row."""
        record = self._settled()
        if self._newest is not None:
            self.state, self.decision, self.policy = self._newest
        return record

    def _settled(self) -> EpisodeRecord | None:
        """Wait for the thread; return the row that it has stored."""
        if self._job is None:
            return None
        record, self._newest = self._job.result()
        self._job = None
        return record

    def _learn_and_store(
        self, record: EpisodeRecord, ended: Pending
    ) -> tuple[EpisodeRecord, Learned]:
        self._files.save_pending(record.episode, ended)
        learned = self._learned(self.state, record.steps)
        self._files.append(record, ended, *learned[:2])
        # An action must not have to wait for what is still being computed.
        jax.block_until_ready(vars(learned[2]))
        return record, learned

    def _go_on(self, template: State) -> None:
        """Take up an episode that had ended, and what acted when the run stopped."""
        self.machine, done = self._files.machine, self.number - 1
        ended = self._files.load_pending(self.number)
        if self.config.background:
            # What was learned from the newest segment did not act in the next one yet.
            self._newest = (self.state, self.decision, self.policy)
            try:
                before = self._files.load_state(max(done - 1, 0), template)
            except CorruptFile as error:
                self._warn(f"{error} The newest policy acts at once.")
            else:
                self.state, self.decision = before
                self.policy = self._agent.policy(self.state)
        if ended is not None:
            self._unlearned = (ended.episode, ended.theta)
            self.machine, self._events = ended.machine, ended.events
            self._repeat_online(ended.episode)
        if any(name.startswith(f"{_CARRY}.") for name in self.machine):
            with jax.enable_x64(True):
                self._carry = unflatten(self.policy.begin(), dict(self.machine), _CARRY)

    def health(self) -> Health:
        """Say whether the controller still works, by the episodes so far."""
        return health(load_run(self.directory).records)

    def force_reset(self) -> None:
        """Forget the episodes before n, because something has changed.

        It takes effect at the next ``learn``: π_n, which was learned from them, still
        acts in episode n; π_{n+1} is learned from episode n on.  The files of forgotten
        episodes are kept.
        """
        self.set_forgetting(forget_before(self.config.forgetting, self.number))

    def set_forgetting(self, rule: ForgettingRule | str) -> None:
        """Forget by another rule from the next ``learn`` on.

        What ``force_reset`` forgot stays forgotten.  A rule that holds too little to
        learn from is warned of, and the old one stays: a machine in operation goes on.

        Args:
            rule: Any object with ``first_retained``, or the kind or import path of one
                that needs no settings.
        """
        self._require_learned()
        changes = {"forgetting": {"kind": rule} if isinstance(rule, str) else rule}
        new = overridden(self.config, changes).forgetting
        rule = replace_rule(self.config.forgetting, new)
        config = replace(self.config, forgetting=rule)
        try:
            assembly.check_learns(config)
        except InputError as error:
            self._warn(f"{error} The rule stays {self.config.forgetting}.")
            return
        # Nonsense is refused here, not in learn().
        if self._job is not None:  # it goes by the old rule
            self._job.result()
        decide(config.forgetting, self.number, self.memory.evidence)
        self._files.change(config, self.number)
        self.config, self.forgetting = config, config.forgetting

    def close(self) -> None:
        """Release the directory; a running episode is discarded."""
        self._closed = True
        self._thread.shutdown()  # what it is learning still comes to the disk
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _degraded(self) -> bool:
        return bool(self.config.initial.controller) and not self.health().works

    def _row(
        self, episode: Episode, theta: float, return_eval: float | None
    ) -> EpisodeRecord:
        record = super()._row(episode, theta, return_eval)
        limits = self.config.environment.limits
        if not limits.states:
            return record
        violations = int(limits.outside(episode.next_obs).sum())
        return replace(record, violations=violations)

    def _warn_of_no_data(self, record: EpisodeRecord) -> None:
        """Warn once if the rule forgets before there is enough to learn from."""
        rule, least = self.config.forgetting, assembly.least_points(self.config)
        by_hand = isinstance(rule, Since) and self.first_retained == rule.first
        forgot = self.first_retained > record.first_retained and not by_hand
        within = assembly.counted_within(self.config, record.steps)
        retained = record.transitions + within
        if forgot and retained < least and not self._warned_of_no_data:
            self._warned_of_no_data = True
            self._warn(
                f"Nothing was learned from the episodes {record.first_retained} to "
                f"{record.episode - 1}, and the oldest are forgotten now: they have "
                f"{retained} transitions, and learning begins with {least} "
                f"(agent.learning.learning_starts). {assembly.MORE_DATA}"
            )

    def _checked(self, obs: Observation) -> Observation:
        obs = super()._checked(obs)
        if self._logged is None:
            return obs
        low, high = self._logged
        reach = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
        is_far = (obs < low - reach) | (obs > high + reach)
        for index in np.flatnonzero(is_far & ~self._is_far):  # warn once of each
            self._warn(
                f"Observation {index} (counted from 0) is {obs[index]:.4g}; in the log "
                f"it is from {low[index]:.4g} to {high[index]:.4g}. Is it in another "
                "unit? What was learned from the log says little there."
            )
        self._is_far |= is_far
        return obs

    def _require_learned(self) -> None:
        self._require_open()
        super()._require_learned()

    def _require_ended(self) -> tuple[Episode, float]:
        self._require_open()
        require(
            not self.config.background,
            "With background = true, learn_beside() takes the place of learn().",
        )
        return super()._require_ended()

    def _require_open(self) -> None:
        require(
            not self._closed,
            f"This session is closed: Session.resume({str(self.directory)!r}) goes on "
            "with it.",
        )

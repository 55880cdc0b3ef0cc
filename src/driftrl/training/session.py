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
"""

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Float

from driftrl.agents.rollouts import TaskFunctions
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.envs.tasks import check_fits
from driftrl.errors import InputError, require
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import (
    ForgettingRule,
    Since,
    decide,
    forget_before,
    replace_rule,
)
from driftrl.records import load_run
from driftrl.training.assembly import (
    MORE_DATA,
    check_learns,
    counted_within,
    initial_state,
    least_points,
    make_agent,
    most_points,
    sizes_of,
    with_functions,
)
from driftrl.training.health import Health, health
from driftrl.training.learner import Learner, Observation
from driftrl.training.process import repaired_cache
from driftrl.training.run_directory import RunDirectory, Warn, read_config
from driftrl.types import Episode, EpisodeRecord


class Session(Learner):
    """One run: a learner, and the directory of its episodes and checkpoints."""

    def __init__(
        self,
        config: RunConfig,
        directory: str | Path,
        *,
        functions: TaskFunctions | None = None,
        resume: bool = False,
        change: bool = False,
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
            warn: Called with warnings.
        """
        config = config if functions is None else with_functions(config, functions)
        check_fits(config)
        check_learns(config)
        self.config = config
        self._warn = warn
        self._warned_of_no_data = self._closed = False
        # Least and most of the observations in episodes that something else drove.
        self._logged: Float[np.ndarray, "2 S"] | None = None
        self._is_far = np.zeros(sizes_of(config)[0], bool)
        agent, steps = make_agent(config, functions), config.environment.steps
        self._files = RunDirectory(
            Path(directory), config, resume=resume, change=change, warn=warn
        )
        try:
            memory = EpisodeMemory(*sizes_of(config), agent.precision)
            state, decision = self._files.restore(initial_state(agent, config), memory)
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
                with repaired_cache():
                    agent.warm_up(most_points(config), steps)
                    # What else compiles on first use does so now.
                    self.begin_episode()
                    self.act(np.zeros(sizes_of(config)[0]))
                    self.abort_episode()
            self._logged = self._files.load_logged_range(len(self._is_far))
            self._unlearned = self._files.load_pending(self.number)
            if self.unlearned is not None:
                self._repeat_online(self.unlearned)
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

    def begin_episode(self) -> int:
        """Begin episode n and return n."""
        self._require_open()
        return super().begin_episode()

    def end_episode(self, *, theta: float = math.nan) -> Episode:
        """End episode n and store it; ``learn`` comes next.

        Args:
            theta: The drifting parameter, for the record, if it is known.
        """
        self._require_open()
        episode = super().end_episode(theta=theta)
        self._files.save_pending(self.number, episode, theta)
        return episode

    def add_episode(
        self,
        obs: Float[np.ndarray, "T1 S"],
        actions: Float[np.ndarray, "T A"],
        rewards: Float[np.ndarray, " T"],
        *,
        terminated: bool = False,
        theta: float = math.nan,
    ) -> Episode:
        """Store an episode that something else drove; see ``Learner.add_episode``.

        Observations far outside of such episodes are warned of later.
        """
        self._require_open()
        ended = {"terminated": terminated, "theta": theta}
        episode = super().add_episode(obs, actions, rewards, **ended)
        seen = [episode.obs, episode.next_obs[-1:]]
        seen = np.concatenate(seen if self._logged is None else [*seen, self._logged])
        logged = np.stack([seen.min(axis=0), seen.max(axis=0)])
        if not np.array_equal(logged, self._logged):  # pyright: ignore[reportArgumentType]
            self._files.save_logged_range(logged)
            self._logged = logged
        self._files.save_pending(self.number, episode, theta)
        return episode

    def learn(
        self,
        *,
        updates: int | None = None,
        seconds: float | None = None,
        return_eval: float | None = None,
    ) -> EpisodeRecord:
        """Learn π_{n+1} as ``Learner.learn`` does, and store row and checkpoint."""
        self._require_open()
        episode = self.unlearned
        record = super().learn(
            updates=updates, seconds=seconds, return_eval=return_eval
        )
        assert episode is not None
        self._files.append(record, episode, self.state, self.decision)
        self._warn_of_no_data(record)
        return record

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
        self._require_open()
        self._require_learned()
        changes = {"forgetting": {"kind": rule} if isinstance(rule, str) else rule}
        new = overridden(self.config, changes).forgetting
        rule = replace_rule(self.config.forgetting, new)
        config = replace(self.config, forgetting=rule)
        try:
            check_learns(config)
        except InputError as error:
            self._warn(f"{error} The rule stays {self.config.forgetting}.")
            return
        # Nonsense is refused here, not in learn().
        decide(config.forgetting, self.number, self.memory.evidence)
        self._files.change(config, self.number)
        self.config, self.forgetting = config, config.forgetting

    def close(self) -> None:
        """Release the directory; a running episode is discarded."""
        self._closed = True
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
        rule, least = self.config.forgetting, least_points(self.config)
        by_hand = isinstance(rule, Since) and self.first_retained == rule.first
        forgot = self.first_retained > record.first_retained and not by_hand
        retained = record.transitions + counted_within(self.config, record.steps)
        if forgot and retained < least and not self._warned_of_no_data:
            self._warned_of_no_data = True
            self._warn(
                f"Nothing was learned from the episodes {record.first_retained} to "
                f"{record.episode - 1}, and the oldest are forgotten now: they have "
                f"{retained} transitions, and learning begins with {least} "
                f"(agent.learning.learning_starts). {MORE_DATA}"
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

    def _require_open(self) -> None:
        require(
            not self._closed,
            f"This session is closed: Session.resume({str(self.directory)!r}) goes on "
            "with it.",
        )

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
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Float

from driftrl.agents.base import Policy
from driftrl.agents.rollouts import TaskFunctions
from driftrl.config.run import RunConfig
from driftrl.envs.tasks import check_fits
from driftrl.errors import InputError, at_least, require
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import (
    ForgettingRule,
    Since,
    forget_before,
    replace_rule,
)
from driftrl.training.assembly import (
    MORE_DATA,
    check_learns,
    counted_within,
    initial_state,
    learner_of,
    least_points,
    make_agent,
    most_points,
    sizes_of,
    with_forgetting,
    with_functions,
)
from driftrl.training.process import repaired_cache
from driftrl.training.run_directory import RunDirectory, Warn, read_config
from driftrl.types import Episode, EpisodeRecord


class Session:
    """One run: an agent, its episodes, and the directory of both."""

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
        agent = make_agent(config, functions)
        self._files = RunDirectory(
            Path(directory), config, resume=resume, change=change, warn=warn
        )
        try:
            memory = EpisodeMemory(*sizes_of(config), agent.precision)
            state = self._files.restore(initial_state(agent, config), memory)
            self._learner = learner_of(config, agent, memory, state)
            self._unlearned = self._files.load_pending(self.number)
            if self.number <= config.episodes:
                with repaired_cache():
                    agent.warm_up(most_points(config), config.environment.steps)
                    self._rehearse()
        except BaseException:
            self.close()
            raise
        self._began = time.perf_counter()

    @classmethod
    def resume(
        cls,
        directory: str | Path,
        *,
        functions: TaskFunctions | None = None,
        warn: Warn = warnings.warn,
    ) -> Self:
        """Go on with the run in a directory, as it was begun."""
        path = Path(directory) / "config.toml"
        require(
            path.is_file(),
            f"{directory} holds no run: it has no config.toml. Begin one with "
            "Session(config, directory).",
        )
        config = read_config(path)
        return cls(config, directory, functions=functions, resume=True, warn=warn)

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._files.path

    @property
    def number(self) -> int:
        """Number n of the running episode, or of the next one."""
        return self._learner.number

    @property
    def first_retained(self) -> int:
        """m(n): the oldest episode that π_n was learned from."""
        return self._learner.first_retained

    @property
    def policy(self) -> Policy:
        """π_n, the policy of the running episode, or of the next one."""
        return self._learner.policy

    @property
    def steps_taken(self) -> int | None:
        """Steps of the running episode so far; None if none is running."""
        return self._learner.steps_taken

    @property
    def unlearned(self) -> Episode | None:
        """Episode n, if it has ended and has not been learned from."""
        return None if self._unlearned is None else self._unlearned[0]

    @property
    def place(self) -> dict[str, int]:
        """Where episode n is on the clocks of an environment."""
        lengths = self._learner.memory.lengths
        return {"episode": self.number, "steps": sum(lengths)}

    def begin_episode(self) -> int:
        """Begin episode n and return n."""
        self._require_open()
        self._require_learned()
        require(
            self.steps_taken is None,
            f"Episode {self.number} is running: end_episode() stores it, "
            "abort_episode() discards it, and then the next one may begin.",
        )
        self._began = time.perf_counter()
        return self._learner.begin_episode()

    def act(self, obs: Float[np.ndarray, " S"]) -> Float[np.ndarray, " A"]:
        """Return the action in [−1, 1] for what was observed."""
        return self._learner.act(obs)

    def observe(
        self,
        obs: Float[np.ndarray, " S"],
        reward: float,
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        """Record what followed the last action.

        Args:
            obs: The new observation.
            reward: The reward of the step.
            terminated: Whether the task has ended: it failed, or is done.
            truncated: Whether only the time is up.
        """
        self._learner.observe(obs, reward, terminated, truncated)

    def end_episode(self, *, theta: float = math.nan) -> Episode:
        """End episode n and store it; ``learn`` comes next.

        Args:
            theta: The drifting parameter, for the record, if it is known.
        """
        self._require_open()
        episode = self._learner.end_episode()
        self._files.save_pending(self.number, episode, theta)
        self._unlearned = (episode, theta)
        return episode

    def abort_episode(self) -> None:
        """Discard the running episode; it leaves no trace."""
        require(
            self._unlearned is None,
            f"Episode {self.number} has ended and is stored, so it can't be discarded "
            "any more: abort_episode() comes before end_episode().",
        )
        self._learner.abort_episode()

    def learn(
        self,
        *,
        updates: int | None = None,
        seconds: float | None = None,
        return_eval: float | None = None,
    ) -> EpisodeRecord:
        """Forget, learn π_{n+1} from the rest, and store row and checkpoint.

        Args:
            updates: Updates of the model, each with those of the policy that go with it
                (default: as many as the episode's transitions call for).
            seconds: Time to learn for, instead.  How much is learned then depends on
                the computer, so such a run can't be repeated bit for bit.
            return_eval: Return of π_n where it was evaluated, for the record.

        Returns:
            The row of episode n.
        """
        self._require_open()
        if self._unlearned is None:
            raise InputError(
                f"There is nothing to learn from: episode {self.number} has not ended. "
                "end_episode() comes first."
            )
        require(
            updates is None or seconds is None,
            "learn() takes updates or seconds, not both.",
        )
        at_least("updates", 0 if updates is None else updates, 0)
        at_least("seconds", 0.0 if seconds is None else seconds, 0)
        number, policy, first = self.number, self.policy, self.first_retained
        episode, theta = self._unlearned
        metrics = policy.model_metrics(episode)
        transitions = sum(self._learner.memory.lengths[first - 1 :])
        self._learner.learn(episode, metrics=metrics, updates=updates, seconds=seconds)
        record = EpisodeRecord(
            episode=number,
            theta=theta,
            steps=len(episode),
            return_executed=episode.executed_return,
            return_eval=return_eval,
            terminated=episode.terminated,
            first_retained=first,
            transitions=transitions,
            optimism=policy.weight,
            model_error=metrics.model_error,
            coverage=metrics.coverage,
            epistemic_std=metrics.epistemic_std,
            predictive_loss=metrics.predictive_loss,
            wall_s=time.perf_counter() - self._began,
            **policy.metrics,
        )
        self._files.append(record, episode, self._learner.state)
        self._unlearned = None
        self._warn_of_no_data(record)
        return record

    def force_reset(self) -> None:
        """Forget the episodes before n, because something has changed.

        It takes effect at the next ``learn``: π_n, which was learned from them, still
        drives episode n; π_{n+1} is learned from episode n on.  The files of forgotten
        episodes are kept.
        """
        self.set_forgetting(forget_before(self.config.forgetting, self.number))

    def set_forgetting(self, rule: ForgettingRule | str) -> None:
        """Forget by another rule from the next ``learn`` on.

        What ``force_reset`` forgot stays forgotten.

        Args:
            rule: Any object with ``first_retained``, or the kind or import path of one
                that needs no settings.
        """
        self._require_open()
        self._require_learned()
        old = self.config.forgetting
        rule = with_forgetting(self.config, rule).forgetting
        config = replace(self.config, forgetting=replace_rule(old, rule))
        check_learns(config)
        self._learner.forgetting = config.forgetting
        try:
            self._learner.memory.since(self.first_retained)
            self._files.change(config, self.number)
        except BaseException:
            self._learner.forgetting = old
            raise
        self.config = config

    def close(self) -> None:
        """Release the directory; a running episode is discarded."""
        self._closed = True
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rehearse(self) -> None:
        """Ask for one action and discard it: what compiles on first use does so now."""
        self._learner.begin_episode()
        self._learner.act(np.zeros(sizes_of(self.config)[0]))
        self._learner.abort_episode()

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

    def _require_open(self) -> None:
        require(
            not self._closed,
            f"This session is closed: Session.resume({str(self.directory)!r}) goes on "
            "with it.",
        )

    def _require_learned(self) -> None:
        require(
            self._unlearned is None,
            f"Episode {self.number} has ended and was not learned from yet: learn() "
            "comes first; learn(updates=0) takes it in as it is.",
        )

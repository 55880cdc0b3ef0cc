"""A machine driven safely: every action is limited, every observation checked.

The actions come from a learner over the network (``server``).
"""

import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import asdict, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from driftrl.errors import require
from driftrl.robot.machine import Machine, MachineThread, Sample
from driftrl.robot.protocol import Begin, Code
from driftrl.robot.safety import Interrupted, Limits, check_observation, limited
from driftrl.robot.timing import Timing, delays_of, undisturbed

Event = dict[str, Any]
"""What happened (``event``), with its facts as JSON types.

- finished: ``episode``, its ``steps`` and ``seconds``, ``total`` reward, how many
  actions were ``limited``, and the delays of its ``answers``;
- halted: ``episode``, ``step``, ``code`` and ``reason``, the ``periods`` from the last
  action to the stop action, and whether the machine was ``hanging`` in a call then, so
  that it gets the stop action when it comes back (its ``halt`` was called at once);
- connected and refused: a ``message`` about a learner.
"""
now = time.monotonic
_LAST_STOP = 1.0
"""Seconds that a robot that ends gives its machine to take the stop action."""
_READY_WAIT = 0.01  # s, between two looks at whether the machine is at its start


@runtime_checkable
class Actor(Protocol):
    """Who answers the observations of an episode; it may raise ``Interrupted``."""

    def prepare(self) -> None:
        """Be called again and again while the machine goes to its start."""

    def show(self, step: int, sample: Sample) -> None:
        """Be shown observation k."""

    def act(self, step: int, deadline: float) -> np.ndarray | None:
        """Return the action of step k; None if there is none before the deadline."""

    def idle(self, step: int, until: float) -> None:
        """Pass the time until observation k is due."""


class Controller:
    """One machine, its limits and its clock."""

    def __init__(
        self,
        machine: Machine,
        limits: Limits,
        timing: Timing,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        """Take over a machine; ``on_event`` delays the robot's loop: keep it fast."""
        require(
            len(limits.stop) == machine.action_size,
            f"The stop action has {len(limits.stop)} numbers; the machine "
            f"takes {machine.action_size}.",
        )
        self.machine, self.timing = machine, timing
        self.counts: Counter[str] = Counter()
        """Of "finished", the codes of stops, and "refused", "malformed frames", "late
        actions", "limited", "failed stops"."""
        self.answers = array("d")
        """Seconds that each answer took."""
        self._on_event = on_event
        self._limits = limits
        self._stop_action = np.array(limits.stop, np.float64)
        self._thread = MachineThread(f"machine {machine.name}")
        self._coming: Future[Sample] | None = None
        self._stopping: Future[Sample] | None = None
        self._stopped = threading.Event()
        self._stopped_at = self._halted_at = 0.0
        self._open(1)

    def _open(self, episode: int) -> None:
        self.episode, self.step = episode, 0
        self._begun = self._changed = now()
        self._applied = self._stop_action
        self.seen: Sample | None = None
        """What the machine showed last."""
        self._limited = 0
        self._total = 0.0
        self._answers_before = len(self.answers)

    def record(self, event: str, **facts: Any) -> None:
        """Report an event."""
        self._on_event({"event": event, **facts})

    @property
    def applied(self) -> tuple[float, ...]:
        """The action in force; none before the first of an episode."""
        return tuple(self._applied.tolist()) if self.step else ()

    def run(self, begin: Begin, actor: Actor) -> None:
        """Run an episode on the robot's clock; the machine is at rest afterwards.

        ``Interrupted`` if it was stopped, which is noted already.
        """
        with undisturbed():
            try:
                self._open(begin.episode)
                self._coming = self._thread.call(lambda: self.machine.reset(begin))
                self._drive(actor)
            except Interrupted as interrupted:
                self._stop(interrupted.code, interrupted.reason)
                raise
            except BaseException:
                # Ctrl-C or an error of ours: stop the machine first.
                self._stop("shutdown", "The robot's program ends.")
                raise
            self._finish()

    def _drive(self, actor: Actor) -> None:
        while (sample := self._result(now() + _READY_WAIT)) is None:
            actor.prepare()
            if now() - self._begun > self.timing.reset:
                raise Interrupted(
                    "stale",
                    f"The machine did not get to its start in {self.timing.reset:g} s.",
                )
        self._begun = self._changed = now()
        sample = self._checked(sample)
        actor.show(0, sample)
        while not sample.is_last:
            asked, deadline = now(), self._deadline()
            action = actor.act(self.step, deadline)
            if action is None:
                allowed = f"{1e3 * self.timing.answer_seconds:.4g} ms"
                raise Interrupted("deadline", f"No action came within {allowed}.")
            wanted = self.machine.action_size
            if action.shape != (wanted,) or not np.isfinite(action).all():
                raise Interrupted(
                    "malformed", f"An action is {wanted} numbers, received {action}."
                )
            self.answers.append(now() - asked)
            self._apply(action)
            actor.idle(self.step, self._moment())
            sample = self._take()
            actor.show(self.step, sample)

    def _moment(self) -> float:
        """Return t_k, when observation k is due."""
        if not self.timing.real_time:
            return now()
        return self._begun + self.step * self.timing.period

    def _deadline(self) -> float:
        """Return when the answer to observation k is due."""
        due = self._moment() + self.timing.answer_seconds
        if now() > due:
            late = 1e3 * (now() - self._moment())
            raise Interrupted("late", f"The robot itself was {late:.1f} ms late.")
        return due

    def _apply(self, values: np.ndarray) -> None:
        """Put an action into force, clipped and limited in its change."""
        action = limited(values, self._applied, self._limits.rate)
        if not np.array_equal(action, values):
            self._limited += 1
            self.counts["limited"] += 1
        self._applied = action
        self.step += 1
        self._changed = now()
        self._coming = self._thread.call(lambda: self.machine.step(action))

    def _take(self) -> Sample:
        """Return the checked outcome of the action."""
        allowed = self.timing.late_seconds
        sample = self._result(self._moment() + allowed)
        if sample is None:
            raise Interrupted(
                "stale",
                f"The machine had no new observation {1e3 * allowed:.1f} ms after it "
                "was due.",
            )
        sample = self._checked(sample)
        self._total += sample.reward
        if self.step >= self.machine.steps and not sample.is_last:
            return replace(sample, truncated=True)
        return sample

    def _result(self, until: float) -> Sample | None:
        assert self._coming is not None
        # A result that is there counts, however late it is asked for.
        if not wait([self._coming], timeout=max(0.0, until - now())).done:
            return None
        if (error := self._coming.exception()) is not None:
            reason = f"The machine reported {type(error).__name__}: {error}"
            raise Interrupted("machine", reason) from error
        return self._coming.result()

    def _checked(self, sample: Sample) -> Sample:
        self.seen = sample
        check_observation(sample.obs, sample.reward, self._limits)
        return sample

    def _finish(self) -> None:
        """Let the machine come to rest after an episode that came to its end."""
        seconds = now() - self._begun
        self._rest()
        self.counts["finished"] += 1
        self.record(
            "finished",
            episode=self.episode,
            steps=self.step,
            seconds=seconds,
            total=self._total,
            limited=self._limited,
            answers=asdict(delays_of(self.answers[self._answers_before :])),
        )

    def _stop(self, code: Code, reason: str) -> None:
        """Put the stop action into force, at once; then note why."""
        changed = self._changed
        coming = self._rest()
        # Noted is when the machine took it, not when it was told to.
        taken = coming and self._stopped.wait(self.timing.period)
        moment = self._stopped_at if taken else self._halted_at
        self.counts[code] += 1
        self.record(
            "halted",
            episode=self.episode,
            step=self.step,
            code=code,
            reason=reason,
            periods=(moment - changed) / self.timing.period,
            hanging=coming and not taken,
        )

    def _rest(self) -> bool:
        """Halt the machine; return whether it will also get the stop action."""
        self._stopped.clear()
        self._halted_at = now()
        try:
            self.machine.halt()
        except Exception:  # the stop action is still to come
            self.counts["failed stops"] += 1
        if self.seen is not None and self.seen.terminated:
            return False  # stepping an environment after its end has no meaning
        # A machine that hangs gets it as soon as its call returns.
        self._stopping = self._thread.call(self._stop_step)
        return True

    def _stop_step(self) -> Sample:
        self._stopped_at = now()
        self._stopped.set()
        try:
            return self.machine.step(self._stop_action)
        except Exception:
            self.counts["failed stops"] += 1
            raise

    def close(self) -> None:
        """Close the machine, once it has had its stop action."""
        if self._stopping is not None:
            wait([self._stopping], timeout=_LAST_STOP)
        self._thread.close()
        if not self._thread.busy:
            self.machine.close()

"""A machine driven safely: every action is limited, every observation checked.

The actions come from a learner over the network (``server``) or from an exported
policy on the robot's own computer (``run_policy``).
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

import numpy as np

from driftrl.errors import require
from driftrl.robot.event_log import EventLog, Finished, Halted
from driftrl.robot.machine import EpisodeStart, Machine, MachineThread, Sample
from driftrl.robot.safety import (
    Fault,
    Interrupted,
    Limits,
    check_observation,
    fault,
    limited,
)
from driftrl.robot.timing import Timing, undisturbed

Policy = Callable[[np.ndarray], np.ndarray]
now = time.monotonic
_LAST_STOP = 1.0
"""Seconds that a robot that ends gives its machine to take the stop action."""
_NOTABLE = 0.1
"""Share of the deadline from which the robot's own delay is reported."""


class Controller:
    """One machine, its limits and its clock.

    An episode: ``begin``, ``ready`` until it returns the start, then for k = 0, 1, …
    ``apply`` an action before ``deadline(k)``, ``take`` the outcome at
    ``moment(k + 1)``; ``finish`` or, at any moment, ``stop``.  After either ``coast``
    repeats the stop action while it is called.
    """

    def __init__(
        self, machine: Machine, limits: Limits, timing: Timing, log: EventLog
    ) -> None:
        require(
            len(limits.stop) == machine.action_size,
            f"The stop action has {len(limits.stop)} numbers; the machine "
            f"takes {machine.action_size}.",
        )
        self.machine, self.timing, self.log = machine, timing, log
        self.safe = False
        """Whether the last episode was stopped, and none has begun since."""
        self._limits = limits
        self._stop_action = np.array(limits.stop, np.float64)
        self._thread = MachineThread(f"machine {machine.name}")
        self._coming: Future[Sample] | None = None
        self._stopping: Future[Sample] | None = None
        self._stopped = threading.Event()
        self._stopped_at = self._halted_at = 0.0
        self._coasting = 0
        self._next_coast = 0.0
        self._open(EpisodeStart(1, 0, None))

    def _open(self, start: EpisodeStart) -> None:
        self.start, self.step = start, 0
        self._begun = self._changed = now()
        self._applied = self._stop_action
        self._seen: Sample | None = None
        self._repeats = 0
        self._total = 0.0
        self._limited = 0

    @property
    def applied(self) -> tuple[float, ...]:
        """The action in force; none before the first of an episode."""
        return tuple(self._applied.tolist()) if self.step else ()

    def begin(self, start: EpisodeStart) -> None:
        """Have the machine go to the start of an episode."""
        self.safe = False
        self._coasting = 0
        self._open(start)
        self.log.begun()
        self._coming = self._thread.call(lambda: self.machine.reset(start))

    def ready(self, by: float) -> Sample | None:
        """Return the checked start; None if the machine is not there in time.

        Then t_0 is now.

        Raises:
            Interrupted: It is no start, or has taken too long.
        """
        began = self._begun
        sample = self._result(by)
        if sample is None:
            if now() - began > self.timing.reset:
                raise fault(
                    "stale",
                    f"The machine did not get to its start in {self.timing.reset:g} s.",
                )
            return None
        self._begun = self._changed = now()
        return self._checked(sample)

    def moment(self, step: int) -> float:
        """Return t_k, when observation k is due."""
        if not self.timing.real_time:
            return now()
        return self._begun + step * self.timing.period

    def deadline(self, step: int) -> float:
        """Return when the answer to observation k is due.

        Raises:
            Interrupted: The robot is so late that it is over already.
        """
        if not self.timing.real_time:
            return now() + self.timing.patience
        due = self.moment(step) + self.timing.deadline * self.timing.period
        if (late := now() - due) > 0:
            behind = late + self.timing.deadline * self.timing.period
            raise fault("late", f"The robot itself was {1e3 * behind:.1f} ms late.")
        return due

    def missed(self, step: int, asked: float) -> str:
        """Describe the missed deadline, and the robot's own delay if it had one.

        Args:
            step: The observation k whose answer was due.
            asked: When it was asked for, which is t_k unless the robot itself was late.
        """
        if not self.timing.real_time:
            return f"within {self.timing.patience:g} s"
        allowed = self.timing.deadline * self.timing.period
        behind = asked - self.moment(step)
        share = f"; the robot was itself {1e3 * behind:.1f} ms late"
        return (
            f"before the deadline of {1e3 * allowed:.4g} ms"
            f"{share if behind > _NOTABLE * allowed else ''}"
        )

    def apply(self, values: np.ndarray) -> None:
        """Put an action into force, clipped and limited in its change."""
        action = limited(values, self._applied, self._limits.rate)
        if not np.array_equal(action, values):
            self._limited += 1
            self.log.counts["limited"] += 1
        self._applied = action
        self.step += 1
        self._changed = now()
        self._coming = self._thread.call(lambda: self.machine.step(action))

    def take(self) -> Sample:
        """Return the checked outcome of the action.

        Raises:
            Interrupted: It is wrong, or not there yet.
        """
        if self.timing.real_time:
            allowed = self.timing.lateness * self.timing.period
        else:
            allowed = self.timing.patience
        sample = self._result(self.moment(self.step) + allowed)
        if sample is None:
            raise fault(
                "stale",
                f"The machine had no new observation {1e3 * allowed:.1f} ms after it "
                "was due.",
            )
        sample = self._checked(sample)
        self._total += sample.reward
        if self.step < self.machine.steps or sample.terminated or sample.truncated:
            return sample
        return Sample(sample.obs, sample.reward, False, True, sample.theta)

    def _result(self, until: float) -> Sample | None:
        assert self._coming is not None
        # A result that is there counts, however late it is asked for.
        if not wait([self._coming], timeout=max(0.0, until - now())).done:
            return None
        if (error := self._coming.exception()) is not None:
            kind = type(error).__name__
            raise fault("machine", f"The machine reported {kind}: {error}") from error
        return self._coming.result()

    def _checked(self, sample: Sample) -> Sample:
        same = self._seen is not None and np.array_equal(self._seen.obs, sample.obs)
        self._repeats = self._repeats + 1 if same else 1
        self._seen = sample
        wrong = check_observation(
            sample.obs, sample.reward, self._repeats, self._limits
        )
        if wrong is not None:
            raise fault(wrong.code, wrong.reason)
        return sample

    def finish(self) -> None:
        """Note an episode that came to its end, and let the machine come to rest."""
        answers = self.log.answers_of_episode()
        seconds = now() - self._begun
        self._rest()
        event = Finished(
            self.start.episode, self.step, seconds, self._total, self._limited, answers
        )
        self.log.record(event)

    def stop(self, why: Fault) -> None:
        """Put the stop action into force, at once; then note why."""
        changed = self._changed
        coming = self._rest()
        self.safe = True
        # Noted is when the machine took it, not when it was told to.
        taken = coming and self._stopped.wait(self.timing.period)
        moment = self._stopped_at if taken else self._halted_at
        event = Halted(
            episode=self.start.episode,
            step=self.step,
            code=why.code,
            reason=why.reason,
            periods=(moment - changed) / self.timing.period,
            hanging=coming and not taken,
        )
        self.log.record(event)

    def _rest(self) -> bool:
        """Halt the machine; return whether it will also get the stop action."""
        self._stopped.clear()
        self._halted_at = now()
        try:
            self.machine.halt()
        except Exception:  # the stop action is still to come
            self.log.counts["failed stops"] += 1
        if self._seen is not None and self._seen.terminated:
            return False  # stepping an environment after its end has no meaning
        # A machine that hangs gets it as soon as its call returns.
        self._stopping = self._thread.call(self._stop_step)
        self._coasting = self.timing.coasting
        self._next_coast = now() + self.timing.period
        return True

    def coast(self) -> float:
        """Repeat the stop action if it is time; return when it is time again."""
        if self._coasting <= 0:
            return math.inf
        if now() >= self._next_coast:
            if not self._thread.busy:
                self._stopping = self._thread.call(self._stop_step)
                self._coasting -= 1
            self._next_coast = now() + self.timing.period
        return self._next_coast

    def _stop_step(self) -> Sample:
        if not self._stopped.is_set():
            self._stopped_at = now()
            self._stopped.set()
        try:
            return self.machine.step(self._stop_action)
        except Exception:
            self.log.counts["failed stops"] += 1
            raise

    def close(self) -> None:
        """Close the machine, once it has had its stop action."""
        if self._stopping is not None:
            wait([self._stopping], timeout=_LAST_STOP)
        self._thread.close()
        if not self._thread.busy:
            self.machine.close()
        self.log.close()


def run_policy(
    controller: Controller, policy: Policy, episodes: int | None = None
) -> None:
    """Drive episode after episode with a policy, by the same clock and limits.

    An episode that was stopped is not repeated.

    Args:
        controller: The machine.
        policy: From an observation to an action in [−1, 1].
        episodes: How many; None goes on until it is interrupted.
    """
    number = 0
    try:
        while episodes is None or number < episodes:
            number += 1
            _run_policy_episode(controller, policy, number)
            while (moment := controller.coast()) < np.inf:
                time.sleep(max(0.0, moment - now()))
    finally:
        controller.close()


def _run_policy_episode(controller: Controller, policy: Policy, number: int) -> None:
    with undisturbed():
        try:
            controller.begin(
                EpisodeStart(number, (number - 1) * controller.machine.steps, number)
            )
            _drive(controller, policy)
            controller.finish()
        except Interrupted as interrupted:
            controller.stop(interrupted.fault)
        except BaseException:
            controller.stop(fault("shutdown", "The robot's program ends.").fault)
            raise


def _drive(controller: Controller, policy: Policy) -> None:
    sample: Sample | None = None
    while sample is None:
        sample = controller.ready(now() + 0.1)
    step = 0
    while not (sample.terminated or sample.truncated):
        asked, deadline = now(), controller.deadline(step)
        action = np.asarray(policy(sample.obs), np.float64)
        if (
            action.shape != (controller.machine.action_size,)
            or not np.isfinite(action).all()
        ):
            raise fault("malformed", f"The policy answered {action!r}.")
        if now() > deadline:
            took = f"The policy answered after {1e3 * (now() - asked):.1f} ms"
            raise fault("deadline", f"{took}, not {controller.missed(step, asked)}.")
        controller.log.answered(now() - asked)
        controller.apply(action)
        step += 1
        time.sleep(max(0.0, controller.moment(step) - now()))
        sample = controller.take()

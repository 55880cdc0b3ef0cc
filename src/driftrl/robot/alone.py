"""A robot by itself: a policy that was exported drives, and nobody learns."""

import time
from collections.abc import Callable

import numpy as np

from driftrl.robot.drive import Drive, now
from driftrl.robot.machine import Place, Sample
from driftrl.robot.safety import Interrupted, fault
from driftrl.robot.timing import undisturbed

Policy = Callable[[np.ndarray], np.ndarray]


def drive_alone(drive: Drive, policy: Policy, episodes: int | None = None) -> None:
    """Have a policy drive episode after episode, by the same clock and limits.

    An episode that is stopped is not repeated: the next one has the next number.

    Args:
        drive: The machine.
        policy: From an observation to an action in [−1, 1].
        episodes: How many; None goes on until it is interrupted.
    """
    number = 0
    try:
        while episodes is None or number < episodes:
            number += 1
            _live_through(drive, policy, number)
            while (moment := drive.coast()) < np.inf:
                time.sleep(max(0.0, moment - now()))
    finally:
        drive.close()


def _live_through(drive: Drive, policy: Policy, number: int) -> None:
    with undisturbed():
        try:
            drive.begin(Place(number, (number - 1) * drive.machine.steps, number))
            _run(drive, policy)
            drive.finish()
        except Interrupted as interrupted:
            drive.stop(interrupted.fault)
        except BaseException:
            drive.stop(fault("shutdown", "The robot's program ends.").fault)
            raise


def _run(drive: Drive, policy: Policy) -> None:
    sample: Sample | None = None
    while sample is None:
        sample = drive.ready(now() + 0.1)
    step = 0
    while not (sample.terminated or sample.truncated):
        asked, deadline = now(), drive.deadline(step)
        action = np.asarray(policy(sample.obs), np.float64)
        if (
            action.shape != (drive.machine.action_size,)
            or not np.isfinite(action).all()
        ):
            raise fault("malformed", f"The policy answered {action!r}.")
        if now() > deadline:
            took = f"The policy answered after {1e3 * (now() - asked):.1f} ms"
            raise fault("deadline", f"{took}, not {drive.missed(step, asked)}.")
        drive.journal.answered(now() - asked)
        drive.apply(action)
        step += 1
        time.sleep(max(0.0, drive.moment(step) - now()))
        sample = drive.take()

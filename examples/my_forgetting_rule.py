"""A forgetting rule of your own: start afresh when the model fails to predict.

The same from the shell, in the directory of this file, on a task of driftrl:

    driftrl run pendulum --forgetting my_forgetting_rule:EventTriggeredReset \
        --forgetting.factor 2.5
"""

import statistics
from dataclasses import dataclass

import driftrl


@dataclass(frozen=True)
class EventTriggeredReset:
    """Forget what came before an episode that the model predicted unusually badly."""

    factor: float = 2.0
    """How many times the median error since the last reset is unusual."""
    patience: int = 3
    """Errors needed before the median counts."""

    def first_retained(self, n: int, evidence: driftrl.Evidence) -> int:
        """Return m(n), from the episodes 1 … n−1 alone: a resumed run agrees."""
        first, errors = 1, []
        for episode, error in enumerate(evidence.model_error, start=1):
            if error is None:  # no model yet
                continue
            usual = statistics.median(errors) if len(errors) >= self.patience else error
            if error > self.factor * usual:
                first, errors = episode, []
            errors.append(error)
        return first


if __name__ == "__main__":
    # A pendulum whose motor loses most of its torque after episode 6.
    env = driftrl.make_env("pendulum-decay", drift=lambda n: 5.0 if n <= 6 else 1.0)
    fast = {"agent": {"learning": {"policy_updates": 1}}}
    trained = driftrl.train(
        env, forgetting=EventTriggeredReset(), episodes=9, settings=fast
    )
    for row in trained.records:
        print(f"{row.episode:3d} {row.model_error} learned from {row.first_retained}")

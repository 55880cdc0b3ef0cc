"""Does optimism pay where the reward is sparse?  A pendulum, λ against 0.

The pendulum hangs at first and its motor is too weak to lift it at once.  Upright and
slow it earns 1 a decision, elsewhere nothing, and torque costs a little: nothing that
a greedy learner sees says that swinging is worth it.  Prints, for every λ, how many
seeds balance in the end, the episode that earned something first, and the mean return
of the last five episodes.

    python experiments/sparse_reward.py --seeds 0 1 2 3 4 --weights 0 0.2
"""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any, cast

from driftrl.training.process import prepare

prepare(os.environ)

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

import driftrl  # noqa: E402
from driftrl.config.deep import EnsembleAgentConfig  # noqa: E402

HELD = 2  # steps of 1/20 s
STEPS = 100
LAST = 5
TORQUE = 2.0  # N·m, the most there is
COST = 0.01  # of the full torque, a decision


class SparsePendulum(gymnasium.Wrapper):
    """Hangs at first, holds an action, and pays for being upright and slow alone."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Start near the lowest point."""
        self.env.reset(seed=seed)
        plant: Any = self.unwrapped
        plant.state = np.array([np.pi, 0.0]) + plant.np_random.uniform(-0.1, 0.1, 2)
        return self._seen(), {}

    def step(self, action: np.ndarray):
        """Hold the action; the reward is that of where it ends."""
        for _ in range(HELD):
            self.env.step(action)
        obs = self._seen()
        upright = obs[0] > 0.95 and abs(obs[2]) < 1.0
        cost = COST * float(np.mean((action / TORQUE) ** 2))
        return obs, float(upright) - cost, False, False, {}

    def _seen(self) -> np.ndarray:
        angle, speed = cast(Any, self.unwrapped).state
        return np.array([np.cos(angle), np.sin(angle), speed], np.float32)


def returns(weight: float, seed: int, episodes: int, out: Path) -> list[float]:
    """Return what every episode of a run earned."""
    made = gymnasium.make("Pendulum-v1", max_episode_steps=HELD * STEPS + 1)
    env = gymnasium.wrappers.TimeLimit(SparsePendulum(made), STEPS)
    agent = asdict(EnsembleAgentConfig())
    agent["optimism"] |= {"rule": "constant", "weight": weight}
    trained = driftrl.train(
        env,
        forgetting="keep_all",
        episodes=episodes,
        out=out / f"weight-{weight}-seed-{seed}",
        settings={"seed": seed, "agent": agent},
    )
    return [record.return_executed for record in trained.records]


def main() -> None:
    """Run every λ with every seed, and print a line for each λ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.2])
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("runs/sparse_reward"))
    asked = parser.parse_args()
    for weight in asked.weights:
        runs = [returns(weight, s, asked.episodes, asked.out) for s in asked.seeds]
        firsts = [
            next((n for n, r in enumerate(run, 1) if r > 0), None) for run in runs
        ]
        solved = sum(mean(run[-LAST:]) > 0 for run in runs)
        last = ", ".join(f"{mean(run[-LAST:]):.1f}" for run in runs)
        print(
            f"λ = {weight}: {solved} of {len(runs)}, first {firsts}, last five {last}"
        )


if __name__ == "__main__":
    main()

"""Methods on machines that are never reset: the rate of reward, and the regret.

    python experiments/continuing.py --task process --seeds 0 1 2 3 4
    python experiments/continuing.py --task pendulum --show

The process is two tanks, one above the other, which a pump fills and a valve drains: a
step earns 1, less what the lower level is off and what the pump takes.  The valve wears
slowly, fails at once, follows the day, or nothing changes.  The pendulum is that of
``driftrl study continuing``.  Prints, drift by drift, the reward of a step in the last
tenth of the segments as a share of the way from doing nothing (0) to ρ*(θ) (1), the
regret, and how much less adaptive has, paired by seed with a 95 % t interval.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars
from gymnasium import spaces

import driftrl
from driftrl.analysis.statistics import estimate_mean
from driftrl.config.toml import toml_text
from driftrl.io import write_atomically
from driftrl.training.study import find_study

DAY, SEGMENTS = 48, 100
METHODS = ["sombrl", "r-ombrl", "sw-ombrl", "adaptive"]
DRIFTS: dict[str, dict[str, Any]] = {
    "steady": {"kind": "constant", "value": 1.0},
    "wear": {"kind": "exponential", "start": 20, "rate": 0.04},
    "abrupt": {"kind": "step", "start": 40},
    "daily": {"kind": "cyclic", "start": 20, "period": 7},
}
COST, GOAL = 0.02, 0.5
IDLE = {"process": 0.0, "pendulum": -(np.pi**2)}
"""Reward of a step of a machine that is left alone."""


class Process(gymnasium.Env[np.ndarray, np.ndarray]):
    """Keep the lower tank at half its height, with little power."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.5, (2,))
        self.action_space = spaces.Box(0.0, 10.0, (1,))  # volts
        self.levels, self.valve = np.full(2, 0.3), 1.0

    def set_parameters(self, values: dict[str, float]) -> None:
        """Set how far the valve lets through."""
        self.valve = values["valve"]

    def get_state(self) -> dict[str, Any]:
        """Return what a restart needs to go on from here."""
        return {"levels": self.levels}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self.levels = np.array(state["levels"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Fill the tanks, which happens once."""
        super().reset(seed=seed)
        self.levels = np.full(2, 0.3)
        return self.levels.astype(np.float32), {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Pump for half an hour."""
        volts = float(np.clip(action[0], 0.0, 10.0))
        for _ in range(4):
            upper, lower = np.sqrt(self.levels)
            flows = [0.02 * volts - 0.12 * upper, 0.12 * (upper - self.valve * lower)]
            self.levels = np.clip(self.levels + flows, 0.0, 1.5)
        reward = 1.0 - abs(self.levels[1] - GOAL) / GOAL - COST * volts
        return self.levels.astype(np.float32), float(reward), False, False, {}


def best_rate(valve: float) -> float:
    """Return ρ*: hold the goal, for which the pump replaces what the valve drains."""
    return float(1.0 - COST * 6.0 * valve * np.sqrt(GOAL))


def study_of(seeds: list[int]) -> dict[str, Any]:
    """Return the study of the process, as the content of its file."""
    ends = {"theta_max": 1.0, "theta_min": 0.4}
    return {
        "name": "continuing-process",
        "title": "Two tanks that are never emptied, and a valve that changes",
        "summary": "What forgetting costs and brings where nothing is ever reset.",
        "task": "continuing:Process",
        "methods": METHODS,
        "seeds": seeds,
        "settings": {
            "continuing": True,
            "episodes": SEGMENTS,
            "forget_after": 20,
            "environment": {"parameter": "valve", "sim_steps": DAY},
        },
        "variants": [
            {
                "name": name,
                "settings": {"drift": drift if name == "steady" else {**drift, **ends}},
            }
            for name, drift in DRIFTS.items()
        ],
    }


def table(frame: polars.DataFrame, idle: float) -> polars.DataFrame:
    """Return share of the best rate, regret, and how much less adaptive has."""
    last = int(frame["episode"].max())  # pyright: ignore[reportArgumentType]
    late = polars.col("episode") > 0.9 * last
    gained = (polars.col("return_executed") - idle * polars.col("steps")).filter(late)
    possible = (polars.col("optimal_return") - idle * polars.col("steps")).filter(late)
    runs = frame.group_by("problem", "method", "seed").agg(
        share=gained.sum() / possible.sum(),
        regret=polars.col("cumulative_regret").last(),
    )
    ours = runs.filter(polars.col("method").str.starts_with("adaptive"))
    ours = ours.select("problem", "seed", adaptive="regret")
    rows = []
    for (problem, method), of in (
        runs.join(ours, on=["problem", "seed"])
        .sort("problem", "method", "seed")
        .group_by("problem", "method", maintain_order=True)
    ):
        less = estimate_mean((of["regret"] - of["adaptive"]).to_numpy())
        rows.append(
            {
                "problem": problem,
                "method": method,
                "seeds": len(of),
                "share": of["share"].mean(),
                "least share": of["share"].min(),
                "regret": of["regret"].mean(),
                "adaptive has less by": less.mean,
                "low": float(less.student.low),
                "high": float(less.student.high),
            }
        )
    return polars.DataFrame(rows)


def main() -> None:
    """Run what is asked for, then show what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="process", choices=[*IDLE])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/continuing"))
    parser.add_argument("--show", action="store_true", help="run nothing")
    asked = parser.parse_args()
    folder = asked.out / asked.task
    if asked.task == "process":
        file = asked.out / "process.toml"
        asked.out.mkdir(parents=True, exist_ok=True)
        write_atomically(file, toml_text(study_of(asked.seeds)).encode())
    else:
        file = find_study("continuing")
    if not asked.show:
        here = {"DRIFTRL_PLUGIN_PATH": str(Path(__file__).parent)}
        run = [sys.executable, "-m", "driftrl", "study", str(file), "--out", folder]
        subprocess.run(run, check=True, env=os.environ | here)
    frame = driftrl.load(folder, oracle=best_rate if asked.task == "process" else None)
    polars.Config(
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        float_precision=3,
    )
    print(table(frame, IDLE[asked.task]))


if __name__ == "__main__":
    main()

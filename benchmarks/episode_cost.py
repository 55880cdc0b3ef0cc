"""What an episode costs as a run gets longer: 200 short episodes of each method.

Keeping all data costs more with every episode; a reset or a window must not.  Prints
seconds a block of episodes and draws docs/figures/episode_cost.png.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from driftrl.training.process import prepare

prepare(os.environ)

import matplotlib  # noqa: E402

matplotlib.use("agg")

from matplotlib import pyplot as plt  # noqa: E402

from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.presets.methods import METHODS  # noqa: E402
from driftrl.training.loop import run  # noqa: E402
from driftrl.types import EpisodeRecord  # noqa: E402

EPISODES = 200
BLOCK = 20
SETTINGS = {
    "episodes": EPISODES,
    "environment": {"sim_steps": 50},
    "agent": {
        "planner": {"horizon": 5, "samples": 64, "elites": 8, "iterations": 2},
        "model": {"fit_steps": 10},
    },
}
TEN_EPISODES = {"r-ombrl": {"period": 10}, "sw-ombrl": {"window": 10}}
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "episode_cost.png"


def costs(method: str) -> np.ndarray:
    """Return the seconds of every episode of one run."""
    own = {"forgetting": TEN_EPISODES[method]} if method in TEN_EPISODES else {}
    records: list[EpisodeRecord] = []
    with tempfile.TemporaryDirectory() as directory:
        run(
            configure("pendulum", method, {**SETTINGS, **own}),
            Path(directory),
            resume=False,
            on_episode=records.append,
            warn=print,
        )
    return np.array([record.wall_s for record in records])


def report() -> Iterator[str]:
    """Run the methods, draw the figure, and yield the lines of a table."""
    yield f"seconds an episode, mean of blocks of {BLOCK} episodes (10 decisions each)"
    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    for name in ("sombrl", "adaptive", *TEN_EPISODES):
        method = METHODS[name]
        seconds = costs(name)
        blocks = seconds.reshape(-1, BLOCK).mean(axis=1)
        growth = blocks[-2:].mean() / blocks[1:3].mean()
        cells = " ".join(f"{block:6.3f}" for block in blocks)
        yield f"{method.label:9} {cells}   last/early {growth:.2f}"
        smooth = np.convolve(seconds, np.ones(10) / 10, mode="valid")
        axes.plot(np.arange(10, EPISODES + 1), smooth, label=method.label)
    axes.set(xlabel="episode", ylabel="seconds an episode (mean of 10)", yscale="log")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=200)
    yield f"drawn: {FIGURE}"


if __name__ == "__main__":
    for line in report():
        print(line, flush=True)

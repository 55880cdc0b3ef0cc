"""The car that parks: throttle and returns over episodes, and how it drove.

    driftrl study rccar_parking
    python experiments/parking.py runs/rccar_parking

The car observes x, y, sin ψ and cos ψ first: metres from the goal, which is the origin,
and the heading, which is 0 there.
"""

import argparse
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import driftrl
from driftrl.analysis.panels import method_runs, panels_of, theta_changes
from driftrl.analysis.plots import (
    draw_episodes,
    draw_legend,
    draw_panel,
    printed_style,
    save,
    seed_counts,
)
from driftrl.analysis.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    shade,
)
from driftrl.errors import CorruptFile, require

TASK = "rccar"
# In metres.
_CAR = np.array([(-0.22, -0.1), (0.11, -0.1), (0.22, 0.0), (0.11, 0.1), (-0.22, 0.1)])
_APART = 0.6  # what a car moves from one that is drawn to the next
_TURNING = 0.2  # m a radian, so that turning on the spot is a movement as well
_MARGIN = 0.3
_MOST_CARS = 14
# In inches: edges of the returns, left edge of the drives, and of the figure.
_RETURNS = (0.5, 3.0)
_DRIVES = 3.3
_EDGE = 0.06
_HEIGHT, _TOP, _BOTTOM = 2.85, 0.47, 0.42


@dataclass(frozen=True)
class Drive:
    """The states of one episode of a run, and its return."""

    seed: int
    obs: Float[np.ndarray, "T S"]
    """Every state, the last one included."""
    total: float


def read_drives(frame: pl.DataFrame) -> dict[tuple[str, int], list[Drive]]:
    """Return the drives of each method in the episodes that are shown.

    These are the last before θ begins to change, and the last that all runs reached.
    Empty for other tasks and if a method has no files: published records have none.
    """
    if set(frame["task"]) != {TASK}:
        return {}
    groups = method_runs(frame)
    last = min(len(run) for runs in groups.values() for run in runs)
    before = [start - 1 for start in theta_changes(frame)[:1] if start - 1 < last]
    drives = {
        (method, episode): [drive for run in runs if (drive := _read(run, episode))]
        for episode in sorted({*before, last})
        for method, runs in groups.items()
    }
    return drives if all(drives.values()) else {}


def _read(run: pl.DataFrame, episode: int) -> Drive | None:
    path = Path(run["directory"][0]) / "memory" / f"{episode:06d}.npz"
    if not path.is_file():
        return None
    try:
        # From bytes: NumPy would leave a damaged file open.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            obs = np.concatenate([stored["obs"], stored["next_obs"][-1:]])
    except Exception as error:  # a damaged archive fails in many ways
        raise CorruptFile(
            f"{path} of episode {episode} is damaged ({type(error).__name__}). Restore "
            "it from a copy, or remove the directory to report on the records alone."
        ) from error
    return Drive(run["seed"][0], obs, run["return_executed"][episode - 1])


def median_drive(drives: Sequence[Drive]) -> Drive:
    """Return the one with the median return; of two in the middle, the lower."""
    ranked = sorted(drives, key=lambda drive: (drive.total, drive.seed))
    return ranked[(len(ranked) - 1) // 2]


def parking(frame: pl.DataFrame) -> Figure:
    """Draw θ_n and returns at the left, and the drives of each method beside them.

    Above is the last episode before θ begins to change, below the last of all.  Cars
    stand along the drive with the median return, paler at its beginning; thin lines
    are the other seeds, with a dot where each ended.  The dashed outline is the goal.
    """
    drives = read_drives(frame)
    require(bool(drives), "Drives need runs of rccar with their episodes in memory/.")
    methods = list(dict.fromkeys(method for method, _ in drives))
    episodes = list(dict.fromkeys(episode for _, episode in drives))
    styles = method_styles(methods)
    column = np.clip((PAGE_INCHES - _DRIVES) / len(methods), 1.25, 1.9)
    width = _DRIVES + float(column) * len(methods)
    with printed_style():
        figure = Figure(figsize=(width, _HEIGHT))
        _draw_returns(figure, frame, styles)
        place = {
            "left": _DRIVES / width,
            "right": 1 - _EDGE / width,
            "top": 1 - _TOP / _HEIGHT,
            "bottom": _EDGE / _HEIGHT,
            "wspace": 0.05,
            "hspace": 0.05,
        }
        size = len(episodes), len(methods)
        grid = figure.subplots(*size, squeeze=False, gridspec_kw=place)
        box = grid[0, 0].get_position()
        shape = box.width * width / (box.height * _HEIGHT)
        xlim, ylim = view(list(drives.values()), shape)
        for row, episode in zip(grid, episodes, strict=True):
            for axes, method in zip(row, methods, strict=True):
                _draw_drives(axes, drives[method, episode], styles[method])
                axes.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
            row[0].set_ylabel(f"Episode {episode}", labelpad=3)
        for axes, method in zip(grid[0], methods, strict=True):
            colour = styles[method].colour
            axes.set_title(styles[method].name, color=colour, fontweight="bold")
        x = xlim[0] + 0.05 * (xlim[1] - xlim[0])
        y = ylim[0] + 0.06 * (ylim[1] - ylim[0])
        grid[-1, 0].plot([x, x + 1], [y, y], color=INK, lw=1.2, solid_capstyle="butt")
        label = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center"}
        grid[-1, 0].annotate("1 m", (x + 0.5, y), **label)
    return figure


def view(
    drives: Sequence[Sequence[Drive]], shape: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the part of the floor to show, as wide as ``shape`` times its height.

    It has the goal, every start, and the drives with the median return.
    """
    paths = [median_drive(group).obs[:, :2] for group in drives]
    starts = [drive.obs[:1, :2] for group in drives for drive in group]
    points = np.concatenate([*paths, *starts, np.zeros((1, 2))])
    low, high = points.min(axis=0) - _MARGIN, points.max(axis=0) + _MARGIN
    size = np.maximum(high - low, (high - low)[::-1] * (shape, 1 / shape))
    (left, below), (right, above) = (low + high - size) / 2, (low + high + size) / 2
    return (float(left), float(right)), (float(below), float(above))


def car_places(states: Float[np.ndarray, "T S"]) -> Int[np.ndarray, " C"]:
    """Return the steps at which to draw a car: evenly far apart, with start and end."""
    steps = np.hypot(*np.diff(states[:, :2], axis=0).T)
    turns = np.diff(np.unwrap(np.arctan2(states[:, 2], states[:, 3])))
    moved = np.concatenate([[0.0], np.cumsum(steps + _TURNING * np.abs(turns))])
    count = min(_MOST_CARS, 2 + int(moved[-1] / _APART))
    wanted = np.linspace(0.0, moved[-1], count)
    return np.unique([*np.searchsorted(moved, wanted[:-1]), len(states) - 1])


def _draw_returns(
    figure: Figure, frame: pl.DataFrame, styles: dict[str, MethodStyle]
) -> None:
    width, panels = figure.get_figwidth(), panels_of(frame)
    shares = [1, 4] if "theta" in panels else [1]
    place = {
        "left": _RETURNS[0] / width,
        "right": _RETURNS[1] / width,
        "top": 1 - _TOP / _HEIGHT,
        "bottom": _BOTTOM / _HEIGHT,
        "hspace": 0.14,
        "height_ratios": shares,
    }
    grid = figure.subplots(
        len(shares), 1, sharex=True, squeeze=False, gridspec_kw=place
    )
    *strips, returns = grid[:, 0]
    for strip in strips:
        draw_panel(strip, panels["theta"], styles)
        draw_episodes(strip, frame)
        strip.set_ylabel(r"$\theta_n$")
        strip.set_ylim(0, 1.15 * strip.get_ylim()[1])
    draw_panel(returns, panels["returns"], styles)
    draw_episodes(returns, frame)
    returns.set(xlabel=r"Episode $n$", ylabel=r"Return $J(\pi_n)$")
    figure.align_ylabels(grid)
    corner = {"loc": "upper left", "bbox_to_anchor": (_RETURNS[0] / width - 0.01, 1)}
    draw_legend(figure, [returns], borderaxespad=0.2, **corner)
    text: dict[str, Any] = {"ha": "right", "va": "center", "color": MUTED}
    height = 1 - 0.14 / _HEIGHT
    figure.text(1 - _EDGE / width, height, seed_counts(frame), **text)


def _draw_drives(axes: Axes, drives: Sequence[Drive], style: MethodStyle) -> None:
    shown, colour = median_drive(drives), style.colour
    for drive in drives:
        if drive is not shown:
            axes.plot(*drive.obs[:, :2].T, color=colour, lw=0.6, alpha=0.5)
            axes.plot(*drive.obs[-1:, :2].T, "o", color=colour, ms=2.2, alpha=0.8)
    goal = {"fill": False, "edgecolor": INK, "lw": 0.9, "ls": (0, (2, 1)), "zorder": 4}
    axes.fill(*(1.25 * _CAR).T, **goal)
    places = car_places(shown.obs)
    for share, step in zip(np.linspace(0, 0.75, len(places)), places, strict=True):
        x, y, sin, cos = shown.obs[step, :4]
        corners = _CAR @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
        paint = shade(colour, float(share))
        axes.fill(*corners.T, facecolor=paint, edgecolor="white", lw=0.6, zorder=2)
    axes.plot(*shown.obs[:, :2].T, color=INK, lw=0.7, zorder=3)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set(visible=True, color=MUTED, lw=0.5)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw parking.png and parking.pdf."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--out", type=Path, default=Path("parking"))
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save(parking(driftrl.load(options.study, oracle="none")), options.out)


if __name__ == "__main__":
    main()

"""The car that parks: its throttle and its returns over episodes, and how it drove.

What it observes begins with x, y, sin ψ and cos ψ: metres from the goal, which is the
origin, and the heading, which is 0 there.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.figures.axes import draw_episodes, draw_panel, what_is_drawn
from driftrl.figures.panels import return_panel, study_changes, theta_panel
from driftrl.figures.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
    shade,
)
from driftrl.results.curves import theta_is_known
from driftrl.results.regret import StudyRegret
from driftrl.results.trajectories import Trajectory, median_trajectory, trajectories

TASK = "rccar"

Drives = dict[tuple[str, int], list[Trajectory]]
States = Float[np.ndarray, "T S"]
Limits = tuple[tuple[float, float], tuple[float, float]]

# In metres.
_CAR = np.array([(-0.22, -0.1), (0.11, -0.1), (0.22, 0.0), (0.11, 0.1), (-0.22, 0.1)])
_SPACE = 1.25 * _CAR  # the outline of the goal
_APART = 0.6  # what a car moves from one that is drawn to the next
_TURNING = 0.2  # m a radian, so that turning on the spot is a movement as well
_MARGIN = 0.3
_MOST_CARS = 14
# In inches: the edges of the returns, where the drives begin, and how wide each is.
_RETURNS = (0.5, 3.0)
_DRIVES = 3.3
_COLUMN = (1.25, 1.9)
_EDGE = 0.06
_HEIGHT, _TOP, _BOTTOM = 2.85, 0.47, 0.42


def shown_episodes(study: StudyRegret) -> list[int]:
    """Return the last episode before θ begins to change, if it does, and the last.

    The last is the one that every run has reached.
    """
    before = [start - 1 for start in study_changes(study)[:1]]
    return sorted({*(n for n in before if n < study.episodes), study.episodes})


def drives_of(study: StudyRegret) -> Drives:
    """Return the drives of each method in each episode that is shown.

    Empty for any other task, and where a method has none: published records come
    without the episodes themselves.
    """
    if study.task != TASK:
        return {}
    drives = {
        (one.method, episode): trajectories(study.runs_of(one.method), episode)
        for episode in shown_episodes(study)
        for one in study.methods
    }
    return drives if all(drives.values()) else {}


def parking_words(study: StudyRegret) -> tuple[str, str]:
    """Return the title of the figure, and how to read what is drawn in it."""
    dotted = before = ""
    if study_changes(study):
        dotted = ", and the dotted line marks where θ begins to change"
    if len(shown_episodes(study)) > 1:
        before = " and, above that, in the last before θ began to change"
    return "How the car parks", (
        "Left: the throttle θ, and the return of each policy; lines are means over "
        f"seeds, bands one standard error to either side{dotted}. Right: the car from "
        f"above, as it drove while it learned, in the last episode{before}. Cars stand "
        "along the drive with the median return of that method and episode (of an even "
        "number of seeds, the lower of the middle two), the paler the earlier, and "
        "point where they head. Thin lines are the ways of the other seeds, with a dot "
        "where each ended; the dashed outline is the goal."
    )


def parking_figure(study: StudyRegret) -> Figure:
    """Draw θ_n and returns at the left, and the drives of each method beside them.

    Above are drives of the last episode before the throttle fades, below of the last of
    all.  Cars stand along the drive with the median return, the paler the earlier; of
    the other seeds the ways are lines that end in a dot.  ``drives_of`` the study must
    not be empty.
    """
    drives = drives_of(study)
    methods, episodes = [one.method for one in study.methods], shown_episodes(study)
    styles = method_styles(methods)
    column = np.clip((PAGE_INCHES - _DRIVES) / len(methods), *_COLUMN)
    width = _DRIVES + float(column) * len(methods)
    with printed_style():
        figure = Figure(figsize=(width, _HEIGHT))
        _draw_returns(figure, study, styles)
        grid = figure.subplots(
            len(episodes),
            len(methods),
            squeeze=False,
            gridspec_kw={
                "left": _DRIVES / width,
                "right": 1 - _EDGE / width,
                "top": 1 - _TOP / _HEIGHT,
                "bottom": _EDGE / _HEIGHT,
                "wspace": 0.05,
                "hspace": 0.05,
            },
        )
        place = grid[0, 0].get_position()
        shape = place.width * width / (place.height * _HEIGHT)
        limits = view(list(drives.values()), shape)
        for row, episode in zip(grid, episodes, strict=True):
            for axes, method in zip(row, methods, strict=True):
                _draw_drives(axes, drives[method, episode], styles[method])
                axes.set(xlim=limits[0], ylim=limits[1], xticks=[], yticks=[])
            row[0].set_ylabel(f"Episode {episode}", labelpad=3)
        for axes, method in zip(grid[0], methods, strict=True):
            colour = styles[method].colour
            axes.set_title(styles[method].name, color=colour, fontweight="bold")
        _draw_scale(grid[-1, 0], limits)
    return figure


def view(drives: Sequence[Sequence[Trajectory]], shape: float) -> Limits:
    """Return the part of the floor to show, as wide as ``shape`` times its height.

    It has the goal, every start, and all of the drives that cars are drawn along; of
    the others one may leave it.
    """
    ways = [median_trajectory(list(found)).obs[:, :2] for found in drives]
    starts = [one.obs[:1, :2] for found in drives for one in found]
    places = np.concatenate([*ways, *starts, np.zeros((1, 2))])
    low, high = places.min(axis=0) - _MARGIN, places.max(axis=0) + _MARGIN
    size = np.maximum(high - low, (high - low)[::-1] * (shape, 1 / shape))
    (left, below), (right, above) = (low + high - size) / 2, (low + high + size) / 2
    return (float(left), float(right)), (float(below), float(above))


def car_places(states: States) -> Int[np.ndarray, " C"]:
    """Return the decisions at which to draw a car: evenly far apart, start and end.

    A movement is that of the place, and of the heading by ``_TURNING``.
    """
    steps = np.hypot(*np.diff(states[:, :2], axis=0).T)
    turns = np.diff(np.unwrap(np.arctan2(states[:, 2], states[:, 3])))
    moved = np.concatenate([[0.0], np.cumsum(steps + _TURNING * np.abs(turns))])
    count = min(_MOST_CARS, 2 + int(moved[-1] / _APART))
    wanted = np.linspace(0.0, moved[-1], count)
    return np.unique([*np.searchsorted(moved, wanted[:-1]), len(states) - 1])


def _draw_returns(
    figure: Figure, study: StudyRegret, styles: Mapping[str, MethodStyle]
) -> None:
    width = figure.get_figwidth()
    shares = [1, 4] if theta_is_known(study.runs) else [1]
    grid = figure.subplots(
        len(shares),
        1,
        sharex=True,
        squeeze=False,
        height_ratios=shares,
        gridspec_kw={
            "left": _RETURNS[0] / width,
            "right": _RETURNS[1] / width,
            "top": 1 - _TOP / _HEIGHT,
            "bottom": _BOTTOM / _HEIGHT,
            "hspace": 0.14,
        },
    )
    *strips, returns = grid[:, 0]
    for strip in strips:
        draw_panel(strip, theta_panel(study), styles)
        draw_episodes(strip, study)
        strip.set_ylabel(r"$\theta_n$")
        strip.set_ylim(0, 1.15 * strip.get_ylim()[1])
    panel = return_panel(study)
    draw_panel(returns, panel, styles)
    draw_episodes(returns, study)
    returns.set_ylabel(r"Return $J(\pi_n)$")
    returns.set_xlabel(r"Episode $n$")
    figure.align_ylabels(grid)
    handles, labels = returns.get_legend_handles_labels()
    for optimum in panel.references:
        handles += returns.plot([], [], color=INK, linewidth=0.9)
        labels.append(optimum.label)
    place = (_RETURNS[0] / width - 0.01, 1.0)
    figure.legend(
        handles,
        labels,
        loc="upper left",
        ncols=len(labels),
        bbox_to_anchor=place,
        borderaxespad=0.2,
    )
    figure.text(
        1 - _EDGE / width,
        1 - 0.14 / _HEIGHT,
        what_is_drawn(study),
        ha="right",
        va="center",
        color=MUTED,
    )


def _draw_drives(axes: Axes, drives: Sequence[Trajectory], style: MethodStyle) -> None:
    shown = median_trajectory(list(drives))
    for one in drives:
        if one is not shown:
            axes.plot(*one.obs[:, :2].T, color=style.colour, lw=0.6, alpha=0.5)
            axes.plot(*one.obs[-1:, :2].T, "o", color=style.colour, ms=2.2, alpha=0.8)
    axes.fill(*_SPACE.T, fill=False, edgecolor=INK, lw=0.9, ls=(0, (2, 1)), zorder=4)
    places = car_places(shown.obs)
    for share, place in zip(np.linspace(0, 0.75, len(places)), places, strict=True):
        _draw_car(axes, shown.obs[place], shade(style.colour, float(share)))
    axes.plot(*shown.obs[:, :2].T, color=INK, lw=0.7, zorder=3)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set(visible=True, color=MUTED, lw=0.5)


def _draw_car(axes: Axes, state: Float[np.ndarray, " S"], colour: str) -> None:
    """Draw the car from above, pointed where it is heading."""
    x, y, sin, cos = state[:4]
    corners = _CAR @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    axes.fill(*corners.T, facecolor=colour, edgecolor="white", lw=0.6, zorder=2)


def _draw_scale(axes: Axes, limits: Limits) -> None:
    """Draw a metre into the lower left corner."""
    (left, right), (below, above) = limits
    x, y = left + 0.05 * (right - left), below + 0.06 * (above - below)
    axes.plot([x, x + 1], [y, y], color=INK, lw=1.2, solid_capstyle="butt")
    axes.annotate("1 m", (x + 0.5, y), (0, 2), textcoords="offset points", ha="center")

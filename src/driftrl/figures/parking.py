"""The car that parks: returns over episodes, and the ways that it took.

Its observations begin with x, y, sin ψ, cos ψ, v_x, v_y, in metres from the goal, which
is at the origin with ψ = 0.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.figures.axes import draw_episodes, draw_panel, note, what_is_drawn
from driftrl.figures.panels import return_panel, study_changes
from driftrl.figures.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
)
from driftrl.regret import StudyRegret
from driftrl.results.trajectories import observed

_CAR = (0.30, 0.14)  # m, length and width of the drawn car
_EVERY = 15  # decisions between two drawn cars
_MARGIN = 0.35  # m around the ways
_HEIGHT = 3.3  # inches
Way = Float[np.ndarray, "T S"]


def parking_figure(study: StudyRegret) -> Figure | None:
    """Draw returns at the left, and at the right the ways of each method.

    Above is the last episode before the throttle fades, below the last of all.  One
    seed's way has cars drawn along it, the other seeds' are thin lines.  None where the
    episodes themselves are not at hand.
    """
    last = study.episodes
    before = max(1, min(study_changes(study), default=2) - 1)
    ways = {
        (one.method, episode): _ways(study, one.method, episode)
        for one in study.methods
        for episode in (before, last)
    }
    if not all(ways.values()):
        return None
    styles = method_styles(one.method for one in study.methods)
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, _HEIGHT))
        names = [one.method for one in study.methods]
        grid = figure.add_gridspec(
            2, 1 + len(names), width_ratios=[1.9, *[1] * len(names)]
        )
        figure.subplots_adjust(
            left=0.07, right=0.995, top=0.93, bottom=0.13, wspace=0.12, hspace=0.1
        )
        returns = figure.add_subplot(grid[:, 0])
        draw_panel(returns, return_panel(study), styles)
        draw_episodes(returns, study)
        returns.set_xlabel(r"Episode $n$")
        returns.set_title("Return of an episode", loc="left", fontweight="bold")
        returns.legend(loc="lower right")
        note(returns, what_is_drawn(study), (0.02, 0.97), returns.transAxes)
        limits = _limits([way for found in ways.values() for way in found])
        for column, method in enumerate(names, start=1):
            for row, episode in enumerate((before, last)):
                axes = figure.add_subplot(grid[row, column])
                _draw_ways(axes, ways[method, episode], styles[method], limits)
                if row == 0:
                    axes.set_title(styles[method].name, fontweight="bold")
                if column == 1:
                    axes.set_ylabel(f"episode {episode}", color=INK)
    return figure


def _ways(study: StudyRegret, method: str, episode: int) -> list[Way]:
    found = [observed(run, episode) for run in study.runs_of(method)]
    return [way for way in found if way is not None]


def _limits(ways: Sequence[Way]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return what of the floor to show: where most of the ways are, and the goal."""
    places = np.concatenate([way[:, :2] for way in ways])
    low = np.minimum(np.percentile(places, 1, axis=0), 0.0) - _MARGIN
    high = np.maximum(np.percentile(places, 99, axis=0), 0.0) + _MARGIN
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))


def _draw_ways(
    axes: Axes,
    ways: Sequence[Way],
    style: MethodStyle,
    limits: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    for way in ways[1:]:
        axes.plot(way[:, 0], way[:, 1], color=style.colour, lw=0.5, alpha=0.45)
    shown = ways[0]
    axes.plot(shown[:, 0], shown[:, 1], color=style.colour, lw=1.1)
    for state in shown[::_EVERY]:
        _draw_car(axes, state, style.colour)
    goal = np.array([0.0, 0.0, 0.0, 1.0])
    _draw_car(axes, goal, INK, filled=False)
    axes.set(xlim=limits[0], ylim=limits[1], aspect="equal", xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set(visible=True, color=MUTED, lw=0.5)


def _draw_car(
    axes: Axes, state: Float[np.ndarray, " S"], colour: str, *, filled: bool = True
) -> None:
    """Draw the outline of the car, pointed where it is heading."""
    length, width = _CAR
    outline = np.array(
        [
            [-length / 2, -width / 2],
            [length / 4, -width / 2],
            [length / 2, 0.0],
            [length / 4, width / 2],
            [-length / 2, width / 2],
        ]
    )
    sin, cos = state[2], state[3]
    corners = outline @ np.array([[cos, sin], [-sin, cos]]) + state[:2]
    axes.fill(
        *corners.T,
        facecolor=colour if filled else "none",
        edgecolor=colour,
        alpha=0.6 if filled else 1.0,
        lw=0.8,
        zorder=3,
    )

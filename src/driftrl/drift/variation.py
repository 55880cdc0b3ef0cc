"""How much a schedule moves: its variation budget, change points and extremes.

The paper bounds the drift of the dynamics f_n by a budget in the norm of the RKHS,

    Σ_{n=1}^{N-1} ‖f_{n+1} − f_n‖ ≤ P_N.

Here the sum is taken in the space of the parameter, Σ |θ_{n+1} − θ_n|.  The two are
proportional for dynamics that are affine in θ: from f_n = f + θ_n·g follows
‖f_{n+1} − f_n‖ = ‖g‖·|θ_{n+1} − θ_n|, and so P_N = ‖g‖·Σ |θ_{n+1} − θ_n|.  A torque
limit that scales the action is such a parameter, up to the clipping of the speed.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from driftrl.drift.schedules import Constant, Join, Piecewise, Schedule, Unknown
from driftrl.errors import require

Values = Sequence[float] | Float[np.ndarray, " N"]
"""θ_1 … θ_N."""


def values_of(
    schedule: Callable[[int], float], episodes: int
) -> Float[np.ndarray, " N"]:
    """Return θ_1 … θ_N of a schedule for N episodes."""
    require(
        episodes >= 0,
        f"The number of episodes must be at least 0; received {episodes}.",
    )
    return np.array([schedule(n) for n in range(1, episodes + 1)], dtype=np.float64)


def schedule_variation(schedule: Callable[[int], float], episodes: int) -> float:
    """Return the variation of a schedule over N episodes, Σ_{n<N} |θ_{n+1} − θ_n|."""
    return total_variation(values_of(schedule, episodes))


def total_variation(values: Values) -> float:
    """Return the variation of a sequence, Σ_{n<N} |θ_{n+1} − θ_n|; 0 for N ≤ 1."""
    return float(np.abs(_changes(values)).sum())


def cumulative_variation(values: Values) -> Float[np.ndarray, " N"]:
    """Return P_1 … P_N, the variation of every beginning of a sequence; P_1 is 0."""
    changes = np.abs(_changes(values))
    return np.cumsum(np.concatenate([np.zeros(min(1, len(values))), changes]))


def change_points(values: Values, tolerance: float = 0.0) -> tuple[int, ...]:
    """Return the clocks n, from 2, at which |θ_n − θ_{n−1}| exceeds a tolerance."""
    require(
        tolerance >= 0,
        f"The tolerance of a change must be at least 0; received {tolerance}.",
    )
    (found,) = np.nonzero(np.abs(_changes(values)) > tolerance)
    return tuple(int(index) + 2 for index in found)


def _changes(values: Values) -> Float[np.ndarray, " K"]:
    """Return θ_{n+1} − θ_n for n = 1 … N−1."""
    values = np.asarray(values, dtype=np.float64)
    require(
        values.ndim == 1 and bool(np.isfinite(values).all()),
        f"The values of θ must be one row of finite numbers; received {values!r}.",
    )
    return np.diff(values)


def extremes(schedule: Schedule) -> tuple[float, float]:
    """Return the bounds of a schedule, which it may come to at any time."""
    if isinstance(schedule, Join):
        lows, highs = zip(*map(extremes, schedule.parts), strict=True)
        return min(lows), max(highs)
    if isinstance(schedule, Piecewise):
        return min(schedule.values), max(schedule.values)
    if isinstance(schedule, Constant | Unknown):
        return schedule(0), schedule(0)
    return schedule.theta_min, schedule.theta_max

"""Dynamic programming for the pendulum: V_k(φ, ω), the best return of k steps.

Backward over the number k of steps that are left, on a grid of states::

    V_0(s)     = 0
    V_{k+1}(s) = max_{a ∈ [−1, 1]}  r(s, a, θ) + V_k(f(s, a, θ))

where f and r hold the action for ``repeat`` simulator steps.  θ is that of the whole
episode, or of every step of it: V_{k+1} then has θ of step D − 1 − k.

Between the points of the grid V is interpolated by cubic convolution, limited to the
values at the corners of the cell: V has cliffs, beside which a plain cubic overshoots,
and the maximum over actions would collect the overshoots.  The pendulum is symmetric,
V(φ, ω) = V(−φ, −ω), so only φ ≥ 0 is computed.  θ is an argument of the compiled
program, the grid is not.
"""

from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftrl.envs.pendulum import MAX_SPEED, PendulumState, Scalar, repeated_step

Padded = Float[Array, "P_padded W_padded"]
"""A table with a margin, as ``pad`` makes it."""

TURN = 2.0 * jnp.pi
SEARCHED_ACTIONS = 101  # by the greedy policy: one state at a time, so it may be finer


class Trajectory(NamedTuple):
    """Actions, the states in which they were taken, and their return.

    States are kept because replayed actions alone would drop the pendulum: upright is
    unstable, and rounding errors grow.
    """

    actions: Float[Array, "*B D"]
    states: PendulumState  # Angles and speeds, each of the shape of ``actions``
    value: Float[Array, "*B"]


@dataclass(frozen=True)
class Grid:
    """Numbers of angles, speeds and actions."""

    angles: int
    """Points of a full turn; even, so that upright and hanging are among them."""
    speeds: int
    """Points from −MAX_SPEED to MAX_SPEED; odd, so that standing still is one."""
    actions: int
    """Points of [−1, 1] that are tried before the best one is refined."""

    def __str__(self) -> str:
        return f"{self.angles} angles × {self.speeds} speeds × {self.actions} actions"

    def coarsened(self) -> "Grid":
        """Return the grid with twice the spacing of states, for error estimates."""
        angles = max(4, 2 * (self.angles // 4))
        speeds = max(5, 2 * ((self.speeds - 1) // 4) + 1)
        return Grid(angles, speeds, self.actions)


def pad(table: Float[Array, "P W"]) -> Float[Array, "P+3 W+2"]:
    """Add the margin that interpolation needs.

    Angles are periodic; speeds follow the parabola through the last three.
    """
    low = 3.0 * table[:, :1] - 3.0 * table[:, 1:2] + table[:, 2:3]
    high = 3.0 * table[:, -1:] - 3.0 * table[:, -2:-1] + table[:, -3:-2]
    table = jnp.concatenate([low, table, high], axis=1)
    return jnp.concatenate([table[-1:], table, table[:2]], axis=0)


def _cubic_weights(t: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Weights of cubic convolution at −1, 0, 1, 2 for a point t in [0, 1]."""
    return (
        ((-0.5 * t + 1.0) * t - 0.5) * t,
        (1.5 * t - 2.5) * t * t + 1.0,
        ((-1.5 * t + 2.0) * t + 0.5) * t,
        (0.5 * t - 0.5) * t * t,
    )


def interpolate(padded: Padded, state: PendulumState) -> Scalar:
    """Return the value of a padded table at any state, in the table's precision."""
    angles, speeds = padded.shape[0] - 3, padded.shape[1] - 2
    row = (state.angle / TURN + 0.5) * angles
    row = row - angles * jnp.floor(row / angles)
    # Rounding may bring row up to ``angles`` itself, which is a point of the next turn.
    row_floor = jnp.clip(jnp.floor(row), 0.0, angles - 1.0)
    column = (state.speed / MAX_SPEED + 1.0) * (0.5 * (speeds - 1))
    column_floor = jnp.clip(jnp.floor(column), 0.0, speeds - 2.0)
    row_weights = _cubic_weights((row - row_floor).astype(padded.dtype))
    column_weights = _cubic_weights((column - column_floor).astype(padded.dtype))
    flat = padded.reshape(-1)
    first = row_floor.astype(jnp.int32) * (speeds + 2) + column_floor.astype(jnp.int32)
    near = [[flat[first + (i * (speeds + 2) + j)] for j in range(4)] for i in range(4)]
    value = sum(
        row_weights[i] * sum(column_weights[j] * near[i][j] for j in range(4))
        for i in range(4)
    )
    corners = [near[i][j] for i in (1, 2) for j in (1, 2)]
    return jnp.clip(value, reduce(jnp.minimum, corners), reduce(jnp.maximum, corners))


def action_value(
    padded: Padded, state: PendulumState, action: Scalar, theta: Scalar, repeat: int
) -> Scalar:
    """Q(s, a) = r(s, a, θ) + V(f(s, a, θ)) for the V of a padded table."""
    after, reward = repeated_step(state, action, theta, repeat)
    return reward + interpolate(padded, after).astype(reward.dtype)


def refined_argmax(values: Float[Array, " A"], actions: Float[Array, " A"]) -> Scalar:
    """Return the top of the parabola through the best of evenly spaced actions."""
    middle = jnp.clip(jnp.argmax(values), 1, len(values) - 2)
    left, centre, right = values[middle - 1], values[middle], values[middle + 1]
    curvature = left - 2.0 * centre + right
    concave = curvature < 0.0
    offset = 0.5 * (left - right) / jnp.where(concave, curvature, 1.0)
    offset = jnp.where(concave, jnp.clip(offset, -1.0, 1.0), 0.0)
    return actions[middle] + offset * (actions[1] - actions[0])


def _half_turn(grid: Grid, dtype: jnp.dtype) -> PendulumState:
    """Return the states of the grid with φ in [0, π], one after the other."""
    angles = jnp.linspace(0.0, jnp.pi, grid.angles // 2 + 1, dtype=dtype)
    speeds = jnp.linspace(-MAX_SPEED, MAX_SPEED, grid.speeds, dtype=dtype)
    angle, speed = jnp.meshgrid(angles, speeds, indexing="ij")
    return PendulumState(angle.reshape(-1), speed.reshape(-1))


def _mirrored(half: Float[Array, "M W"]) -> Float[Array, "2*M-2 W"]:
    """Complete a table by V(φ, ω) = V(−φ, −ω); its first angle is −π."""
    return jnp.concatenate([half[:0:-1, ::-1], half[:-1]], axis=0)


def _backup(
    table: Float[Array, "P W"],
    transitions: tuple[PendulumState, Float[Array, "A S"]],
    theta: Scalar,
    grid: Grid,
    repeat: int,
) -> Float[Array, "P W"]:
    """Return V_{k+1} from V_k; ``transitions`` are those of the grid's actions."""
    padded = pad(table)
    after, rewards = transitions
    ahead = jax.vmap(partial(interpolate, padded))
    values = rewards + jax.lax.map(ahead, after)
    actions = jnp.linspace(-1.0, 1.0, grid.actions, dtype=theta.dtype)
    refined = jax.vmap(refined_argmax, in_axes=(1, None))(values, actions)

    def value(state: PendulumState, action: Scalar) -> Scalar:
        return action_value(padded, state, action, theta, repeat)

    of_refined = jax.vmap(value)(_half_turn(grid, theta.dtype), refined)
    best = jnp.maximum(values.max(axis=0), of_refined)
    return _mirrored(best.reshape(-1, grid.speeds))


class Values(NamedTuple):
    """V on P angles from −π on and W speeds from −MAX_SPEED to MAX_SPEED."""

    whole: Float[Array, "P W"]  # V_D, the best return of the whole episode
    rest: Float[Array, "D P W"]  # V_0 … V_{D−1}


@partial(jax.jit, static_argnames=("grid", "repeat", "steps"))
def value_tables(
    theta: Float[Array, "*D"], *, grid: Grid, repeat: int, steps: int
) -> Values:
    """Return V_0 … V_D for D steps at one θ, or θ_0 … θ_{D−1}, in its precision."""
    actions = jnp.linspace(-1.0, 1.0, grid.actions, dtype=theta.dtype)
    states = _half_turn(grid, theta.dtype)

    def transitions(theta: Scalar) -> tuple[PendulumState, Float[Array, "A S"]]:
        of_state = lambda state, action: repeated_step(state, action, theta, repeat)
        of_states = jax.vmap(of_state, (0, None))
        return jax.lax.map(partial(of_states, states), actions)

    # Where an action leads does not depend on k: computed once, not in every backup.
    always = transitions(theta) if theta.ndim == 0 else None

    def body(table: Array, later: Scalar | None) -> tuple[Array, Array]:
        now = theta if later is None else later
        made = always or transitions(now)
        return _backup(table, made, now, grid, repeat), table

    nothing = jnp.zeros((grid.angles, grid.speeds), theta.dtype)
    backwards = None if theta.ndim == 0 else theta[::-1]
    return Values(*jax.lax.scan(body, nothing, backwards, length=steps))


def greedy_action(
    padded: Padded, state: PendulumState, theta: Scalar, repeat: int
) -> Scalar:
    """Return the action that maximises Q(s, a), searched finer than on the grid."""
    actions = jnp.linspace(-1.0, 1.0, SEARCHED_ACTIONS, dtype=theta.dtype)

    def value(action: Scalar) -> Scalar:
        return action_value(padded, state, action, theta, repeat)

    values = jax.vmap(value)(actions)
    refined = refined_argmax(values, actions)
    better = value(refined) > values.max()
    return jnp.where(better, refined, actions[jnp.argmax(values)])


@partial(jax.jit, static_argnames="repeat")
def greedy_rollouts(
    tables: Float[Array, "D P W"],
    starts: PendulumState,
    forced: Float[Array, "B D"],
    theta: Float[Array, "*D"],
    *,
    repeat: int,
) -> Trajectory:
    """Follow the greedy policy from each of B starts on the true dynamics.

    ``tables`` are V_0 … V_{D−1}; ``forced`` actions are taken instead of the greedy
    ones where they are not NaN.  Returns are lower bounds of the optimum.
    """

    def decide(
        states: PendulumState, inputs: tuple[Array, Array, Array]
    ) -> tuple[PendulumState, tuple[Array, PendulumState, Array]]:
        table, forced, theta = inputs
        padded = pad(table)
        greedy = jax.vmap(lambda s: greedy_action(padded, s, theta, repeat))
        actions = jnp.where(jnp.isnan(forced), greedy(states), forced)
        follow = jax.vmap(lambda state, a: repeated_step(state, a, theta, repeat))
        after, rewards = follow(states, actions)
        return after, (actions, states, rewards)

    by_step = (tables[::-1], forced.T, jnp.broadcast_to(theta, forced.shape[1:]))
    _, (actions, states, rewards) = jax.lax.scan(decide, starts, by_step)
    states = PendulumState(states.angle.T, states.speed.T)
    return Trajectory(actions.T, states, rewards.sum(axis=0))

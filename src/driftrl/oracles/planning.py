"""iCEM on the true dynamics: the planner of the agents, told how the pendulum moves.

It plans anew at every decision, over a receding horizon that never looks past the end
of the episode.  What it achieves owes nothing to the tables of dynamic programming.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from driftrl.agents import icem
from driftrl.config.gp import ICEMConfig
from driftrl.envs.pendulum import PendulumState, Scalar, repeated_step
from driftrl.oracles.trajectory import Trajectory

# Time steps.  A strong motor is best planned for shortly: a long plan, once upright,
# is as unstable as the pendulum.  A weak one must see beyond the next swing.
LOOKAHEADS = (25, 50)


def planner(repeat: int) -> ICEMConfig:
    """Return settings of a planner that can look ahead as far as any of LOOKAHEADS."""
    return ICEMConfig(
        horizon=max(1, max(LOOKAHEADS) // repeat),
        samples=256,
        elites=25,
        iterations=6,
        noise_exponent=2.0,
        initial_std=1.0,
    )


@partial(jax.jit, static_argnames=("repeat", "decisions"))
def planned_episode(
    start: PendulumState,
    theta: Scalar,
    lookahead: Int[Array, ""],
    *,
    repeat: int,
    decisions: int,
    key: Key[Array, ""],
) -> Trajectory:
    """Return the episode that iCEM plans from ``start``, step by step.

    ``lookahead`` is the number of decisions whose rewards a plan is judged by.
    """
    config = planner(repeat)
    advance = partial(repeated_step, theta=theta, repeat=repeat)

    def outlook(
        actions: Float[Array, "H 1"], state: PendulumState, counted: Int[Array, ""]
    ) -> Scalar:
        _, rewards = jax.lax.scan(lambda s, a: advance(s, a[0]), state, actions)
        ahead = jnp.arange(config.horizon)
        return jnp.where(ahead < counted, rewards, 0.0).sum()

    def decide(
        carried: tuple[PendulumState, icem.Plan], inputs: tuple[Array, Array]
    ) -> tuple[tuple[PendulumState, icem.Plan], tuple[Scalar, PendulumState, Scalar]]:
        state, plan = carried
        left, key = inputs
        counted = jnp.minimum(left, lookahead)
        objective = partial(outlook, state=state, counted=counted)
        plan = icem.plan(objective, plan, config, key=key)
        action = plan.mean[0, 0]
        after, reward = advance(state, action)
        return (after, icem.shift(plan)), (action, state, reward)

    left = jnp.arange(decisions, 0, -1, dtype=lookahead.dtype)
    inputs = (left, jax.random.split(key, decisions))
    first = (start, icem.initial_plan(config, 1))
    _, (actions, states, rewards) = jax.lax.scan(decide, first, inputs)
    return Trajectory(actions, states, rewards.sum())


def planned_episodes(
    start: tuple[float, float], theta: float, *, repeat: int, decisions: int
) -> list[Trajectory]:
    """Return the episode that iCEM plans for each of LOOKAHEADS."""
    episodes = []
    with jax.enable_x64(True):
        state = PendulumState(jnp.float64(start[0]), jnp.float64(start[1]))
        keys = jax.random.split(jax.random.key(0), len(LOOKAHEADS))
        for steps, key in zip(LOOKAHEADS, keys, strict=True):
            episode = planned_episode(
                state,
                jnp.float64(theta),
                jnp.asarray(max(1, steps // repeat)),
                repeat=repeat,
                decisions=decisions,
                key=key,
            )
            episodes.append(jax.device_get(episode))
    return episodes

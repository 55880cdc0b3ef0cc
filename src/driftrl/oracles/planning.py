"""iCEM on the true dynamics: the planner of the agents, told how the pendulum moves.

It plans anew at every decision, over a receding horizon that never looks past the end
of the episode.  What it achieves owes nothing to the tables of dynamic programming.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from driftrl.agents import icem
from driftrl.config import ICEMConfig
from driftrl.envs.pendulum import PendulumState, Scalar, repeated_step

LOOKAHEAD = 75  # time steps: one swing of a pendulum that needs several


def planner(repeat: int) -> ICEMConfig:
    """Return settings under which a plan looks LOOKAHEAD time steps ahead."""
    return ICEMConfig(
        horizon=max(1, LOOKAHEAD // repeat),
        samples=256,
        elites=25,
        iterations=6,
        noise_exponent=2.0,
    )


@partial(jax.jit, static_argnames=("repeat", "decisions"))
def planned_episode(
    start: PendulumState,
    theta: Scalar,
    *,
    repeat: int,
    decisions: int,
    key: Key[Array, ""],
) -> tuple[Float[Array, " D"], Scalar]:
    """Return the actions that iCEM takes from ``start``, and their return."""
    config = planner(repeat)
    advance = partial(repeated_step, theta=theta, repeat=repeat)

    def outlook(
        actions: Float[Array, "H 1"], state: PendulumState, left: Array
    ) -> Scalar:
        _, rewards = jax.lax.scan(lambda s, a: advance(s, a[0]), state, actions)
        ahead = jnp.arange(config.horizon)
        return jnp.where(ahead < left, rewards, 0.0).sum()

    def decide(
        carried: tuple[PendulumState, icem.Plan], inputs: tuple[Array, Array]
    ) -> tuple[tuple[PendulumState, icem.Plan], tuple[Scalar, Scalar]]:
        state, plan = carried
        left, key = inputs
        objective = partial(outlook, state=state, left=left)
        plan = icem.plan(objective, plan, config, key=key)
        action = plan.mean[0, 0]
        state, reward = advance(state, action)
        return (state, icem.shift(plan)), (action, reward)

    counts = jnp.arange(decisions, 0, -1)
    inputs = (counts, jax.random.split(key, decisions))
    first = (start, icem.initial_plan(config, 1))
    _, (actions, rewards) = jax.lax.scan(decide, first, inputs)
    return actions, rewards.sum()

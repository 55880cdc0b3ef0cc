"""What a run will take on this machine.

That is the minutes of its task (``Task.minutes``, what ``driftrl list tasks`` prints),
scaled by the rate at which the machine multiplies matrices, and to other settings by::

    t ∝ N · T · U · f^0.8

with N episodes of T steps, U updates per step and f the size of the matrix products of
an update.  Small products are less efficient than large ones: 0.8 is the slope between
the measured times, over updates of 0.1 to 15 GFLOP; all of them lie within a factor of
1.5 of that line.
"""

import time
from collections.abc import Callable
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftrl.agents.model_based import model_batch
from driftrl.agents.model_gradient import members_asked, start_rows
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import AgentConfig, RunConfig
from driftrl.config.task import REFERENCE_RATE
from driftrl.envs.tasks import task_named, task_of_run
from driftrl.training.assembly import sizes_of

_SLOPE = 0.8
_EPISODE_BYTES = 2_000  # an episode's file and row, but for its transitions


def product_rate(rounds: int = 100) -> float:
    """Return multiplications and additions a second, in products of 256 × 256.

    It is the rate of the fastest of so many calls.  A call takes a millisecond or two,
    less than programs are given in turn: on a machine that is busy with others, too,
    some of the calls have a core to themselves.
    """
    size, passes = 256, 2
    rng = np.random.default_rng(0)
    x, *weights = jnp.asarray(rng.normal(size=(3, size, size)) / size**0.5, jnp.float32)

    @jax.jit
    def multiply(x: Array, weights: list[Array]) -> Array:
        # Each pass depends on the one before, or XLA would do only one.
        once = lambda _, x: x + 1e-6 * jnp.mean(x @ weights[0] @ weights[1])
        return jax.lax.fori_loop(0, passes, once, x)

    seconds = fastest(lambda: multiply(x, weights), rounds)
    return passes * len(weights) * 2.0 * size**3 / seconds


def fastest(call: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the fastest call, after one that compiles."""
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - started)
    return min(times[1:])


def expected_minutes(config: RunConfig, rate: float) -> float:
    """Return the minutes of a whole run on one core, if no episode ends early.

    Of a task that comes with driftrl, on a machine of this ``product_rate``.
    """
    task = task_of_run(config)
    usual = task.episodes * task.environment.steps
    ratio = config.episodes * config.environment.steps / usual
    usual_work = _work(task.agent, task.sizes(task.environment))
    ratio *= _work(config.agent, sizes_of(config)) / usual_work
    return task.minutes * ratio * REFERENCE_RATE / rate


def learning_minutes(
    agent: AgentConfig, sizes: tuple[int, int], steps: int, rate: float
) -> float:
    """Return the minutes of an agent's updates for so many steps, by the cheetah's."""
    known = task_named("halfcheetah")
    usual = known.episodes * known.environment.steps
    usual *= _work(known.agent, known.sizes(known.environment))
    return known.minutes * steps * _work(agent, sizes) / usual * REFERENCE_RATE / rate


def _work(agent: AgentConfig, sizes: tuple[int, int]) -> float:
    """Return the work of the updates of a step, up to a constant."""
    if isinstance(agent, GPAgentConfig):
        return 1.0
    return agent.learning.model_updates * _products(agent, sizes) ** _SLOPE


def _products(
    agent: EnsembleAgentConfig | SACAgentConfig, sizes: tuple[int, int]
) -> float:
    """Return about how many multiplications the matrix products of an update take."""
    states, actions = sizes
    weights = lambda *units: sum(a * b for a, b in pairwise(units))
    actor = weights(states, *agent.sac.hidden, 2 * actions)
    critics = weights(states + actions, *agent.sac.hidden, 1) * agent.sac.critics
    updates = agent.learning.policy_updates
    # A gradient takes twice the products of the pass before it.
    learned = 4 * actor + 6 * critics
    if isinstance(agent, SACAgentConfig):
        return agent.sac.batch_size * updates * learned
    member = weights(states + actions, *agent.model.hidden, states + 1)
    horizon = agent.imagination.horizon
    if agent.policy_gradient == "model":
        seen = agent.model.steps * agent.model.members * model_batch(agent)
        imagined = horizon * (2 * members_asked(agent) * member + 3 * actor)
        return 3 * seen * member + updates * start_rows(agent) * (imagined + learned)
    model = agent.model.members * (3 + horizon + 1) * member
    return agent.sac.batch_size * (model + updates * learned)


def expected_bytes(config: RunConfig) -> int:
    """Return the disk space of a run's episodes, if none ends early."""
    states, actions = sizes_of(config)
    number = 8 if isinstance(config.agent, GPAgentConfig) else 4
    numbers = config.environment.steps * (2 * states + actions + 1)
    return config.episodes * (number * numbers + _EPISODE_BYTES)

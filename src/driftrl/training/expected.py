"""What a run will take before it has begun: minutes on this machine, bytes on its disk.

Minutes are those of the task (``Task.minutes``, what ``driftrl list tasks`` tells) for
a run with the task's own settings, scaled to other settings by::

    t ∝ N · T · U · f^0.8

with N episodes of T decisions, U units of practice a decision and f multiplications
and additions in the matrix products of a unit.  Small products are less efficient than
large ones: 0.8 is the slope between the times that were measured, over units of 0.1 to
15 GFLOP; all of them lie within a factor of 1.5 of that line.  A unit that is not made
of products (a Gaussian process) counts as the task's own.
"""

from functools import cache

import jax
import numpy as np

from driftrl.agents.update import initial_state
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import AgentConfig, RunConfig
from driftrl.config.task import REFERENCE_RATE
from driftrl.envs.tasks import task_of_run
from driftrl.memory.forgetting import max_transitions
from driftrl.training.assembly import sizes_of
from driftrl.training.checkpoint import KEPT, flatten
from driftrl.training.speed import products_of_unit

_SLOPE = 0.8
_ROW_BYTES = 600  # a line of episodes.jsonl
_EPISODE_BYTES = 1_300  # an episode's file but for its numbers
_CHECKPOINT_BYTES = 20_000  # a checkpoint but for its numbers


def expected_minutes(config: RunConfig, rate: float) -> float:
    """Return the minutes of a whole run on one core, if no episode ends early.

    Args:
        config: The run, of a task that comes with driftrl.
        rate: Multiplications and additions a second of this machine
            (``driftrl.training.speed.product_rate``).
    """
    task = task_of_run(config)
    usual = task.episodes * task.environment.steps
    ratio = config.episodes * config.environment.steps / usual
    usual_work = _work(task.agent, task.sizes(task.environment))
    ratio *= _work(config.agent, sizes_of(config)) / usual_work
    return task.minutes * ratio * REFERENCE_RATE / rate


def _work(agent: AgentConfig, sizes: tuple[int, int]) -> float:
    """Return what a decision is worth in practice, but for a constant."""
    if not isinstance(agent, EnsembleAgentConfig):
        return 1.0
    needed = products_of_unit(agent, sizes)
    flops = sum(count * product.flops for product, count in needed.items())
    return agent.learning.model_updates * flops**_SLOPE


def expected_bytes(config: RunConfig) -> int:
    """Return what a finished run lies on the disk with, if no episode ends early."""
    states, actions = sizes_of(config)
    steps = config.environment.steps
    precise = isinstance(config.agent, GPAgentConfig)
    number = np.dtype(np.float64 if precise else np.float32).itemsize
    episode = steps * (2 * states + actions + 1) * number + _EPISODE_BYTES
    checkpoint = _state_bytes(config) + _CHECKPOINT_BYTES
    return config.episodes * (episode + _ROW_BYTES) + KEPT * checkpoint


def _state_bytes(config: RunConfig) -> int:
    """Return the bytes of everything that an agent knows at the end of a run."""
    sizes, agent = sizes_of(config), config.agent
    if isinstance(agent, GPAgentConfig):
        points = max_transitions(
            config.forgetting, config.episodes + 1, config.environment.steps
        )
        # The factor of the Gram matrix, and the data that it is of.
        return 8 * points * (points + 2 * sizes[0] + sizes[1])
    return _networks_bytes(sizes, agent)


@cache
def _networks_bytes(
    sizes: tuple[int, int], agent: EnsembleAgentConfig | SACAgentConfig
) -> int:
    """Return the bytes of a deep agent's networks and optimisers, by making them."""
    state = initial_state(sizes, agent, key=jax.random.key(0))
    return sum(array.nbytes for array in flatten(state).values())

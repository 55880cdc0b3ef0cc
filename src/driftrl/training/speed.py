"""How fast this machine learns, and what a run will take on it.

An update is mostly matrix products, so its speed is compared with the rate at which
the machine multiplies matrices.  From that rate follows what a run will take: the
minutes of its task (``Task.minutes``, what ``driftrl list tasks`` prints), scaled to
other settings by::

    t ∝ N · T · U · f^0.8

with N episodes of T steps, U updates per step and f floating-point operations in the
matrix products of an update.  Small products are less efficient than large ones: 0.8 is
the slope between the measured times, over updates of 0.1 to 15 GFLOP; all of them lie
within a factor of 1.5 of that line.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftrl.agents import model_based
from driftrl.agents.model_based import ModelBasedAgent, model_batch
from driftrl.agents.model_free import train_steps
from driftrl.agents.model_gradient import members_asked, start_rows
from driftrl.agents.replay import device_replay
from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import AgentConfig, RunConfig
from driftrl.config.task import REFERENCE_RATE
from driftrl.envs.tasks import task_of_run
from driftrl.training.assembly import sizes_of
from driftrl.types import Data

ROWS = 4000  # retained transitions
UPDATES = 20  # in one call
_SLOPE = 0.8
_EPISODE_BYTES = 2_000  # an episode's file and row, but for its transitions


def update_flops(config: EnsembleAgentConfig, sizes: tuple[int, int]) -> float:
    """Return multiplications and additions in the matrix products of an update."""
    states, actions = sizes
    batch, hidden = config.sac.batch_size, config.sac.hidden
    outputs = (states + 1) * (2 if config.model.loss == "likelihood" else 1)
    critic_hidden = (hidden[0],) * 3 if config.sac.critic == "residual" else hidden
    inputs = states + actions
    model = _Pass((inputs, *config.model.hidden, outputs), config.model.members * batch)
    actor = _Pass((states, *hidden, 2 * actions), batch)
    critics = _Pass((inputs, *critic_hidden, 1), config.sac.critics * batch)
    updates = config.learning.policy_updates
    if config.policy_gradient == "model":
        seen = _Pass(model.sizes, config.model.members * model_batch(config))
        steps, rows = config.imagination.horizon, start_rows(config)
        model = _Pass(model.sizes, members_asked(config) * rows)
        actor = _Pass(actor.sizes, rows)
        critics = _Pass(critics.sizes, config.sac.critics * rows)
        # Through model and critics the gradient goes to their inputs alone.
        rollout = (steps + 1) * (actor.gradient + actor.first) + steps * 2.0 * (
            model.forward
        )
        each = rollout + 2.0 * critics.forward + critics.forward + critics.gradient
        tuned = 2.0 * model.forward if config.optimism.rule == "tuned" else 0.0
        return config.model.steps * seen.gradient + updates * each + tuned
    # The imagined steps, and the reference of a tuned λ.
    looks = config.imagination.horizon + (config.optimism.rule == "tuned")
    # The model also looks at the collected batch; the actor's loss needs the slope of
    # the critics by their inputs, which takes as many products again.
    return (
        model.gradient
        + (looks + 1) * model.forward
        + (looks + updates) * actor.forward
        + updates * (critics.forward + critics.gradient + 2.0 * critics.forward)
        + updates * actor.gradient
    )


class _Pass:
    """Multiplications and additions of a batch through a network."""

    def __init__(self, sizes: tuple[int, ...], rows: int) -> None:
        layers = [inputs * outputs for inputs, outputs in pairwise(sizes)]
        self.sizes = sizes
        self.forward = 2.0 * rows * sum(layers)
        self.first = 2.0 * rows * layers[0]
        # Nobody asks for the slope by the inputs of the first layer.
        self.gradient = 3.0 * self.forward - self.first


def update_seconds(config: EnsembleAgentConfig, sizes: tuple[int, int]) -> float:
    """Return the seconds of an update, in the fastest of a few calls."""
    rng = np.random.default_rng(0)
    states, actions = (rng.uniform(-1, 1, (ROWS, size)) for size in sizes)
    data = Data(states, actions, rng.normal(size=ROWS), states, np.zeros(ROWS, bool))
    replay, key = device_replay(data, ROWS), jax.random.key(0)
    config = replace(config, learning=replace(config.learning, model_first=0))
    agent = ModelBasedAgent(sizes, config, capacity=ROWS, steps=ROWS)
    state = agent.initial_state(key=key)
    count, settings = jnp.asarray(UPDATES, jnp.int32), model_based.Settings(config)
    call = lambda: train_steps(model_based.update, settings, state, replay, count, key)
    return _fastest(call, rounds=7) / UPDATES


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

    seconds = _fastest(lambda: multiply(x, weights), rounds)
    return passes * len(weights) * 2.0 * size**3 / seconds


def _fastest(call: Callable[[], object], rounds: int) -> float:
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


def _work(agent: AgentConfig, sizes: tuple[int, int]) -> float:
    """Return the work of the updates of a step, up to a constant."""
    if not isinstance(agent, EnsembleAgentConfig):
        return 1.0
    return agent.learning.model_updates * update_flops(agent, sizes) ** _SLOPE


def expected_bytes(config: RunConfig) -> int:
    """Return the disk space of a run's episodes, if none ends early."""
    states, actions = sizes_of(config)
    number = 8 if isinstance(config.agent, GPAgentConfig) else 4
    numbers = config.environment.steps * (2 * states + actions + 1)
    return config.episodes * (number * numbers + _EPISODE_BYTES)

"""How fast this machine learns, beside how fast it multiplies matrices.

An update is mostly matrix products.  Those that it can't do without are timed
on their own, in the same shapes, the same precision and the same run: together they
are the least time that a unit can take, and the share of it says what all the rest
costs.  All take turns, so that other programs on the machine disturb them alike.

From the rate of a machine follows what a run will take.  Minutes are those of the task
(``Task.minutes``, what ``driftrl list tasks`` prints) for a run with the task's own
settings, scaled to other settings by::

    t ∝ N · T · U · f^0.8

with N episodes of T steps, U updates a step and f multiplications and additions in the
matrix products of an update.  Small products are less efficient than large ones: 0.8 is
the slope between the measured times, over updates of 0.1 to 15 GFLOP; all of them lie
within a factor of 1.5 of that line.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftrl.agents import model_based, sac
from driftrl.agents.replay import device_replay
from driftrl.agents.update import train_steps
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import AgentConfig, RunConfig
from driftrl.config.task import REFERENCE_RATE
from driftrl.envs.tasks import task_of_run
from driftrl.memory.forgetting import max_transitions
from driftrl.training.assembly import sizes_of
from driftrl.training.checkpoint import KEPT, flatten
from driftrl.types import Data

Pass = Literal["forward", "weights", "inputs"]
"""A pass through a network: alone, with the slope by its weights, or by its inputs."""
ROWS = 4000  # retained transitions
ROUNDS = 7
REPEATS = 20  # units, or passes, in one call
# Of passes in a call that no other program shall interrupt, and of such calls.
_FEW, _CALLS = 2, 100
_SLOPE = 0.8
_ROW_BYTES = 650  # a line of episodes.jsonl
_EPISODE_BYTES = 1_300  # an episode's file but for its numbers
_CHECKPOINT_BYTES = 20_000  # a checkpoint but for its numbers


@dataclass(frozen=True)
class Product:
    """The matrix products of one pass through networks of a kind, side by side."""

    sizes: tuple[int, ...]
    networks: int
    batch: int
    passes: Pass

    @property
    def flops(self) -> float:
        """Multiplications and additions of the pass."""
        layers = [inputs * outputs for inputs, outputs in pairwise(self.sizes)]
        once = 2.0 * self.batch * self.networks * sum(layers)
        if self.passes == "forward":
            return once
        if self.passes == "inputs":
            return 2.0 * once
        # Nobody asks for the slope by the inputs of the first layer.
        return 3.0 * once - 2.0 * self.batch * self.networks * layers[0]


@dataclass(frozen=True)
class Speed:
    """What a unit takes, and what its products alone take."""

    unit_ms: float
    products_ms: float
    flops: float
    """Multiplications and additions in the products of a unit."""

    @property
    def share(self) -> float:
        """Rate of the unit as a share of the rate of its products."""
        return self.products_ms / self.unit_ms

    @property
    def gflops(self) -> float:
        """Achieved rate, 10⁹ a second."""
        return self.flops / self.unit_ms / 1e6

    @property
    def product_gflops(self) -> float:
        """Rate of the products alone, 10⁹ a second."""
        return self.flops / self.products_ms / 1e6


def products_of_unit(
    config: EnsembleAgentConfig, sizes: tuple[int, int]
) -> dict[Product, int]:
    """Return the products of an update, and how often each is needed."""
    states, actions = sizes
    batch, members = config.sac.batch_size, config.model.members
    outputs = (states + 1) * (2 if config.model.loss == "likelihood" else 1)
    model = (states + actions, *config.model.hidden, outputs)
    actor = (states, *config.sac.hidden, 2 * actions)
    hidden = config.sac.hidden
    if config.sac.critic == "residual":
        hidden = (hidden[0],) * 3
    critic = (states + actions, *hidden, 1)
    updates, steps = config.learning.policy_updates, config.imagination.horizon
    looks = steps + (1 if config.optimism.rule == "tuned" else 0)
    return {
        Product(model, members, batch, "weights"): 1,
        # The imagined steps, the reference of a tuned λ, and the collected batch.
        Product(model, members, batch, "forward"): looks + 1,
        Product(actor, 1, batch, "forward"): looks + updates,
        Product(critic, 2, batch, "forward"): updates,
        Product(critic, 2, batch, "weights"): updates,
        Product(critic, 2, batch, "inputs"): updates,
        Product(actor, 1, batch, "weights"): updates,
    }


def measure(
    config: EnsembleAgentConfig, sizes: tuple[int, int] = (3, 1), rounds: int = ROUNDS
) -> Speed:
    """Time an update and its products, in turn."""
    needed = products_of_unit(config, sizes)
    calls = {product: _repeated(product) for product in needed}
    unit = _practising(config, sizes)
    times: dict[Product | None, list[float]] = {key: [] for key in (None, *needed)}
    for number in range(rounds + 1):
        for key, call in ((None, unit), *calls.items()):
            started = time.perf_counter()
            jax.block_until_ready(call())
            if number:  # the first round compiles
                spent = 1e3 * (time.perf_counter() - started) / REPEATS
                times[key].append(spent)
    taken = {key: median(values) for key, values in times.items()}
    return Speed(
        unit_ms=taken[None],
        products_ms=sum(count * taken[one] for one, count in needed.items()),
        flops=sum(count * one.flops for one, count in needed.items()),
    )


def _practising(
    config: EnsembleAgentConfig, sizes: tuple[int, int]
) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    states, actions = (rng.uniform(-1, 1, (ROWS, size)) for size in sizes)
    data = Data(states, actions, rng.normal(size=ROWS), states, np.zeros(ROWS, bool))
    replay, key = device_replay(data, ROWS), jax.random.key(0)
    state = model_based.initial_state(sizes, config, key=key)
    count, settings = jnp.asarray(REPEATS, jnp.int32), model_based.Settings(config)
    return lambda: train_steps(model_based.update, settings, state, replay, count, key)


def _repeated(product: Product, times: int = REPEATS) -> Callable[[], object]:
    """Return a call that does the products many times, each needing the one before."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    count, batch = product.networks, product.batch
    weights = [
        normal(count, inputs, outputs) / np.float32(inputs**0.5)
        for inputs, outputs in pairwise(product.sizes)
    ]
    x = normal(count, batch, product.sizes[0])

    @jax.jit
    def repeat(x: Array, weights: list[Array]) -> tuple[Array, list[Array]]:
        def once(
            carried: tuple[Array, list[Array]], _: None
        ) -> tuple[tuple[Array, list[Array]], None]:
            return _chained(*carried, product.passes), None

        return jax.lax.scan(once, (x, weights), None, length=times)[0]

    return lambda: repeat(x, weights)


def _chained(x: Array, weights: list[Array], passes: Pass) -> tuple[Array, list[Array]]:
    """Do the products of a pass, and let the next one depend on them by a hair."""
    entering = [x]
    for weight in weights:
        entering.append(entering[-1] @ weight)
    back = entering.pop()
    if passes == "forward":
        return x + 1e-6 * jnp.mean(back), weights
    slopes = []
    for place in reversed(range(len(weights))):
        if passes == "weights":
            slopes.append(jnp.swapaxes(entering[place], 1, 2) @ back)
        if place > 0 or passes == "inputs":
            back = back @ jnp.swapaxes(weights[place], 1, 2)
    if passes == "inputs":
        return x + 1e-6 * back, weights
    moved = zip(weights, reversed(slopes), strict=True)
    return x, [weight - 1e-6 * slope for weight, slope in moved]


def product_rate(rounds: int = _CALLS) -> float:
    """Return multiplications and additions a second, in products of 256 × 256.

    It is the rate of the fastest of so many calls.  A call takes a millisecond or two,
    less than programs are given in turn: on a machine that is busy with others, too,
    some of the calls have a core to themselves.
    """
    product = Product((256, 256, 256), 1, 256, "forward")
    call = _repeated(product, _FEW)
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - started)
    return _FEW * product.flops / min(times[1:])  # the first one compiles


def expected_minutes(config: RunConfig, rate: float) -> float:
    """Return the minutes of a whole run on one core, if no episode ends early.

    Args:
        config: The run, of a task that comes with driftrl.
        rate: Multiplications and additions a second of this machine, as
            ``product_rate`` measures it.
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
    needed = products_of_unit(agent, sizes)
    flops = sum(count * product.flops for product, count in needed.items())
    return agent.learning.model_updates * flops**_SLOPE


def expected_bytes(config: RunConfig) -> int:
    """Return the disk space of a finished run, if no episode ends early."""
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
    key = jax.random.key(0)
    if isinstance(agent, EnsembleAgentConfig):
        state = model_based.initial_state(sizes, agent, key=key)
    else:
        state = sac.initial_state(sizes, agent, key=key)
    return sum(array.nbytes for array in flatten(state).values())

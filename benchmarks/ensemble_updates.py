"""One update of the ensemble and one imagined rollout, against their matrix products.

Five members of 256 × 256 on batches of 256, for 3 states and 1 action.  The matrix
products that an update or a rollout cannot do without are timed on their own, in the
same shapes and the same run: their rate is the ceiling.  Times are of the processor, in
turn, so that other programs on the machine matter little.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import NamedTuple

from driftrl.training.process import prepare

prepare(os.environ)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.box import SIMPLE_HEAD  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from driftrl.agents.rollouts import (  # noqa: E402
    imagine,
    never_terminates,
)
from driftrl.config.deep import EnsembleConfig, ImaginationConfig  # noqa: E402
from driftrl.models import ensemble  # noqa: E402
from driftrl.models.networks import MLP  # noqa: E402

STATES, ACTIONS, BATCH, WIDTH = 3, 1, 256, 256
MODEL = EnsembleConfig(members=5, hidden=(WIDTH, WIDTH))
OWN_BATCHES = EnsembleConfig(members=5, hidden=(WIDTH, WIDTH), separate_batches=True)
LIKELIHOOD = EnsembleConfig(members=5, hidden=(WIDTH, WIDTH), loss="likelihood")
IMAGINATION = ImaginationConfig(horizon=2)
ROWS = 4000  # retained transitions
REPEATS = 20  # updates or rollouts a call
ROUNDS = 9


UPDATE = "products of an update"
ROLLOUT = "products of a rollout"
Weights = tuple[jax.Array, jax.Array, jax.Array]


class Work(NamedTuple):
    """Something to time: a call that does it ``REPEATS`` times."""

    call: Callable[[], object]
    products: str
    """Name of the products that set its ceiling; empty for the products themselves."""
    flops: float
    """Of its matrix products, one repeat."""


def random(*shape: int) -> jax.Array:
    """Return standard normal numbers, the same at every start."""
    rng = np.random.default_rng(len(shape) + sum(shape))
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def forward_flops(inputs: int, outputs: int, members: int) -> float:
    """Return 2·B·Σ(inputs × outputs of a layer), of all members."""
    weights = inputs * WIDTH + WIDTH * WIDTH + WIDTH * outputs
    return 2.0 * BATCH * weights * members


def weights_of(inputs: int, outputs: int, members: int) -> Weights:
    """Return weights [E, D, H], [E, H, H], [E, H, O] of a size that keeps products."""
    return (
        0.1 * random(members, inputs, WIDTH),
        0.06 * random(members, WIDTH, WIDTH),
        0.06 * random(members, WIDTH, outputs),
    )


def forward_products(
    x: jax.Array, weights: Weights
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Multiply as a pass through the members does, and do nothing else."""
    first, middle, last = weights
    entered = jnp.broadcast_to(x, (len(first), *x.shape)) @ first
    hidden = entered @ middle
    return entered, hidden, hidden @ last


def update_products(x: jax.Array, weights: Weights) -> Weights:
    """Multiply as a pass and its gradient by all weights do."""
    _, middle, last = weights
    entered, hidden, error = forward_products(x, weights)
    last_gradient = jnp.einsum("ebo,ebi->eoi", error, hidden).transpose(0, 2, 1)
    back = jnp.einsum("ebo,eio->ebi", error, last)
    middle_gradient = jnp.einsum("ebi,ebo->eio", entered, back)
    back = jnp.einsum("ebo,eio->ebi", back, middle)
    inputs = jnp.broadcast_to(x, (len(middle), *x.shape))
    first_gradient = jnp.einsum("ebi,ebo->eio", inputs, back)
    return first_gradient, middle_gradient, last_gradient


@jax.jit
def all_update_products(x: jax.Array, weights: Weights) -> Weights:
    """Repeat the products of an update; each needs the one before, as updates do."""

    def one(weights: Weights, _: None) -> tuple[Weights, None]:
        moved = zip(weights, update_products(x, weights), strict=True)
        first, middle, last = (weight - 1e-6 * slope for weight, slope in moved)
        return (first, middle, last), None

    return jax.lax.scan(one, weights, None, length=REPEATS)[0]


@jax.jit
def all_rollout_products(x: jax.Array, model: Weights, actor: Weights) -> jax.Array:
    """Repeat the products of a step of a rollout; each needs the one before."""

    def one(seen: jax.Array, _: None) -> tuple[jax.Array, None]:
        action = forward_products(seen[:, :STATES], actor)[2][0, :, :ACTIONS]
        asked = jnp.concatenate([seen[:, :STATES], action], axis=1)
        return x + jnp.sum(forward_products(asked, model)[2], axis=0), None

    steps = REPEATS * IMAGINATION.horizon
    return jax.lax.scan(one, x, None, length=steps)[0]


def products() -> dict[str, Work]:
    """Return the bare products of an update and of a rollout."""
    x, model = random(BATCH, STATES + ACTIONS), weights_of(4, 4, MODEL.members)
    actor = weights_of(STATES, 2 * ACTIONS, 1)
    passed = forward_flops(4, 4, MODEL.members)
    # Backwards, each weight is in two products; the inputs need no gradient.
    learned = 3.0 * passed - 2.0 * BATCH * 4 * WIDTH * MODEL.members
    acted = forward_flops(STATES, 2 * ACTIONS, 1)
    return {
        UPDATE: Work(lambda: all_update_products(x, model), "", learned),
        ROLLOUT: Work(
            lambda: all_rollout_products(x, model, actor),
            "",
            IMAGINATION.horizon * (passed + acted),
        ),
    }


def updates(config: EnsembleConfig) -> Callable[[], object]:
    """Return many updates as one compiled scan."""
    data = ensemble.samples_of(
        random(ROWS, STATES), random(ROWS, ACTIONS), random(ROWS), random(ROWS, STATES)
    )
    size, key = jnp.asarray(ROWS - 100), jax.random.key(0)
    state = ensemble.initial_state(STATES, ACTIONS, config, key=key)
    state = replace(state, statistics=ensemble.statistics(data, size))
    separate = (config.members,) if config.separate_batches else ()

    @jax.jit
    def train(state: ensemble.EnsembleState) -> ensemble.EnsembleState:
        def one(
            state: ensemble.EnsembleState, key: jax.Array
        ) -> tuple[ensemble.EnsembleState, jax.Array]:
            rows = jax.random.randint(key, (*separate, BATCH), 0, size)
            batch = ensemble.Samples(data.inputs[rows], data.outputs[rows])
            return ensemble.update(state, batch, config)

        return jax.lax.scan(one, state, jax.random.split(key, REPEATS))[0]

    return lambda: train(state)


def rollouts() -> Callable[[], object]:
    """Return many rollouts as one compiled scan, each from where the last one ended."""
    key = jax.random.key(0)
    state = ensemble.initial_state(STATES, ACTIONS, MODEL, key=key)
    sizes = (STATES, WIDTH, WIDTH, 2 * ACTIONS)
    actor = MLP(sizes, jax.nn.relu, last_gain=1.0, key=key)

    def policy(actor: MLP, obs: jax.Array, key: jax.Array) -> jax.Array:
        mean, log_std = jnp.split(actor(obs), 2)
        noise = jax.random.normal(key, mean.shape)
        return jnp.tanh(mean + jnp.exp(log_std) * noise)

    @jax.jit
    def run(
        state: ensemble.EnsembleState, actor: MLP, start: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def one(start: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            seen = imagine(
                partial(ensemble.predict, state),
                partial(policy, actor),
                never_terminates,
                start,
                IMAGINATION,
                key=key,
            )
            return jnp.clip(seen.next_obs[-1], -1.0, 1.0), jnp.mean(seen.bonus)

        return jax.lax.scan(one, start, jax.random.split(key, REPEATS))

    return lambda: run(state, actor, random(BATCH, STATES))


def measure(works: dict[str, Work]) -> dict[str, float]:
    """Return median milliseconds of one repeat, all taking turns in each round."""
    rounds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(ROUNDS + 1):
        for name, work in works.items():
            start = time.process_time()
            jax.block_until_ready(work.call())
            spent = time.process_time() - start
            if number:  # the first compiles
                rounds[name].append(1e3 * spent / REPEATS)
    return {name: median(each) for name, each in rounds.items()}


def main() -> None:
    """Measure and print."""
    bare = products()
    flops = bare[UPDATE].flops
    wider = flops + 3.0 * 2.0 * BATCH * WIDTH * (STATES + 1) * MODEL.members
    works = {
        **bare,
        "update": Work(updates(MODEL), UPDATE, flops),
        "update, own batches": Work(updates(OWN_BATCHES), UPDATE, flops),
        "update, likelihood": Work(updates(LIKELIHOOD), UPDATE, wider),
        f"rollout, K = {IMAGINATION.horizon}": Work(
            rollouts(), ROLLOUT, bare[ROLLOUT].flops
        ),
    }
    times = measure(works)
    rates = {name: work.flops / times[name] / 1e6 for name, work in works.items()}
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("", no_wrap=True)
    for column in ("ms", "MFLOP", "GFLOP/s", "of the products' rate"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, work in works.items():
        share = f"{rates[name] / rates[work.products]:.0%}" if work.products else ""
        numbers = (
            f"{times[name]:.2f}",
            f"{work.flops / 1e6:.0f}",
            f"{rates[name]:.1f}",
            share,
        )
        table.add_row(name, *numbers)
    console = Console(highlight=False)
    console.print(
        f"{MODEL.members} members of {WIDTH} × {WIDTH}, batch {BATCH}, {STATES} states "
        f"and {ACTIONS} action, one thread.\nMedians of {ROUNDS} rounds in turn.\n"
    )
    console.print(table)


if __name__ == "__main__":
    main()

"""Updates of soft actor-critic a second, beside the rate of their matrix products.

One update on a batch of 256 with networks of 256×256 is a few hundred million
multiplications, nearly all of them in products of 256×256 matrices.  The benchmark
counts them, measures in the same rounds how fast XLA multiplies matrices of those
shapes, and prints what share of that rate an update reaches.

Beside sbx-rl, if DRIFTRL_SBX_PYTHON names a Python that has it (it needs libraries
which driftrl does not want, so give it an environment of its own).
"""

import os

# Read by JAX when it is imported: one thread, as in a run.  sbx-rl inherits it.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["NPROC"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import subprocess
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import jax
import jax.numpy as jnp
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from driftrl.agents import sac
from driftrl.agents.replay import Batch, DeviceReplay
from driftrl.config.deep import SACConfig

STATES, ACTIONS = 3, 1  # as the pendulum
ROWS = 4096
UPDATES = 10  # in one call
ROUNDS = 40
CHAIN = 8  # products in one call

CONTESTANTS = {
    "plain critics": SACConfig(),
    "residual critics": SACConfig(critic="residual"),
}

# Answers each line on standard input with the seconds of that many updates.
SBX = """
import sys, time
from sbx import SAC
model = SAC("MlpPolicy", "Pendulum-v1", batch_size=256, learning_starts=300, seed=0,
            policy_kwargs=dict(net_arch=[256, 256]))
model.learn(310)
for line in sys.stdin:
    updates = int(line)
    start = time.perf_counter()
    model.train(gradient_steps=updates, batch_size=256)
    print("seconds", time.perf_counter() - start, flush=True)
"""


class Work(NamedTuple):
    """Floating-point operations of one update's matrix products."""

    forward: int
    """xW, and the gradient by x, gWᵀ."""
    weights: int
    """The gradient by W, xᵀg."""

    @property
    def flops(self) -> int:
        """All of them."""
        return self.forward + self.weights


def passes(sizes: list[tuple[int, int]], batch: int) -> tuple[int, int, int]:
    """Return flops of a pass forward, of the gradient by inputs, and by weights."""
    layers = [2 * batch * inputs * outputs for inputs, outputs in sizes]
    return sum(layers), sum(layers[1:]), sum(layers)


def work(config: SACConfig) -> Work:
    """Count what one update multiplies.

    Critics: forward at (s', a') for the targets, forward and backward at (s, a),
    forward and back to the action at (s, ã).  Actor: forward at s', both ways at s.
    """
    chain = lambda *sizes: list(pairwise(sizes))
    actor = passes(chain(STATES, *config.hidden, 2 * ACTIONS), config.batch_size)
    inputs, width = STATES + ACTIONS, config.hidden[0]
    hidden = (width, width, width) if config.critic == "residual" else config.hidden
    critic = passes(chain(inputs, *hidden, 1), config.batch_size)
    action = (
        2 * config.batch_size * inputs * width
    )  # the first layer, back to the action
    forward = 2 * (3 * critic[0] + 2 * critic[1] + action) + 2 * actor[0] + actor[1]
    return Work(forward, 2 * critic[2] + actor[2])


def stored() -> Batch:
    """Return made-up transitions."""
    keys = jax.random.split(jax.random.key(0), 4)
    return Batch(
        obs=jax.random.normal(keys[0], (ROWS, STATES)),
        actions=jax.random.uniform(keys[1], (ROWS, ACTIONS), minval=-1.0),
        rewards=jax.random.normal(keys[2], (ROWS,)),
        next_obs=jax.random.normal(keys[3], (ROWS, STATES)),
        terminated=jnp.zeros(ROWS),
    )


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that ``action`` takes."""
    start = time.perf_counter()
    jax.block_until_ready(action())
    return time.perf_counter() - start


def training(config: SACConfig) -> Callable[[], float]:
    """Return a function that trains for a call and returns seconds an update."""
    data = stored()
    state = sac.init(STATES, ACTIONS, config, key=jax.random.key(1))
    start, size = (jnp.asarray(number, jnp.int32) for number in (0, ROWS))
    replay = DeviceReplay(data, start, size, data.obs[:1])
    run = partial(sac.train, state, replay, UPDATES, config)
    return lambda: timed(lambda: run(jax.random.key(2))) / UPDATES


def products(transposed: bool, batch: int, width: int) -> Callable[[], float]:
    """Return a function that returns seconds a flop, for pairs of square products."""
    contract = 1 if transposed else 2
    numbers = (((contract,), (1,)), ((0,), (0,)))
    x = jax.random.normal(jax.random.key(3), (2, batch, width))
    weight = jnp.broadcast_to(jnp.eye(width), (2, width, width))

    @jax.jit
    def chain(x: jax.Array, weight: jax.Array) -> jax.Array:
        def multiply(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jax.lax.dot_general(x, weight, numbers), None

        return jax.lax.scan(multiply, x, None, length=CHAIN)[0]

    flops = CHAIN * 2 * 2 * batch * width**2
    return lambda: timed(lambda: chain(x, weight)) / flops


def python_with_sbx() -> str | None:
    """Return the interpreter that DRIFTRL_SBX_PYTHON names, if it has sbx-rl."""
    python = os.environ.get("DRIFTRL_SBX_PYTHON")
    if not python:
        return None
    try:
        done = subprocess.run([python, "-c", "import sbx"], capture_output=True)
    except OSError:
        return None
    return python if done.returncode == 0 else None


class Neighbour:
    """sbx-rl in a process of its own, asked for a round at a time."""

    def __init__(self, python: str) -> None:
        """Start it; it collects its data and compiles first."""
        self._process = subprocess.Popen(
            [python, "-c", SBX],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self) -> float:
        """Return seconds an update."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        print(UPDATES, file=asked, flush=True)
        for line in answers:
            if line.startswith("seconds "):
                return float(line.split()[1]) / UPDATES
        raise SystemExit("sbx-rl stopped; the lines above say why.")

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def measure(contestants: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Return what each contestant took in each round, all taking turns."""
    for action in contestants.values():
        action()  # compiles, and warms the caches
    rounds = [
        {name: action() for name, action in contestants.items()} for _ in range(ROUNDS)
    ]
    return {name: [each[name] for each in rounds] for name in contestants}


def main() -> None:
    """Measure and print."""
    console = Console(highlight=False)
    batch, width = SACConfig().batch_size, SACConfig().hidden[0]
    contestants = {name: training(config) for name, config in CONTESTANTS.items()}
    contestants["xW"] = products(False, batch, width)
    contestants["xᵀg"] = products(True, batch, width)
    python = python_with_sbx()
    neighbour = Neighbour(python) if python else None
    if neighbour:
        contestants["sbx-rl"] = neighbour
    times = measure(contestants)
    if neighbour:
        neighbour.close()

    best = {name: min(values) for name, values in times.items()}
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("SAC", no_wrap=True)
    for column in ("ms", "median", "updates/s", "GFLOP/s", "of products"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in [*CONTESTANTS, *(["sbx-rl"] if neighbour else [])]:
        todo = work(CONTESTANTS.get(name, SACConfig()))
        ideal = todo.forward * best["xW"] + todo.weights * best["xᵀg"]
        table.add_row(
            name,
            f"{1e3 * best[name]:.2f}",
            f"{1e3 * median(times[name]):.2f}",
            f"{1 / best[name]:.0f}",
            f"{1e-9 * todo.flops / best[name]:.1f}",
            f"{ideal / best[name]:.0%}",
        )
    console.print(
        f"Batch {batch}, networks {width}×{width}, {STATES} observations, {ACTIONS} "
        f"action; {UPDATES} updates a call.\nOne thread, best of {ROUNDS} rounds in "
        "turn.  Products of these shapes alone:\n"
        f"xW {1e-9 / best['xW']:.1f}, xᵀg {1e-9 / best['xᵀg']:.1f} GFLOP/s; the narrow "
        "layers are counted at the same rates.\n"
    )
    console.print(table)
    if not neighbour:
        console.print(
            "\nsbx-rl is skipped: DRIFTRL_SBX_PYTHON names no Python that has it."
        )


if __name__ == "__main__":
    main()

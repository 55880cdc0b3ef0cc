"""Seeds in one program: what a unit of practice costs for K seeds at once.

A unit is timed alone and, in turn with it, for K seeds as one program.  The ratio is
the time of that program over K times the time alone: below 1 the seeds gain by sharing,
and 1/K would be K seeds for the price of one.  Both are measured in the same rounds, so
that other programs on the machine disturb them alike.  Compilation is timed as well: it
is paid once for K seeds, where separate processes pay it K times, or read it from disk.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from driftrl.training.process import prepare

# Read by JAX when it is imported: one thread, as in a run, and nothing from a cache.
os.environ["JAX_COMPILATION_CACHE_DIR"] = ""
prepare(os.environ)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from driftrl.agents import practice  # noqa: E402
from driftrl.agents.practice import Config, DeepState  # noqa: E402
from driftrl.agents.replay import Replay, make_replay  # noqa: E402
from driftrl.agents.together import practise_together  # noqa: E402
from driftrl.config_gp import GPAgentConfig  # noqa: E402
from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.imagination.policy_rollout import Known  # noqa: E402
from driftrl.training.assembly import sizes_of  # noqa: E402
from driftrl.types import Data  # noqa: E402

SEEDS = (1, 2, 3, 5)
ROWS = 4000  # retained transitions
LEAST_SECONDS = 0.5  # of one timed call of a single seed

PAPER: dict[str, Any] = {
    "model": {"hidden": [256, 256]},
    "sac": {"hidden": [256, 256], "batch": 256},
    "learning": {"model_updates": 5, "policy_updates": 5, "least_transitions": 256},
}
LAPTOP: dict[str, Any] = {
    "model": {"hidden": [128, 128]},
    "imagination": {"steps": 1},
    "sac": {"hidden": [128, 128], "batch": 128},
    "learning": {"model_updates": 1, "policy_updates": 3, "least_transitions": 500},
}
# As the studies have them: task, and what its agent is told.
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "pendulum-decay, laptop": ("pendulum-decay", {}),
    "pendulum-decay, paper": ("pendulum-decay", PAPER),
    "halfcheetah, laptop": ("halfcheetah", LAPTOP),
    "halfcheetah, paper": ("halfcheetah", {}),
}


@dataclass(frozen=True)
class Cost:
    """What K seeds cost in one program."""

    seeds: int
    """K; 0 is the program that separate runs use."""
    unit_ms: float
    """A unit of all of them."""
    ratio: float
    """Time of a unit of K seeds at once over K times a unit alone."""
    compile_s: float


@dataclass(frozen=True)
class Seeds:
    """Agents with fresh networks and random transitions of their own."""

    config: Config
    states: tuple[DeepState, ...]
    replays: tuple[Replay, ...]

    def alone(self, units: int) -> Callable[[], object]:
        """Return the call that practises with the first."""
        count, key = jnp.asarray(units, jnp.int32), jax.random.key(0)
        arguments = (self.states[0], self.replays[0], count, self.config, Known(), key)
        return lambda: practice.practise(*arguments)

    def together(self, seeds: int, units: int) -> Callable[[], object]:
        """Return the call that practises with the first ``seeds`` at once."""
        count = jnp.asarray(units, jnp.int32)
        keys = tuple(jax.random.key(seed) for seed in range(seeds))
        states, replays = self.states[:seeds], self.replays[:seeds]
        arguments = (states, replays, count, self.config, Known(), keys)
        return lambda: practise_together(*arguments)


def make_seeds(task: str, changes: dict[str, Any], count: int) -> Seeds:
    """Return agents of a task, of which there are ``count``."""
    run = configure(task, "sw-ombrl", {"agent": changes})
    sizes, config = sizes_of(run), run.agent
    assert not isinstance(config, GPAgentConfig)

    def replay(seed: int) -> Replay:
        rng = np.random.default_rng(seed)
        obs, actions, next_obs = (
            rng.uniform(-1, 1, (ROWS, size)) for size in (*sizes, sizes[0])
        )
        ends = np.zeros(ROWS, bool)
        return make_replay(
            Data(obs, actions, rng.normal(size=ROWS), next_obs, ends), ROWS
        )

    keys = [jax.random.key(seed) for seed in range(count)]
    states = [practice.initial_state(sizes, config, key=key) for key in keys]
    return Seeds(config, tuple(states), tuple(replay(seed) for seed in range(count)))


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes until its result is there."""
    started = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - started


def costs(agents: Seeds, rounds: int) -> list[Cost]:
    """Time one seed and K seeds in turn, for every K."""
    compiling = {0: seconds(agents.alone(0))}
    compiling |= {count: seconds(agents.together(count, 0)) for count in SEEDS}
    # As many units in a call as make the clock matter little.
    once = min(seconds(agents.alone(1)) for _ in range(3))
    units = max(1, round(LEAST_SECONDS / once))
    calls = {0: agents.alone(units)}
    calls |= {count: agents.together(count, units) for count in SEEDS}
    taken: dict[int, list[float]] = {count: [] for count in calls}
    for _ in range(rounds):
        for count, call in calls.items():
            taken[count].append(seconds(call))
    return [
        Cost(
            seeds=count,
            unit_ms=1e3 * median(taken[count]) / units,
            ratio=median(
                both / (max(count, 1) * alone)
                for both, alone in zip(taken[count], taken[0], strict=True)
            ),
            compile_s=compiling[count],
        )
        for count in taken
    ]


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="settings whose name has this in it")
    arguments = parser.parse_args(argv)
    console = Console(width=100)
    table = Table("setting", "unit alone", box=SIMPLE_HEAD)
    for count in SEEDS:
        table.add_column(f"K = {count}", justify="right")
    for name, (task, changes) in SETTINGS.items():
        if arguments.only not in name:
            continue
        alone, *found = costs(make_seeds(task, changes, max(SEEDS)), arguments.rounds)
        cells = [f"{one.ratio:.2f} ({one.compile_s:.0f} s)" for one in found]
        table.add_row(name, f"{alone.unit_ms:.1f} ms ({alone.compile_s:.0f} s)", *cells)
        console.print(f"measured: {name}", highlight=False)
    console.print(table)
    console.print(
        "Time of a unit of K seeds in one program, over K units alone.\n"
        "In brackets: time to compile the program.",
        highlight=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""HalfCheetah: a step of the agent against its update, the wrapper against Gymnasium.

An agent's step is all that a decision costs: the environment, acting, storing, one
update of the model, rollouts of K = 5 and one update of the policy, 256 × 256.  Beside
it stands the compiled update alone, on the same data, in turn with it: all updates of
an episode in one call, as between episodes, and a call for each, as at every step.  All
have one thread, as runs have.
"""

import os
import time
from collections.abc import Callable
from statistics import median

from driftrl.training.process import prepare

prepare(os.environ)

import gymnasium  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from driftrl.agents import model_based  # noqa: E402
from driftrl.agents.model_free import train_steps  # noqa: E402
from driftrl.agents.replay import device_replay  # noqa: E402
from driftrl.config.deep import EnsembleAgentConfig  # noqa: E402
from driftrl.config.run import RunConfig  # noqa: E402
from driftrl.config.toml import overridden  # noqa: E402
from driftrl.envs.drifting import DriftingEnv, freeze  # noqa: E402
from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.memory.episodes import EpisodeMemory  # noqa: E402
from driftrl.presets.tasks import TASKS  # noqa: E402
from driftrl.training.assembly import (  # noqa: E402
    initial_state,
    make_agent,
    sizes_of,
)
from driftrl.training.learner import Learner  # noqa: E402
from driftrl.training.loop import collect  # noqa: E402
from driftrl.types import Data  # noqa: E402

ROUNDS = 5
ROUND_STEPS = 3000


def main() -> None:
    """Print both comparisons."""
    console = Console()
    table = Table("steps through", "µs a step", "rate against bare", box=None)
    rates = stepping()
    for name, taken in rates.items():
        table.add_row(name, f"{taken:.1f}", f"{rates['bare'] / taken:.0%}")
    console.print(table)
    console.print()
    table = Table("learning", "ms a step", "update alone", "", "more", box=None)
    for when in ("episode", "step"):
        step, updates = agent_step(when)
        for called, update in updates.items():
            more = f"{step / update - 1:.1%}"
            table.add_row(when, f"{step:.2f}", f"{update:.2f}", called, more)
    console.print(table)


def stepping() -> dict[str, float]:
    """Return microseconds a step, unrepeated, of ours and of Gymnasium's own."""
    once = overridden(TASKS["halfcheetah"].environment, {"action_repeat": 1})
    made = gymnasium.make("HalfCheetah-v5")
    envs = {
        "bare": made.unwrapped,
        "as gymnasium.make returns it": made,
        "driftrl": freeze("halfcheetah", 1.0, once),
    }
    actions = np.random.default_rng(0).uniform(-1, 1, (ROUND_STEPS, 6))
    return {
        name: 1e6 * taken / ROUND_STEPS
        for name, taken in _in_turn(
            {name: _stepper(env, actions) for name, env in envs.items()}
        ).items()
    }


def _stepper(env: gymnasium.Env, actions: np.ndarray) -> Callable[[], None]:
    def step() -> None:
        env.reset(seed=0)
        for number, action in enumerate(actions, start=1):
            env.step(action)
            if number % 1000 == 0:
                env.reset(seed=0)

    return step


def agent_step(when: str) -> tuple[float, dict[str, float]]:
    """Return milliseconds of a whole step, and of the compiled update alone."""
    # Short episodes, so that it does not take all day; what they need grows with them.
    changes = {
        "environment": {"sim_steps": 300},
        "agent": {"learning": {"when": when}},
    }
    config = overridden(configure("halfcheetah", "sombrl"), changes)
    agent = make_agent(config)
    learner = Learner(
        agent,
        config.forgetting,
        EpisodeMemory(*sizes_of(config), agent.precision),
        steps=config.environment.steps,
        seed=config.seed,
        state=initial_state(agent, config),
    )
    env = freeze("halfcheetah", 1.0, config.environment)
    decisions = config.environment.steps
    for _ in range(2):  # compiles, and fills the memory
        collect(learner, env, config.seed)
        learner.end_episode()
        learner.learn()
    data, state = learner.memory.since(1), learner.state
    calls = {"step": lambda: _episode(learner, env, config)}
    calls["in one call"] = _update(config, data, state, calls=1)
    if when == "step":
        calls["a call each"] = _update(config, data, state, calls=decisions)
    taken = {
        name: 1e3 * seconds / decisions
        for name, seconds in _in_turn(calls, rounds=3).items()
    }
    return taken.pop("step"), taken


def _episode(learner: Learner, env: DriftingEnv, config: RunConfig) -> None:
    collect(learner, env, config.seed)
    learner.end_episode()
    learner.learn()
    jax.block_until_ready(learner.state)


def _update(
    config: RunConfig, data: Data, state: model_based.ModelBasedState, *, calls: int
) -> Callable[[], None]:
    decisions = config.environment.steps
    replay = device_replay(data, 4 * decisions)
    assert isinstance(config.agent, EnsembleAgentConfig)
    settings = model_based.Settings(config.agent)
    count, key = jnp.asarray(decisions // calls, jnp.int32), jax.random.key(0)

    def update() -> None:
        for _ in range(calls):
            jax.block_until_ready(
                train_steps(model_based.update, settings, state, replay, count, key)
            )

    return update


def _in_turn(
    calls: dict[str, Callable[[], None]], rounds: int = ROUNDS
) -> dict[str, float]:
    """Return the median seconds of each call; the first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if number:
                times[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()

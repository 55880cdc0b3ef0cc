"""What an episode costs when a million transitions are retained, and what resume does.

A run of 2000 episodes of 500 transitions of HalfCheetah's size (17 states, 6 actions)
is stored as a run stores it, keeping all.  Times are of the processor, relative to
those at 10,000 transitions, and small networks leave nothing to hide behind: what
depends on the history shows.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from driftrl.training.process import prepare

prepare(os.environ)

import jax  # noqa: E402
import numpy as np  # noqa: E402
from rich.box import SIMPLE_HEAD  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from driftrl.agents.model_based import (  # noqa: E402
    ModelBasedAgent,
    ModelBasedState,
)
from driftrl.agents.replay import ReplayCache  # noqa: E402
from driftrl.config.deep import (  # noqa: E402
    EnsembleAgentConfig,
    EnsembleConfig,
    LearningConfig,
    SACConfig,
)
from driftrl.config.run import RunConfig  # noqa: E402
from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.memory.episodes import EpisodeMemory  # noqa: E402
from driftrl.memory.forgetting import Decision, EpisodeSummary  # noqa: E402
from driftrl.training.run_directory import Pending, RunDirectory  # noqa: E402
from driftrl.types import Data, Episode, EpisodeRecord, Transition  # noqa: E402

SIZES = (17, 6)
STEPS = 500
MARKS = (10_000, 100_000, 200_000, 1_000_000)
WINDOW = 100  # episodes
AROUND = 15  # episodes up to a mark of which the median is taken
LESSONS = (10_000, 200_000)  # transitions retained by one that learns at every step
LEARNING = LearningConfig("step", model_updates=1, policy_updates=1)
AGENT = EnsembleAgentConfig(
    policy_gradient="critic",
    model=EnsembleConfig(hidden=(32, 32)),
    sac=SACConfig(hidden=(32, 32)),
    learning=LEARNING,
)
GROWING = "normalisation"
Times = dict[str, list[float]]


def random_episode(rng: np.random.Generator) -> Episode:
    """Return an episode of noise, in double precision as an environment gives it."""
    states = rng.normal(size=(STEPS + 1, SIZES[0]))
    actions, rewards = rng.uniform(-1, 1, (STEPS, SIZES[1])), rng.normal(size=STEPS)
    return Episode(states[:-1], actions, rewards, states[1:], False)


def row(number: int) -> EpisodeRecord:
    """Return what a run would record of an episode."""
    return EpisodeRecord(
        number, 1.0, STEPS, 0.0, None, False, 1, 0, 1.0, None, None, None, 0.0
    )


def resident_mib() -> float:
    """Return the memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


@contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    """Note the processor's milliseconds."""
    started = time.process_time()
    yield
    times.setdefault(name, []).append(1e3 * (time.process_time() - started))


def live(directory: Path, config: RunConfig) -> tuple[Times, dict[int, float], float]:
    """Store all episodes.

    Returns:
        The times of each, the memory at the marks, and the time of all episodes
        together by that of as many early ones.
    """
    agent = ModelBasedAgent(SIZES, AGENT, capacity=MARKS[-1], steps=STEPS)
    state = agent.initial_state(key=jax.random.key(0))
    memory, cache = EpisodeMemory(*SIZES, agent.precision), ReplayCache(SIZES, STEPS)
    rng, times, used = np.random.default_rng(0), Times(), {}
    with closing(RunDirectory(directory, config, resume=False, warn=print)) as files:
        files.restore(state, memory)
        for number in range(1, MARKS[-1] // STEPS + 1):
            episode = random_episode(rng)
            with timed(times, "into memory, and read"):
                memory.append(episode)
                data = memory.since(1)
            with timed(times, "to the device"):
                replay = cache.load(data, MARKS[-1])
                jax.block_until_ready(replay.rows)
            with timed(times, "files and checkpoint"):
                files.append(row(number), Pending(episode, 0.0), state, Decision(1))
            if len(data) in MARKS:
                used[len(data)] = resident_mib()
                for _ in range(3):
                    with timed(times, f"{GROWING} {len(data)}"):
                        jax.block_until_ready(agent.refresh(state, replay).model)
    stored = [sum(each) for each in zip(*stored_times(times).values(), strict=True)]
    early = median(stored[: MARKS[0] // STEPS])
    return times, used, sum(stored) / len(stored) / early


def stored_times(times: Times) -> Times:
    """Return those times of which there is one for every episode."""
    return {name: each for name, each in times.items() if GROWING not in name}


def step_time(retained: int) -> float:
    """Return the processor's milliseconds of a step that learns, so much retained."""
    agent = ModelBasedAgent(SIZES, AGENT, capacity=retained + STEPS, steps=STEPS)
    state, rng = agent.initial_state(key=jax.random.key(0)), np.random.default_rng(0)
    states, actions = (rng.normal(size=(retained, size)) for size in SIZES)
    rewards = rng.normal(size=retained)
    data = Data(states, actions, rewards, states, np.zeros(retained, bool))
    online, times = agent.begin_online(lambda: data), Times()
    assert online is not None
    for number in range(40):
        seen = Transition(states[number], actions[0], 0.0, states[0], False, False)
        with timed(times, "step"):
            state, online = observed(agent, state, online, seen, number)
    return median(times["step"][5:])  # the first compile, and normalise


def observed(
    agent: ModelBasedAgent,
    state: ModelBasedState,
    online: int,
    seen: Transition,
    step: int,
) -> tuple[ModelBasedState, int]:
    """Learn from a transition, and wait for it as the next action would."""
    key = jax.random.key(step)
    state, online = agent.observe(state, online, seen, key=key)
    return jax.block_until_ready(state), online


def seconds(call: Callable[[], object]) -> str:
    """Return how long a call takes, by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    call()
    processor = time.process_time() - processor
    return f"{time.perf_counter() - clock:.1f} s ({processor:.1f} s of the processor)"


def resumed(directory: Path, config: RunConfig) -> Iterator[str]:
    """Read the run back, all of it and the last of it; say how long it takes."""
    template = ModelBasedAgent(SIZES, AGENT, capacity=STEPS, steps=STEPS).initial_state(
        key=jax.random.key(0)
    )
    memory = EpisodeMemory(*SIZES, np.float32)
    with closing(RunDirectory(directory, config, resume=True, warn=print)) as files:
        took = seconds(lambda: files.restore(template, memory))
    yield f"Resume with {len(memory.since(1)):,} transitions: {took}."
    cache, data = ReplayCache(SIZES, STEPS), memory.since(1)
    took = seconds(lambda: jax.block_until_ready(cache.load(data, len(data)).rows))
    yield f"All of them to the device: {took}."
    recent = EpisodeMemory(*SIZES, np.float32)
    history = [EpisodeSummary(length) for length in memory.lengths]
    first = len(history) + 1 - WINDOW
    recent.attach(directory / "memory", history)
    took = seconds(lambda: recent.since(first))
    yield f"Only a window of {WINDOW * STEPS:,}: {took}."


def table_of(times: Times) -> Table:
    """Return times at the marks, relative to the first."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("transitions retained", no_wrap=True)
    for mark in MARKS:
        table.add_column(f"{mark:,}", justify="right", no_wrap=True)
    table.add_column("ms, first", justify="right", no_wrap=True)
    found = {
        name: [median(each[mark // STEPS - AROUND : mark // STEPS]) for mark in MARKS]
        for name, each in stored_times(times).items()
    }
    passes = [median(times[f"{GROWING} {mark}"]) for mark in MARKS]
    found["normalisation, all rows"] = passes
    for name, each in found.items():
        shares = (f"{value / each[0]:.2f}" for value in each)
        table.add_row(name, *shares, f"{each[0]:.2f}")
    return table


def main() -> None:
    """Measure and print."""
    console = Console(highlight=False)
    settings = {"episodes": MARKS[-1] // STEPS + 1}
    config = configure("pendulum-decay", "sombrl", settings)
    with tempfile.TemporaryDirectory() as name:
        times, used, growth = live(Path(name), config)
        console.print(table_of(times))
        console.print(
            f"\nAll {MARKS[-1] // STEPS} episodes, with the moves to larger arrays: "
            f"{growth:.2f} of as many early ones."
        )
        memory = ", ".join(f"{mib:.0f} MiB at {mark:,}" for mark, mib in used.items())
        console.print(f"Resident memory: {memory}.")
        for line in resumed(Path(name), config):
            console.print(line)
    few, many = (step_time(retained) for retained in LESSONS)
    console.print(
        f"A step that learns, {LESSONS[1]:,} retained against {LESSONS[0]:,}: "
        f"{many / few:.2f} ({few:.2f} ms)."
    )


if __name__ == "__main__":
    main()

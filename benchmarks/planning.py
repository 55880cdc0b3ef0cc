"""One planning decision on 400 points, against scikit-learn on the same queries.

driftrl is timed on the whole decision: drawing 200 action sequences, imagining 10 steps
of each, selecting, four times over.  scikit-learn is timed on nothing but the mean and
standard deviation of the very states and actions which that decision asked about, in
the same batches, with the same data, kernel and hyperparameters.
"""

import os

# Read by JAX when it is imported: one thread, as in a run.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["NPROC"] = "1"

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from driftrl.agents import icem
from driftrl.agents.gp_mpc import optimistic_return
from driftrl.agents.optimism import norm
from driftrl.config.gp import GPAgentConfig, ICEMConfig
from driftrl.envs import pendulum
from driftrl.envs.tasks import configure, task_named
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import EpisodeSummary
from driftrl.models import gp
from driftrl.models.gp import Prediction
from driftrl.training.loop import run
from driftrl.types import Data

EPISODES = 10
ROUNDS = 9
BAR = 4.0  # times faster than scikit-learn, at least

TASK = task_named("pendulum")
assert isinstance(TASK.agent, GPAgentConfig)
MODEL = TASK.agent.model
PLANNER = ICEMConfig(samples=200, horizon=10, iterations=4)


class Batch(NamedTuple):
    """What one imagined step of all candidate plans asked the model."""

    obs: np.ndarray
    actions: np.ndarray


def first_episodes() -> Data:
    """Let an agent learn the pendulum, and return the transitions it collected."""
    config = configure("pendulum", "sombrl", {"episodes": EPISODES})
    with tempfile.TemporaryDirectory() as name:
        directory, history = Path(name), list[EpisodeSummary]()
        run(
            config,
            directory,
            resume=False,
            on_episode=lambda record: history.append(EpisodeSummary.of(record)),
            warn=print,
        )
        memory = EpisodeMemory(TASK.state_size, TASK.action_size)
        memory.attach(directory / "memory", history)
        return memory.since(1)


def decision(predict: Callable[..., Prediction]) -> icem.Plan:
    """Plan from hanging at rest, with nothing to start from."""
    reward = pendulum.decision_reward(TASK.environment.action_repeat, TASK.nominal)
    hanging = jnp.array([-1.0, 0.0, 0.0])

    def objective(actions: jax.Array) -> jax.Array:
        return optimistic_return(predict, reward, norm, jnp.ones(()), hanging, actions)

    start = icem.initial_plan(PLANNER, 1)
    return icem.plan(objective, start, PLANNER, key=jax.random.key(0))


def queries_of_a_decision(posterior: gp.Posterior) -> list[Batch]:
    """Make one decision and return every batch of queries it made."""
    asked: list[Batch] = []

    def note(obs: np.ndarray, actions: np.ndarray) -> None:
        asked.append(Batch(np.asarray(obs), np.asarray(actions)))

    @jax.custom_batching.custom_vmap
    def recorded(obs: jax.Array, action: jax.Array) -> Prediction:
        return posterior.predict(obs, action)

    @recorded.def_vmap
    def _(
        size: int, batched: list[bool], obs: jax.Array, actions: jax.Array
    ) -> tuple[Prediction, Prediction]:
        if not batched[0]:  # all plans start in the same state
            obs = jnp.broadcast_to(obs, (size, *obs.shape))
        jax.debug.callback(note, obs, actions)
        every = Prediction(True, True, True, True)  # pyright: ignore[reportArgumentType]
        return jax.vmap(posterior.predict)(obs, actions), every

    jax.block_until_ready(jax.jit(lambda: decision(recorded))())
    jax.effects_barrier()
    return asked


class Reference:
    """scikit-learn's regressor on the same data with the same hyperparameters."""

    def __init__(self, state: gp.GPState) -> None:
        """Fit it; its own search for hyperparameters stays off."""
        hyper = state.hyper
        self._state = state
        self._regressor = GaussianProcessRegressor(
            ConstantKernel(hyper.output_scale**2) * RBF(hyper.length_scales),  # pyright: ignore[reportArgumentType]
            alpha=hyper.noise_std**2,
            optimizer=None,  # pyright: ignore[reportArgumentType]
        ).fit(state.x, state.y)

    def normalised(self, batch: Batch) -> np.ndarray:
        """Return the inputs as the regressor wants them."""
        return self._state.inputs.normalise(np.concatenate(batch, axis=1))

    def predict(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and std of the normalised change."""
        answer: Any = self._regressor.predict(inputs, return_std=True)
        return answer[0], answer[1]

    def differences(
        self, posterior: gp.Posterior, batches: list[Batch]
    ) -> tuple[float, float]:
        """Return the largest difference of mean and std, in spreads of the changes."""
        spread, centre = self._state.outputs.std, self._state.outputs.mean
        worst = np.zeros(2)
        for batch in batches:
            mean, std = self.predict(self.normalised(batch))
            found = gp.predict_all(posterior, batch.obs, batch.actions)
            change = (np.asarray(found.mean) - batch.obs - centre) / spread
            deviation = np.asarray(found.epistemic_std) / spread
            here = np.abs(change - mean).max(), np.abs(deviation - std).max()
            worst = np.maximum(worst, here)
        return float(worst[0]), float(worst[1])


def timed(action: Callable[[], object]) -> float:
    """Return the milliseconds that ``action`` takes."""
    start = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start)


def measure(
    posteriors: dict[str, gp.Posterior], reference: Reference, batches: list[Batch]
) -> dict[str, float]:
    """Return median milliseconds of each contestant, all taking turns in each round."""
    inputs = [reference.normalised(batch) for batch in batches]
    decide = jax.jit(lambda posterior: decision(posterior.predict))

    def ours(posterior: gp.Posterior) -> Callable[[], object]:
        return lambda: jax.block_until_ready(decide(posterior))

    def theirs(threads: int) -> Callable[[], object]:
        def ask() -> None:
            with threadpool_limits(threads):
                for batch in inputs:
                    reference.predict(batch)

        return ask

    cores = os.cpu_count() or 1
    contestants = {name: ours(known) for name, known in posteriors.items()}
    contestants["scikit-learn, 1 thread"] = theirs(1)
    contestants[f"scikit-learn, {cores} threads"] = theirs(cores)
    for action in contestants.values():
        action()  # compiles, and warms the caches
    rounds = [
        {name: timed(action) for name, action in contestants.items()}
        for _ in range(ROUNDS)
    ]
    return {name: median(each[name] for each in rounds) for name in contestants}


def label(compression: float) -> str:
    """Return what the table calls a posterior."""
    return f"driftrl, compression {compression:g}" if compression else "driftrl, exact"


def support_size(posterior: gp.Posterior) -> int:
    """Return the number of points that a posterior is made of, padding aside."""
    return int(np.any(np.asarray(posterior.weights), axis=1).sum())


def main() -> None:
    """Measure and print."""
    data = first_episodes()
    with jax.enable_x64(True):
        state = gp.fit(gp.initial_state(3, 1, MODEL), data, MODEL)
        posteriors = {
            label(share): gp.posterior(state, replace(MODEL, compression=share))
            for share in sorted({0.0, 1e-4, MODEL.compression})
        }
        batches = queries_of_a_decision(posteriors[label(0.0)])
        reference = Reference(state)
        times = measure(posteriors, reference, batches)
        apart = {
            name: reference.differences(known, batches)
            for name, known in posteriors.items()
        }
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("one decision", no_wrap=True)
    for column in ("ms", "speed-up", "support", "Δμ", "Δσ"):
        table.add_column(column, justify="right", no_wrap=True)
    baseline = times["scikit-learn, 1 thread"]
    for name, spent in times.items():
        row = [name, f"{spent:.1f}", f"{baseline / spent:.1f} ×"]
        if known := posteriors.get(name):
            row += [str(support_size(known)), *(f"{x:.0e}" for x in apart[name])]
        table.add_row(*row)
    queries = sum(len(batch.obs) for batch in batches)
    console = Console(highlight=False)
    console.print(
        f"{PLANNER.samples} samples × {PLANNER.horizon} steps × {PLANNER.iterations} "
        f"iterations: {queries} queries in {len(batches)} batches, on the\n{len(data)} "
        f"points of an agent's first {EPISODES} episodes.  driftrl makes the whole "
        "decision,\non one thread; scikit-learn only answers its queries.  Medians of "
        f"{ROUNDS} rounds\nin turn.  Largest differences in spreads of the changes.\n"
    )
    console.print(table)
    shipped = baseline / times[label(MODEL.compression)]
    console.print(
        f"\nAs the pendulum task plans, one thread each: {shipped:.1f} times faster; "
        f"at least {BAR:g} is wanted."
    )


if __name__ == "__main__":
    main()

"""What the car's models know of its throttle, and what data they should have had.

    python experiments/car_models.py runs/rccar_parking
    python experiments/car_models.py runs/rccar_parking --offline

The first writes throttle_response.json: the acceleration that the newest model of each
run expects of a command that arrives, a quarter or all of the throttle instead of none,
beside the true one.  The states are those of the last episode of every method, for each
seed and form of the study.  The second writes offline.json: a fresh model and a fresh
policy are trained on all episodes of a run, on those since the change, and on the last
four, with as many updates each, and the policy is judged on the true car as it was in
the last episode, beside the one that the run itself ended with.  Both need checkpoints
and episodes; ``paper_tables.py`` makes tables of what they write.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from driftrl.agents.base import LearnContext, Policy
from driftrl.analysis.regret import change_starts
from driftrl.config.run import RunConfig
from driftrl.drift.schedules import Constant
from driftrl.envs import rccar
from driftrl.envs.drifting import environment_of
from driftrl.export import export_model
from driftrl.exported import Model
from driftrl.io import write_atomically
from driftrl.memory.episodes import EpisodeMemory, load_episode
from driftrl.memory.forgetting import EpisodeSummary
from driftrl.records import Run, load_runs
from driftrl.training.assembly import initial_state, make_agent, sizes_of
from driftrl.training.loop import evaluate
from driftrl.training.run_directory import read_config
from driftrl.training.streams import Purpose, key_for
from driftrl.video import newest_policy

COMMANDS = (0.25, 1.0)
LAST = 4
_OLDEST = 8  # throttle of the oldest command that is observed: it arrives next
_VELOCITY = slice(4, 6)

States = Float[np.ndarray, "N S"]


# ---- the response to the throttle ----------------------------------------------------


def forward_change(states: States, after: Float[np.ndarray, "N D"]) -> np.ndarray:
    """Return how much faster than before the car drives along its old heading, m/s."""
    sin, cos = states[:, 2], states[:, 3]
    gained = after[:, _VELOCITY] - states[:, _VELOCITY]
    return gained[:, 0] * cos + gained[:, 1] * sin


def with_command(states: States, command: float) -> States:
    """Return the states in which that throttle is the next command to arrive."""
    changed = states.copy()
    changed[:, _OLDEST] = command
    return changed


def expected_response(
    model: Model, states: States, actions: Float[np.ndarray, "N A"], command: float
) -> float:
    """Return the mean acceleration that a model expects of a command, m/s²."""
    with_it, without = (
        forward_change(states, model(with_command(states, one), actions).next_obs)
        for one in (command, 0.0)
    )
    return float(np.mean(with_it - without)) / rccar.DT


def true_response(states: States, command: float, theta: float) -> float:
    """Return the mean acceleration of the simulated car, m/s²."""

    def after(obs: jax.Array, throttle: jax.Array) -> jax.Array:
        x, y, sin, cos, v_x, v_y, rate = obs[:7]
        state = rccar.CarState(x, y, jnp.arctan2(sin, cos), v_x, v_y, rate)
        arriving = jnp.stack([obs[7], throttle])
        return rccar.observe(rccar.step(state, arriving, jnp.asarray(theta)))

    with jax.enable_x64(True):
        rows = jnp.asarray(states, jnp.float64)
        with_it, without = (
            np.asarray(jax.vmap(after)(rows, jnp.full(len(rows), one)))
            for one in (command, 0.0)
        )
    gained = forward_change(states, with_it) - forward_change(states, without)
    return float(np.mean(gained)) / rccar.DT


def responses(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return predicted and true accelerations, for the runs of one form and seed."""
    last = [load_episode(run.directory / "memory", len(run.records)) for run in runs]
    states, actions = (
        np.concatenate([getattr(episode, name) for episode in last]).astype(np.float64)
        for name in ("obs", "actions")
    )
    theta, rows = runs[0].records[-1].theta, []
    for run in runs:
        with tempfile.TemporaryDirectory() as directory:
            model = export_model(run.directory, Path(directory) / "model.npz")
        for command in COMMANDS:
            expected = expected_response(model, states, actions, command)
            strong = true_response(states, command, 1.0)
            rows.append(
                {
                    **names_of(run),
                    "command": f"{command:g}",
                    "expected, m/s²": expected,
                    "true, m/s²": true_response(states, command, theta),
                    "expected, of the strong car's": expected / strong,
                }
            )
    return rows


# ---- other data ----------------------------------------------------------------------


def trained_offline(
    run: Run, config: RunConfig, first: int, updates: int
) -> tuple[Policy, int]:
    """Return a fresh policy of a fresh model of the episodes from the first on.

    And the number of their transitions.
    """
    agent = make_agent(config)
    memory = EpisodeMemory(*sizes_of(config), agent.precision)
    history = [EpisodeSummary.of(row) for row in run.records]
    memory.attach(run.directory / "memory", history)
    data = memory.since(first)
    following = len(history) + 1
    context = LearnContext(following, config.environment.steps, updates=updates)
    key = key_for(config.seed, Purpose.LEARNING, following)
    state = agent.learn(initial_state(agent, config), data, context, key=key)
    return agent.policy(state), len(data)


def offline(run: Run, updates: int, episodes: int) -> list[dict[str, Any]]:
    """Return the returns of policies that had other data, and of the run's own."""
    config, number = read_config(run.directory), len(run.records)
    thetas = np.array([row.theta for row in run.records])
    starts = change_starts(thetas) or [1]
    spans = {"all": 1, "since the change": starts[0], "last four": number - LAST + 1}
    policies = {
        f"fresh, {name}": trained_offline(run, config, max(1, first), updates)
        for name, first in spans.items()
    }
    own, _ = newest_policy(run.directory, config)
    policies["the run's own"] = own, sum(row.steps for row in run.records)
    frozen = replace(config, drift=Constant(value=float(thetas[-1])))
    rows = []
    with closing(environment_of(frozen)) as env:
        for name, (policy, transitions) in policies.items():
            options: Any = {"seed": config.seed, "place": {"episode": number}}
            value = evaluate(policy, env, episodes=episodes, **options)
            row = {"policy": name, "transitions": transitions, "return": value}
            rows.append({**names_of(run), **row})
    return rows


def names_of(run: Run) -> dict[str, Any]:
    """Return the columns by which rows are told apart."""
    problem = f"{run.task} {run.variant}".strip()
    return {"problem": problem, "method": run.config["method"], "seed": run.seed}


def main(words: Sequence[str] | None = None) -> None:
    """Write one of the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--updates", type=int, default=10_000, help="of a fresh model")
    parser.add_argument("--episodes", type=int, default=10, help="of an evaluation")
    asked = parser.parse_args(words)
    runs = [run for run in load_runs(asked.study) if run.is_finished]
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.variant, run.seed), []).append(run)
    if asked.offline:
        path = asked.study / "offline.json"
        rows = [
            row for run in runs for row in offline(run, asked.updates, asked.episodes)
        ]
    else:
        path = asked.study / "throttle_response.json"
        rows = [row for group in groups.values() for row in responses(group)]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    write_atomically(path, f"[\n{lines}\n]\n".encode())
    print(f"Written: {path}")


if __name__ == "__main__":
    main()

"""Judge the models of all methods on the same episodes, from which none has learned.

    python experiments/common_test_set.py runs/mujoco_decay_rates-laptop

On each problem and for each seed, the newest policies of all methods drive the machine
as it was in the last episode, with random streams that no run has; then every newest
model predicts all these transitions, one step ahead.  Needs checkpoints.  It writes
common_test_set.json into the study's directory, a row for each run, to be packed with
its records: ``paper_tables.py`` shows it.
"""

import argparse
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftrl.agents.base import Policy, interval_scale
from driftrl.config.run import RunConfig
from driftrl.drift.schedules import Constant
from driftrl.envs.drifting import environment_of
from driftrl.io import write_atomically
from driftrl.records import Run, load_runs
from driftrl.training.run_directory import read_config
from driftrl.training.streams import Purpose, integer_for, key_for
from driftrl.types import Episode
from driftrl.video import newest_policy

FILE = "common_test_set.json"
_STREAM = 1_000_000  # of the random streams: no run has as many episodes


def drive(policy: Policy, config: RunConfig, theta: float, number: int) -> Episode:
    """Return an episode of an exploring policy on the machine frozen at θ."""
    frozen = replace(config, drift=Constant(value=theta))
    stream = (config.seed, Purpose.EVALUATION, _STREAM, number)
    rows, carry = [], policy.begin()
    terminated = truncated = False
    with closing(environment_of(frozen)) as env:
        obs, _ = env.reset(seed=integer_for(*stream))
        while not (terminated or truncated):
            key = key_for(*stream, len(rows))
            action, carry = policy.act(obs, carry, key=key)
            after, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, float(reward), after))
            obs = after
    obs, actions, rewards, after = map(np.array, zip(*rows, strict=True))
    return Episode(obs, actions, rewards, after, terminated)


def joined(episodes: Sequence[Episode]) -> Episode:
    """Return all transitions as one episode, for predictions of one step."""
    names = ("obs", "actions", "rewards", "next_obs")
    parts = ([getattr(one, name) for one in episodes] for name in names)
    return Episode(*map(np.concatenate, parts), terminated=False)


def judged(runs: Sequence[Run], episodes: int) -> list[dict[str, Any]]:
    """Return a row for each of the runs of one problem and seed."""
    configs = [read_config(run.directory) for run in runs]
    pairs = zip(runs, configs, strict=True)
    policies = [newest_policy(run.directory, config)[0] for run, config in pairs]
    # On a clock of steps, methods end at slightly different θ.
    theta = float(np.median([run.records[-1].theta for run in runs]))
    driven = [
        drive(policy, config, theta, number)
        for policy, config in zip(policies, configs, strict=True)
        for number in range(episodes)
    ]
    rows = []
    for run, config, policy in zip(runs, configs, policies, strict=True):
        scale = interval_scale([row.error_quantile for row in run.records])
        found = policy.model_metrics(joined(driven), scale)
        rows.append(
            {
                "problem": f"{run.task} {run.variant}".strip(),
                "method": config.method,
                "seed": run.seed,
                "theta": theta,
                "transitions": sum(map(len, driven)),
                "model_error": found.model_error,
                "coverage": found.coverage,
            }
        )
    return rows


def main(words: Sequence[str] | None = None) -> None:
    """Judge the runs of studies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("studies", type=Path, nargs="+")
    parser.add_argument("--episodes", type=int, default=3, help="of each policy")
    asked = parser.parse_args(words)
    for study in asked.studies:
        groups: dict[tuple[str, str, int], list[Run]] = {}
        for run in load_runs(study):
            if run.is_finished:
                groups.setdefault((run.task, run.variant, run.seed), []).append(run)
        rows = [row for runs in groups.values() for row in judged(runs, asked.episodes)]
        lines = ",\n".join(json.dumps(row) for row in rows)
        write_atomically(study / FILE, f"[\n{lines}\n]\n".encode())
        print(f"Written: {study / FILE}")


if __name__ == "__main__":
    main()

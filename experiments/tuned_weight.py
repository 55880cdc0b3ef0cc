"""Why does λ fall where it is tuned?  The bonus of the policy beside its average's.

Tuning lowers λ while the policy π gathers more bonus than its own slow average π̄, and
raises it while it gathers less.  The cheetah learns with a tuned λ; after every episode
both bonuses are measured in 2,000 states of the newest ten episodes, under the model of
that time.

    python experiments/tuned_weight.py --seeds 100 101 102
"""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

from driftrl.training.process import prepare

prepare(os.environ)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import polars  # noqa: E402

import driftrl  # noqa: E402
from driftrl.agents import sac  # noqa: E402
from driftrl.agents.model_based import mean_bonus  # noqa: E402
from driftrl.config.toml import merged  # noqa: E402
from driftrl.models import ensemble  # noqa: E402
from driftrl.training.assembly import initial_state, make_agent  # noqa: E402
from driftrl.training.checkpoint import load_checkpoint, newest  # noqa: E402
from driftrl.training.study import find_study, read_study  # noqa: E402
from driftrl.types import EpisodeRecord  # noqa: E402

STATES, NEWEST = 2000, 10


def bonuses(folder: Path, template: Any) -> tuple[float, float]:
    """Return b(π) and b(π̄) for the newest checkpoint of a run."""
    load = lambda path, number: load_checkpoint(path, number, template)
    (state, _), _ = newest(folder, load)
    files = sorted((folder / "memory").glob("*.npz"))[-NEWEST:]
    seen = np.concatenate([np.load(file)["obs"] for file in files])
    rows = np.random.default_rng(0).integers(len(seen), size=STATES)
    obs, normalised = jnp.asarray(seen[rows]), state.model.statistics.normalised_obs
    bonus = lambda obs, action: jnp.linalg.norm(
        ensemble.predict(state.model, obs, action).epistemic_std[:-1]
    )
    act = lambda actor, obs, key: sac.sample_action(actor, normalised(obs), key)
    of = lambda actor: mean_bonus(bonus, partial(act, actor), obs, jax.random.key(0))
    return float(of(state.policy.actor)), float(of(state.average_actor))


def measure(seed: int, episodes: int, out: Path) -> polars.DataFrame:
    """Return λ and both bonuses, episode by episode."""
    preset = read_study(find_study("mujoco_decay_rates"), "laptop").presets["laptop"]
    tuned = {"agent": {"optimism": {"rule": "tuned", "weight": 1.0}}}
    still = {"drift": {"kind": "constant", "value": 1.0}}
    settings = merged(merged(preset, tuned), still)
    settings |= {"seed": seed, "episodes": episodes}
    config = driftrl.configure("halfcheetah", "sombrl", settings)
    folder, rows = out / f"seed-{seed}", []
    agent = make_agent(config)
    template = initial_state(agent, config)

    def add(row: EpisodeRecord) -> None:
        if row.temperature is None:  # nothing has been learned yet
            return
        policy, average = bonuses(folder, template)
        rows.append((seed, row.episode, row.optimism, policy, average))

    driftrl.run(config, folder, on_episode=add)
    columns = ("seed", "episode", "weight", "of_policy", "of_average")
    return polars.DataFrame(rows, schema=columns, orient="row")


def main() -> None:
    """Measure every seed, save the rows and print their means by five episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("runs/tuned_weight"))
    asked = parser.parse_args()
    frames = [measure(seed, asked.episodes, asked.out) for seed in asked.seeds]
    frame = polars.concat(frames)
    frame.write_csv(asked.out / "bonuses.csv")
    more = (polars.col("of_policy") > polars.col("of_average")).mean()
    values = [polars.col(name).mean() for name in frame.columns[2:]]
    late = (polars.col("episode") - 1) // 5 * 5 + 1
    by = frame.group_by("seed", late.alias("from"), maintain_order=True)
    print(by.agg(*values, more.alias("share where π gathers more")))


if __name__ == "__main__":
    main()

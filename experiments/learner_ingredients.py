"""Which ingredients of the deep learner matter?  One is changed at a time.

The preset ``laptop`` learns the stationary cheetah, and then again with one ingredient
changed, on the tuning seeds.  Prints, for every change, the mean evaluation of the last
five episodes, its difference to the preset, paired by seed with a 95 % interval, and
the seconds of an episode.  Runs that exist are not repeated.

    python experiments/learner_ingredients.py --seeds 100 101 102
    python experiments/learner_ingredients.py --show       # what is there so far
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars

import driftrl
from driftrl.analysis.statistics import estimate_mean
from driftrl.config.toml import merged, toml_text
from driftrl.io import write_atomically
from driftrl.training.study import find_study, read_study

TASK = "halfcheetah"
LAST = 5
PRESET = "preset"
CHANGES: dict[str, dict[str, Any]] = {
    PRESET: {},
    "two-policy-updates": {"learning": {"policy_updates": 2}},
    "collected": {"imagination": {"collected": True}},
    "critic-gradient": {"policy_gradient": "critic"},
    "one-model-step": {"model": {"steps": 1}},
    "K=1": {"imagination": {"horizon": 1}},
    "K=5": {"imagination": {"horizon": 5}},
    "greedy": {"optimism": {"weight": 0.0}},
    "likelihood": {"model": {"loss": "likelihood"}},
    "plain-critics": {"sac": {"critic": "plain"}},
    "model-without-average": {"model": {"averaging": 1.0, "learning_rate": 1e-3}},
    "two-random-episodes": {"learning": {"learning_starts": 1000, "model_first": 0}},
    "temperature-from-0.1": {
        "sac": {"initial_temperature": 0.1, "temperature_rate": 1.0}
    },
    "mean-of-members": {"imagination": {"dynamics": "mean"}},
    "slow-targets": {"sac": {"tau": 0.005}},
    "no-weight-decay": {"model": {"weight_decay": 0.0}},
    "ReLU": {"sac": {"activation": "relu"}},
    "quarter-from-starts": {"imagination": {"from_starts": 0.25}},
    "three-candidates": {"learning": {"candidates": 3}},
}
"""Settings of the agent that differ from the preset's."""


def study_of(names: list[str], seeds: list[int], episodes: int) -> dict[str, Any]:
    """Return the study, as the content of its file."""
    preset = read_study(find_study("mujoco_decay_rates"), "laptop").presets["laptop"]
    settings = {
        "episodes": episodes,
        "drift": {"kind": "constant", "value": 1.0},
    }
    return {
        "name": "learner_ingredients",
        "title": "Ingredients of the deep learner",
        "summary": "The stationary cheetah, with one ingredient changed at a time.",
        "task": TASK,
        "methods": ["sombrl"],
        "seeds": seeds,
        "settings": merged(preset, settings),
        "variants": [
            {"name": name, "settings": {"agent": CHANGES[name]}} for name in names
        ],
    }


def differences(last: polars.DataFrame) -> polars.DataFrame:
    """Return each change's mean, and its difference to the preset, paired by seed.

    ``last`` has the columns variant, seed, value and seconds, a row for each run.
    """
    base = last.filter(polars.col("variant") == PRESET).select("seed", base="value")
    rows = []
    for (name,), runs in last.group_by("variant", maintain_order=True):
        pairs = runs.join(base, on="seed")
        change = (pairs["value"] - pairs["base"]).to_numpy()
        found = estimate_mean(change) if len(change) > 1 else None
        rows.append(
            {
                "change": name,
                "mean": runs["value"].mean(),
                "difference": change.mean() if len(change) else None,
                "low": None if found is None else float(found.student.low),
                "high": None if found is None else float(found.student.high),
                "seconds": runs["seconds"].mean(),
                "seeds": runs["seed"].sort().to_list(),
            }
        )
    return polars.DataFrame(rows).sort("mean", descending=True)


def main() -> None:
    """Run what is asked for, then show everything that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", nargs="+", default=list(CHANGES), choices=CHANGES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--episodes", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("runs/learner_ingredients"))
    parser.add_argument("--show", action="store_true", help="run nothing")
    asked = parser.parse_args()
    if not asked.show:
        study = study_of(asked.changes, asked.seeds, asked.episodes)
        file = asked.out.with_suffix(".toml")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, toml_text(study).encode())
        run = [sys.executable, "-m", "driftrl", "study", str(file)]
        subprocess.run([*run, "--out", str(asked.out)], check=True)
    frame = driftrl.load(asked.out)
    late = frame.filter(polars.col("episode") > asked.episodes - LAST)
    last = late.group_by("variant", "seed", maintain_order=True).agg(
        value=polars.col("return_eval").mean(),
        seconds=polars.col("wall_s").mean(),
        episodes=polars.len(),
    )
    with polars.Config(tbl_rows=-1, fmt_str_lengths=40):
        print(differences(last.filter(polars.col("episodes") == LAST)))


if __name__ == "__main__":
    main()

"""Records, runs and small configurations that tests of all areas share."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from driftrl.config.toml import toml_text
from driftrl.records import Run, encode_record
from driftrl.types import EpisodeRecord

TINY: dict[str, Any] = {
    "episodes": 5,
    "environment": {"sim_steps": 40, "noise_std": 0.01},
    "drift": {"start": 2},
    "forgetting": {"kind": "window", "window": 2},
    "agent": {
        "model": {"fit_steps": 5, "refit_every": 2},
        "planner": {"horizon": 3, "samples": 16, "elites": 4, "iterations": 2},
    },
}
"""Settings of a Gaussian-process run so small that a test can afford several."""

TINY_DEEP: dict[str, Any] = {
    "episodes": 5,
    "environment": {"sim_steps": 10, "noise_std": 0.01},
    "drift": {"start": 2},
    "forgetting": {"kind": "window", "window": 2},
    "agent": {
        "model": {"members": 2, "hidden": [8]},
        "sac": {"hidden": [8, 8], "batch_size": 8, "critic": "plain"},
        "learning": {"model_updates": 1, "policy_updates": 2, "learning_starts": 8},
        "soft_reset": {"model": 0.2, "policy": 0.2},
        "optimism": {"rule": "tuned"},
    },
}
"""The same of a run with networks."""


def record(episode: int = 1, **changes: Any) -> EpisodeRecord:
    """Return a plausible row of an episode, with some columns changed."""
    columns: dict[str, Any] = {
        "theta": 2.0,
        "steps": 40,
        "return_executed": -1.0,
        "return_eval": None,
        "terminated": False,
        "first_retained": 1,
        "transitions": 40 * (episode - 1),
        "optimism": 1.0,
        "model_error": None,
        "coverage": None,
        "epistemic_std": None,
        "wall_s": 0.5,
    }
    return EpisodeRecord(episode=episode, **{**columns, **changes})


def run_of(
    records: Iterable[EpisodeRecord] = (),
    directory: str | Path = "run",
    **settings: Any,
) -> Run:
    """Return a run as ``load_run`` would, without writing it."""
    rows = tuple(records)
    config = {
        "task": "pendulum",
        "method": "sombrl",
        "seed": 0,
        "episodes": len(rows),
        "variant": "",
    }
    return Run(Path(directory), {**config, **settings}, rows)


def write_run(
    directory: Path, records: Iterable[EpisodeRecord] = (), **settings: Any
) -> Path:
    """Write the configuration and the rows of such a run; return the directory."""
    run = run_of(records, directory, **settings)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(toml_text(run.config))
    rows = "".join(encode_record(row) + "\n" for row in run.records)
    (directory / "episodes.jsonl").write_text(rows)
    return directory

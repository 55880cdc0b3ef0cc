"""driftrl beside SAC and CrossQ of Stable-Baselines Jax, on the cheetah and others.

Everybody runs the same seeds of the same tasks for the same steps on one core, at
full strength and with actuators that fade.  Peers run at their library's defaults;
CrossQ, which is slower, also at a width that takes about as long as driftrl.  After
every episode the deterministic policy is evaluated in an episode of the same θ.

    python benchmarks/peers.py --seeds 0 1 2 --out runs/peers
    python benchmarks/peers.py --task hopper --drifts stationary --only sombrl

A fall ends an episode of hopper, walker and ant, and all take as many decisions as
``--episodes`` that run their full time.

The last columns are the cost of learning, the return at equal cost where nothing
drifts (ten evaluations before every run has used as many core seconds as the cheapest
one in all), and how many settings were tried before (docs/learner_tuning.md).

A finished run is kept in ``--out`` and not made again.  Peers need sbx-rl, in an
environment of its own that has driftrl as well; without it they are skipped.
"""

import argparse
import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from driftrl.training.process import prepare

prepare(os.environ)

from rich.box import SIMPLE_HEAD  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import driftrl  # noqa: E402
from driftrl.config.run import RunConfig  # noqa: E402
from driftrl.config.toml import merged  # noqa: E402
from driftrl.envs.drifting import environment_of  # noqa: E402
from driftrl.io import write_atomically  # noqa: E402
from driftrl.training.study import find_study, read_study  # noqa: E402
from driftrl.types import EpisodeRecord  # noqa: E402

# A fall costs what would have come later: with γ = 0.98 a fall 80 decisions ahead
# costs a fifth of it.
_ENDS: dict[str, Any] = {
    "environment": {"terminates": True},
    "agent": {
        "imagination": {"termination": "known", "collected": True},
        "sac": {"discount": 0.99},
    },
}
# Without noise they fall on the machine, and never in the model.
_NOISY = merged(_ENDS, {"agent": {"imagination": {"noise": True}}})
TASKS: dict[str, dict[str, Any]] = {
    "halfcheetah": {},
    "hopper": _ENDS,
    "walker2d": _NOISY,
    "ant": _NOISY,
}
"""Beside the settings of the study's laptop preset."""
ONSET = 25
DRIFTS = {
    "fading": {
        "kind": "exponential",
        "theta_max": 1.0,
        "theta_min": 0.2,
        "rate": 0.05,
        "start": ONSET,
    },
    "stationary": {"kind": "constant", "value": 1.0},
}
# The laptop preset of version 0.1.0: SAC on imagined transitions.
_BEFORE: dict[str, Any] = {
    "policy_gradient": "critic",
    "imagination": {"horizon": 1, "dynamics": "mean"},
    "optimism": {"rule": "tuned", "weight": 1.0},
    "learning": {"policy_updates": 3, "learning_starts": 500, "model_first": 0},
    "soft_reset": {"model": 0.2, "policy": 0.2},
    "model": {
        "loss": "mse",
        "separate_batches": False,
        "learning_rate": 1e-3,
        "gradient_clip": 0.5,
        "weight_decay": 0.0,
        "steps": 1,
        "averaging": 1.0,
    },
    "sac": {
        "hidden": [128, 128],
        "activation": "relu",
        "critic": "residual",
        "learning_rate": 1e-3,
        "gradient_clip": 0.5,
        "discount": 0.99,
        "tau": 0.005,
        "temperature_rate": 1.0,
    },
}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "sw-ombrl": ("sw-ombrl", {}),
    "r-ombrl": ("r-ombrl", {}),
    "sombrl": ("sombrl", {}),
    "sw-ombrl as in 0.1.0": ("sw-ombrl", {"agent": _BEFORE}),
}
NARROW = {"net_arch": {"pi": [128, 128], "qf": [256, 256]}}
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sbx SAC, defaults": ("SAC", {}),
    "sbx CrossQ, critics of 256": ("CrossQ", {"policy_kwargs": NARROW}),
    "sbx CrossQ, defaults": ("CrossQ", {}),
}
TRIED = {"driftrl": 71, "SAC": 1, "CrossQ": 2}
"""Settings looked at for each: the cheetah's rows in docs/learner_tuning.md; peers were
not tuned, these are the settings that are run here."""
Evaluations = Iterator[tuple[float, float]]
"""Return of the deterministic policy, and seconds of the processor for training."""


class Case(NamedTuple):
    """What is run, but for who runs it."""

    task: str
    drift: str
    seed: int
    episodes: int
    updates: int = 1


class Enough(Exception):
    """All decisions have been taken."""


def config_of(name: str, case: Case) -> RunConfig:
    """Return the run of a method with the settings of the study's laptop preset."""
    method, own = OURS[name]
    study = read_study(find_study("mujoco_decay_rates"), "laptop")
    settings = merged(study.presets["laptop"], TASKS[case.task])
    # Episodes that end early are more.
    episodes = case.episodes * (30 if TASKS[case.task] else 1)
    changes = {"drift": DRIFTS[case.drift], "seed": case.seed, "episodes": episodes}
    updates = {"agent": {"learning": {"policy_updates": case.updates}}}
    settings = merged(merged(settings, updates), own)
    return driftrl.configure(case.task, method, settings | changes)


def ours(name: str, case: Case, folder: Path) -> Evaluations:
    """Run a method of driftrl, in a folder that holds the run in the end."""
    rows: list[tuple[float, float]] = []
    config, taken = config_of(name, case), 0
    shutil.rmtree(folder, ignore_errors=True)  # seconds are of whole runs
    started = time.process_time()

    def add(row: EpisodeRecord) -> None:
        nonlocal taken
        rows.append((float(row.return_eval or 0.0), time.process_time() - started))
        taken += row.steps
        if taken >= case.episodes * config.environment.steps:
            raise Enough

    with contextlib.suppress(Enough):
        driftrl.run(config, folder, on_episode=add)
    yield from rows


def peer(name: str, case: Case, folder: Path) -> Evaluations:
    """Run an agent of Stable-Baselines Jax, which keeps all data."""
    del folder
    import sbx  # pyright: ignore[reportMissingImports]

    kind, settings = PEERS[name]
    config, seed = config_of("sombrl", case), case.seed
    env, twin = environment_of(config), environment_of(config)
    agent = getattr(sbx, kind)("MlpPolicy", env, seed=seed, **settings)
    steps = config.environment.steps
    seconds = 0.0
    for episode in range(1, case.episodes + 1):
        started = time.process_time()
        agent.learn(steps, reset_num_timesteps=episode == 1)
        seconds += time.process_time() - started
        obs, _ = twin.reset(seed=1000 * seed + episode, options={"episode": episode})
        total, over = 0.0, False
        while not over:
            obs, reward, ended, stopped, _ = twin.step(
                agent.predict(obs, deterministic=True)[0]
            )
            total, over = total + reward, ended or stopped
        yield total, seconds


def results(name: str, case: Case, out: Path) -> list[Any]:
    """Return (evaluation, seconds) of every episode, from ``out`` if it was run."""
    who = name.replace(" ", "_").replace(",", "")
    of_task = "" if case.task == "halfcheetah" else f"{case.task}-"
    with_updates = "" if case.updates == 1 else f"{case.updates}-updates-"
    file = out / f"{of_task}{case.drift}-{with_updates}{who}-{case.seed}.json"
    if file.exists():
        return json.loads(file.read_text())["episodes"]
    run = peer if name in PEERS else ours
    rows: list[Any] = []
    for row in run(name, case, out / "runs" / file.stem):
        rows.append(row)
        print(f"{file.stem}: episode {len(rows)} {row[0]:.0f}", end="\r", flush=True)
    facts = {"version": driftrl.__version__, "steps": 1000, "episodes": rows}
    write_atomically(file, json.dumps(facts).encode())
    return rows


def spread(values: list[float]) -> str:
    """Return mean ± standard error over the seeds."""
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{mean(values):,.0f} ± {error:,.0f}"


def at_equal_cost(runs: list[list[Any]], seconds: float) -> list[float]:
    """Return each run's mean of the ten evaluations before it has used the seconds."""
    counts = [max(1, sum(row[1] <= seconds for row in run)) for run in runs]
    return [
        mean(row[0] for row in run[max(0, count - 10) : count])
        for run, count in zip(runs, counts, strict=True)
    ]


def main() -> None:
    """Run what is missing, and print one table for each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--task", default="halfcheetah", choices=TASKS)
    parser.add_argument("--episodes", type=int, default=70)
    parser.add_argument("--updates", type=int, default=1, help="of driftrl, a decision")
    parser.add_argument("--drifts", nargs="+", default=list(DRIFTS), choices=DRIFTS)
    parser.add_argument("--only", nargs="+", help="names of methods and peers")
    parser.add_argument("--out", type=Path, default=Path("runs/peers"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    names = [n for n in (*OURS, *PEERS) if not asked.only or n in asked.only]
    if find_spec("sbx") is None:
        print("sbx-rl is not installed: its agents are skipped.")
        names = [name for name in names if name not in PEERS]
    taken = (asked.episodes, asked.updates)
    for drift in asked.drifts:
        table = Table(title=f"{asked.task}, {drift}", box=SIMPLE_HEAD)
        onset = f"from episode {ONSET + 1}"
        columns = ("", onset, "last ten", "core s per 1,000 steps", "at equal cost")
        for column in (*columns, "seeds", "settings tried"):
            table.add_column(column, justify="left" if not column else "right")
        found = {
            name: [
                results(name, Case(asked.task, drift, seed, *taken), asked.out)
                for seed in asked.seeds
            ]
            for name in names
        }
        cheapest = min(run[-1][1] for runs in found.values() for run in runs)
        for name, runs in found.items():
            after = [mean(row[0] for row in run[ONSET:]) for run in runs]
            last = [mean(row[0] for row in run[-10:]) for run in runs]
            cost = mean(run[-1][1] for run in runs) / asked.episodes
            equal = spread(at_equal_cost(runs, cheapest)) if drift != "fading" else "–"
            kind = PEERS[name][0] if name in PEERS else "driftrl"
            seeds, tried = str(len(asked.seeds)), str(TRIED[kind])
            row = (spread(after), spread(last), f"{cost:.1f}", equal, seeds, tried)
            table.add_row(name, *row)
        Console().print(table)


if __name__ == "__main__":
    main()

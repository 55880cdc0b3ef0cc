"""Records, runs and small configurations that tests of all areas share."""

import contextlib
import importlib.util
import json
import os
import socket
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from driftrl.config.toml import toml_text
from driftrl.memory.forgetting import Evidence
from driftrl.records import Run, encode_record
from driftrl.types import Episode, EpisodeRecord

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


def same(found: Any, expected: Any) -> bool:
    """Return whether two pytrees are equal bit for bit."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


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


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of a run without checksum and the seconds that they took."""
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    timed = ("wall_s", "sum")
    return [{k: v for k, v in row.items() if k not in timed} for row in rows]


def ignore(_: object) -> None:
    """Do nothing, in place of a callback."""


class Stop(Exception):
    """Raised by ``stop_after``."""


def stop_after(episode: int) -> Callable[[EpisodeRecord], None]:
    """Return a callback that ends a run after an episode."""

    def stop(row: EpisodeRecord) -> None:
        if row.episode == episode:
            raise Stop

    return stop


@contextlib.contextmanager
def compilations() -> Iterator[tuple[list[int], Callable[[EpisodeRecord], None]]]:
    """Note after how many episodes JAX compiles; the callback counts episodes."""
    compiled: list[int] = []
    done = 0

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if "backend_compile" in event:
            compiled.append(done)

    def count(row: EpisodeRecord) -> None:
        nonlocal done
        done = row.episode

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled, count
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def worker_of(directory: Path) -> int | None:
    """Return the process that runs in a directory."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"driftrl.engines.worker" in words and os.fsencode(directory) in words:
                return int(process.name)
    return None


def free_address() -> str:
    """Return an address of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"


def write_hostile_files(directory: Path) -> None:
    """Write modules that leave ``*.executed`` and fail if they are ever imported."""
    text = "open(__file__ + '.executed', 'w'); raise RuntimeError('executed')"
    for name in ("numpy", "driftrl", "jax", "submitit", "ray"):
        (directory / f"{name}.py").write_text(text)


def made_up_optimum(theta: float) -> float:
    """Return J*(θ) of the runs that ``write_study`` makes up."""
    return -60.0 - 200.0 / theta


def write_study(
    directory: Path,
    methods: Sequence[str] = ("sombrl", "r-ombrl", "sw-ombrl"),
    seeds: Sequence[int] = (0, 1, 2, 3),
    episodes: int = 30,
    variants: Sequence[str] = ("",),
    *,
    rate: float = 1.0,
    **settings: Any,
) -> Path:
    """Write runs whose θ falls after episode 10, with noisy returns below J*(θ)."""
    names = ("sombrl", "r-ombrl", "sw-ombrl")
    for method in methods:
        for variant in variants:
            for seed in seeds:
                stream = [seed, names.index(method), *map(ord, variant)]
                rows = made_up_rows(method, episodes, rate, stream)
                config = {"method": method, "variant": variant, "seed": seed}
                config |= {"forgetting": {"kind": method}}
                config |= {"drift": {"kind": "exponential", "rate": rate}} | settings
                middle = f"-{variant}" if variant else ""
                name = f"pendulum-{method}{middle}-s{seed}"
                write_run(directory / name, rows, **config)
    return directory


def made_up_rows(
    method: str, episodes: int, rate: float, stream: Sequence[int]
) -> list[EpisodeRecord]:
    """Return noisy rows; a window and resets forget, and every seventh is a reset."""
    rng = np.random.default_rng(list(stream))
    rows = []
    for n in range(1, episodes + 1):
        resets = max(1, 7 * ((n - 1) // 7))
        first = {"sombrl": 1, "r-ombrl": resets}.get(method, max(1, n - 6))
        theta = float(2.5 + 2.5 * np.exp(-rate * max(0, n - 10)))
        best, has_model = made_up_optimum(theta), n > 1
        rows.append(
            record(
                n,
                theta=theta,
                return_executed=float(best - rng.gamma(2.0, 20.0)),
                return_eval=float(best - rng.gamma(2.0, 10.0)),
                first_retained=first,
                transitions=40 * (n - first),
                optimism=1.0 / n,
                model_error=float(rng.lognormal(-3.0, 1.0)) if has_model else None,
                coverage=float(rng.beta(20.0, 1.0)) if has_model else None,
                epistemic_std=float(rng.lognormal(-3.0, 1.0)) if has_model else None,
                temperature=0.1 + 0.5 / n,
                soft_reset=n > 7 and n % 7 == 1,
                wall_s=1.5,
            )
        )
    return rows


@dataclass(frozen=True)
class Chaotic:
    """A forgetting rule whose m(n) depends on every bit of the evidence."""

    salt: int = 0

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return an episode from 1 to n, as good as random."""
        columns = [getattr(evidence, name) for name in vars(evidence)]
        rewards = [episode.rewards.tobytes() for episode in evidence.episodes]
        text = repr((self.salt, n, columns[:-1], rewards))
        return 1 + zlib.crc32(text.encode()) % n


def driven(
    gains: Iterable[float], steps: int = 15, noise: float = 1e-2, seed: int = 3
) -> list[Episode]:
    """Return episodes of x' = 0.9·x + gain·u + noise with rewards −x²."""
    draw = np.random.default_rng(seed)
    episodes = []
    for gain in gains:
        obs, actions = draw.uniform(-1, 1, (2, steps, 1))
        after = 0.9 * obs + gain * actions + noise * draw.standard_normal((steps, 1))
        episodes.append(Episode(obs, actions, -(obs[:, 0] ** 2), after, False))
    return episodes


def load_module(path: Path) -> ModuleType:
    """Import a file that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def script(name: str) -> ModuleType:
    """Load a script of ``experiments``."""
    return load_module(Path(__file__).parents[1] / "experiments" / f"{name}.py")


def gain_of_kernel(kernel: np.ndarray, noise_std: float) -> float:
    """Return ½ log det(I + σ⁻²K) of a data set from its kernel matrix."""
    shifted = np.eye(len(kernel)) + kernel / noise_std**2
    return 0.5 * float(np.linalg.slogdet(shifted).logabsdet)

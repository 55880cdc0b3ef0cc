"""Made-up studies on disk: agents whose torque limit falls after episode 10."""

import base64
import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run, encode_record, load_runs
from driftrl.results.comparison import Comparison, compare_problems
from driftrl.results.regret import StudyRegret, compare_methods
from driftrl.types import EpisodeRecord

EPISODES = 30
RULES: dict[str, Callable[[int], int]] = {
    "sombrl": lambda n: 1,
    "r-ombrl": lambda n: max(1, 7 * ((n - 1) // 7)),
    "sw-ombrl": lambda n: max(1, n - 6),
}


def theta(n: int, rate: float = 1.0) -> float:
    return float(2.5 + 2.5 * np.exp(-rate * max(0, n - 10)))


def optimum(value: float) -> float:
    return -60.0 - 200.0 / value


def packed(page: str, identifier: str) -> bytes:
    """What lies compressed in an element of the page."""
    pattern = rf'<script type="application/gzip" id="{identifier}">([^<]*)</script>'
    (text,) = re.findall(pattern, page)
    return gzip.decompress(base64.b64decode(text))


@pytest.fixture(scope="session")
def page_bytes() -> Callable[[str, str], bytes]:
    return packed


@pytest.fixture(scope="session")
def page_data() -> Callable[[str], dict[str, Any]]:
    """What the page's own code reads first: its figures, and how to read records."""
    return lambda page: json.loads(packed(page, "page-data"))


@pytest.fixture(scope="session")
def table() -> OracleTable:
    thetas = sorted({theta(n) for n in range(1, EPISODES + 1)})
    entries = [OracleValue(value, optimum(value), error=0.8) for value in thetas]
    return OracleTable(tuple(entries), "dynamic programming on a 401 × 401 grid")


def oracle(runs: Sequence[Run]) -> OracleTable:
    thetas = sorted({record.theta for run in runs for record in run.records})
    entries = [OracleValue(value, optimum(value), error=0.8) for value in thetas]
    return OracleTable(tuple(entries), f"{len(entries)} values")


@dataclass(frozen=True)
class Setting:
    """What a made-up run can differ in, beside its method and seed."""

    variant: str = ""
    rate: float = 1.0
    soft_reset: float | None = None
    """Share of skill lost at a soft reset; None for an agent that has none."""


PLAIN = Setting()


def simulate(
    directory: Path,
    method: str,
    seed: int,
    episodes: int = EPISODES,
    setting: Setting = PLAIN,
) -> Path:
    variant = f"-{setting.variant}" if setting.variant else ""
    path = directory / f"pendulum-{method}{variant}-s{seed}"
    path.mkdir(parents=True)
    (path / "config.toml").write_text(
        f'task = "pendulum"\nmethod = "{method}"\nseed = {seed}\n'
        f'episodes = {EPISODES}\nversion = "0.1.0"\nvariant = "{setting.variant}"\n\n'
        f'[drift]\nkind = "exponential"\nrate = {setting.rate}\n\n'
        f'[forgetting]\nkind = "{method}"\n\n'
        "[model]\nnoise_std = 0.01\n"
    )
    generator = np.random.default_rng([seed, list(RULES).index(method)])
    rows = [
        row(n, RULES[method](n), generator, setting) for n in range(1, episodes + 1)
    ]
    text = "".join(encode_record(record) + "\n" for record in rows)
    (path / "episodes.jsonl").write_text(text)
    return path


def row(
    n: int, first: int, generator: np.random.Generator, setting: Setting
) -> EpisodeRecord:
    data, now = n - first, theta(n, setting.rate)
    stale = sum(abs(theta(i, setting.rate) - now) for i in range(first, n))
    error = 0.02 + 0.6 * np.exp(-data) + 0.25 * stale / max(1, data)
    shortfall = 8 + 900 * error * generator.uniform(0.4, 1.2)
    record = EpisodeRecord(
        episode=n,
        theta=now,
        steps=40,
        return_executed=float(optimum(now) - shortfall),
        return_eval=None,
        terminated=False,
        first_retained=first,
        transitions=40 * data,
        optimism=1.0,
        model_error=float(error * generator.uniform(0.7, 1.3)) if n > 1 else None,
        coverage=float(np.clip(0.97 - error, 0, 1)) if n > 1 else None,
        epistemic_std=0.1 if n > 1 else None,
        wall_s=1.5,
    )
    if setting.soft_reset is None:
        return record
    loss = 300 * setting.soft_reset * (n > 7) / (1 + (n - 1) % 7)
    return replace(
        record,
        return_eval=float(record.return_executed - loss),
        optimism=1.0 / n,
        temperature=0.5 + 0.5 / n,
        soft_reset=n > 7 and n % 7 == 1,
    )


@pytest.fixture(scope="session")
def study_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("study")
    for method in RULES:
        for seed in range(5):
            simulate(directory, method, seed)
    return directory


@pytest.fixture(scope="session")
def runs(study_directory: Path) -> list[Run]:
    return load_runs(study_directory)


@pytest.fixture(scope="session")
def study(runs: list[Run], table: OracleTable) -> StudyRegret:
    return compare_methods(runs, table)


@pytest.fixture
def unfinished(tmp_path: Path, table: OracleTable) -> StudyRegret:
    simulate(tmp_path, "sombrl", 0)
    simulate(tmp_path, "sombrl", 1, episodes=22)
    simulate(tmp_path, "sw-ombrl", 0, episodes=17)
    simulate(tmp_path, "sw-ombrl", 3, episodes=0)
    return compare_methods(load_runs(tmp_path), table)


@pytest.fixture
def single(tmp_path: Path, table: OracleTable) -> StudyRegret:
    directory = simulate(tmp_path, "r-ombrl", 4, episodes=1)
    return compare_methods(load_runs(directory), table)


@pytest.fixture(scope="session")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Three problems, named by variants: the limit falls at three rates."""
    directory = tmp_path_factory.mktemp("rates")
    for rate in (0.1, 0.025, 1.0):
        for method in RULES:
            for seed in range(2):
                setting = Setting(f"a={rate:g}", rate)
                simulate(directory, method, seed, setting=setting)
    return compare_problems(load_runs(directory), oracle)


@pytest.fixture(scope="session")
def ablation(tmp_path_factory: pytest.TempPathFactory) -> StudyRegret:
    """One method at several rates of soft resets, of model, policy and both."""
    directory = tmp_path_factory.mktemp("ablation")
    losses = {"alpha": 1.0, "model": 0.25, "policy": 0.8}
    for name, loss in losses.items():
        for value in (0.0, 0.2, 1.0)[name != "alpha" :]:
            setting = Setting(f"{name}={value:g}", soft_reset=loss * value)
            for seed in range(3):
                simulate(directory, "r-ombrl", seed, setting=setting)
    runs = load_runs(directory)
    return compare_methods(runs, oracle(runs))

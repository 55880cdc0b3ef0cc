"""Runs of the deep agent: recorded, repeated and resumed exactly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import load_episode
from driftrl.memory.forgetting import Evidence
from driftrl.training import loop
from factories import Stop, compilations, ignore, rows_of, stop_after


def run(config: RunConfig, directory: Path, *, resume: bool = False) -> list[dict]:
    loop.run(config, directory, resume=resume, on_episode=ignore, warn=ignore)
    return rows_of(directory)


def newest_arrays(directory: Path) -> dict[str, np.ndarray]:
    path = sorted((directory / "checkpoint").iterdir())[-1]
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


RULES = {
    "window": {"kind": "window", "window": 2},
    "reset": {"kind": "reset", "period": 2},
    "all": {"kind": "keep_all"},
}


@pytest.fixture(
    params=[
        pytest.param(f"{when} {rule}", marks=marks)
        for when, rule, marks in (
            ("episode", "window", ()),
            ("episode", "reset", pytest.mark.slow),
            ("step", "all", ()),
        )
    ]
)
def config(request: Any, tiny_deep: RunConfig) -> Iterator[RunConfig]:
    when, rule = request.param.split()
    settings = {"agent": {"learning": {"when": when}}, "forgetting": RULES[rule]}
    yield overridden(tiny_deep, settings)


def test_resumed_equals_uninterrupted_in_all_it_learned(
    config: RunConfig, tmp_path: Path
) -> None:
    whole = run(config, tmp_path / "a")
    for last in (2, 3):
        with pytest.raises(Stop):
            loop.run(
                config,
                tmp_path / "b",
                resume=last > 2,
                on_episode=stop_after(last),
                warn=ignore,
            )
    # What is forgotten is not read again: nobody misses its files.
    first = config.forgetting.first_retained(4, Evidence((10, 10, 10)))
    for number in range(1, first):
        (tmp_path / "b" / "memory" / f"{number:06d}.npz").unlink()
    assert run(config, tmp_path / "b", resume=True) == whole
    first, second = newest_arrays(tmp_path / "a"), newest_arrays(tmp_path / "b")
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    # Networks, optimisers, temperature, λ and normalisation are all in it.
    for part in (
        "model.members.layers.0.weight",
        "model.statistics.input_mean",
        "policy.target_critics.layers.0.weight",
        "policy.log_temperature",
        "weight.log_weight",
        "average_actor.layers.0.weight",
    ):
        assert part in first, part
    assert any(name.startswith("policy.actor_optimiser") for name in first)


def test_rows_say_how_it_learned(tiny_deep: RunConfig, tmp_path: Path) -> None:
    rows = run(tiny_deep, tmp_path)
    assert rows[0]["temperature"] is None and rows[0]["model_error"] is None
    for row in rows[1:]:
        assert row["temperature"] > 0 and row["model_loss"] > 0
        assert row["model_error"] > 0 and 0 <= row["coverage"] <= 1
        assert row["return_eval"] is not None
    # A window of two comes round before episodes 3 and 5.
    assert [row["soft_reset"] for row in rows] == [False, False, True, False, True]
    for row in rows:
        stored = load_episode(tmp_path / "memory", row["episode"])
        # Stored in the precision of the networks, summed before.
        assert stored.rewards.dtype == np.float32
        total = stored.rewards.sum(dtype=np.float64)
        assert row["return_executed"] == pytest.approx(total, rel=1e-6)
        assert row["return_executed"] != total


@pytest.mark.parametrize("when", ["episode", "step"])
def test_nothing_compiles_after_the_first_episode(
    tiny_deep: RunConfig, tmp_path: Path, when: str
) -> None:
    settings = {"agent": {"learning": {"when": when}}, "forgetting": RULES["all"]}
    config = overridden(tiny_deep, settings)
    with compilations() as (compiled, count):
        loop.run(config, tmp_path, on_episode=count, warn=ignore)
    assert all(episodes == 0 for episodes in compiled)


@pytest.mark.parametrize(
    "method", [pytest.param("pets", marks=pytest.mark.slow), "sac", "r-ombrl"]
)
def test_every_method_runs(
    method: str, tiny_deep_settings: dict[str, Any], tmp_path: Path
) -> None:
    del tiny_deep_settings["forgetting"]  # a method has a rule of its own
    config = configure("pendulum-decay", method, {**tiny_deep_settings, "episodes": 2})
    rows = run(config, tmp_path)
    assert len(rows) == 2
    assert rows[-1]["temperature"] is not None
    greedy = method in ("mean", "pets", "sac")
    assert (rows[-1]["optimism"] == 0.0) == greedy

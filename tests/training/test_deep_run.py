"""Runs of the deep agent: recorded, repeated and resumed exactly."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import load_episode
from driftrl.memory.forgetting import Evidence
from driftrl.training import assembly, loop
from driftrl.training.checkpoint import (
    flatten,
    unflatten,
)
from driftrl.types import EpisodeRecord


def ignore(_: object) -> None:
    pass


def run(config: RunConfig, directory: Path, *, resume: bool = False) -> list[dict]:
    loop.run(config, directory, resume=resume, on_episode=ignore, warn=ignore)
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    return [{**json.loads(line), "wall_s": 0.0} for line in lines]


class Stop(Exception):
    pass


def stopped(config: RunConfig, directory: Path, after: int, resume: bool) -> None:
    def stop(record: EpisodeRecord) -> None:
        if record.episode == after:
            raise Stop

    with pytest.raises(Stop):
        loop.run(config, directory, resume=resume, on_episode=stop, warn=ignore)


def newest_arrays(directory: Path) -> dict[str, np.ndarray]:
    path = sorted((directory / "checkpoint").iterdir())[-1]
    with np.load(path / "state.npz") as archive:
        return {name: archive[name] for name in archive.files}


RULES = {
    "window": {"kind": "window", "window": 2},
    "reset": {"kind": "reset", "period": 2},
    "all": {"kind": "keep_all"},
}


# Each compiles anew; the crossings that are left are among the slow tests.
QUICK = {"episode window", "step reset", "step all"}


@pytest.fixture(
    params=[
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for when in ("episode", "step")
        for rule in RULES
        for name in [f"{when} {rule}"]
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
    stopped(config, tmp_path / "b", after=2, resume=False)
    stopped(config, tmp_path / "b", after=3, resume=True)
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


def test_evaluation_is_without_noise(tiny_deep: RunConfig, tmp_path: Path) -> None:
    """Nothing is random then, so that three rollouts are one."""
    quiet = overridden(tiny_deep, {"environment": {"noise_std": 0.0}})
    counts = (1, 3)
    one, three = (
        run(overridden(quiet, {"evaluation": {"episodes": n}}), tmp_path / str(n))
        for n in counts
    )
    for first, second in zip(one[1:], three[1:], strict=True):
        assert first["return_eval"] == pytest.approx(second["return_eval"], rel=1e-12)
        assert first["return_eval"] != first["return_executed"]


@pytest.mark.parametrize("when", ["episode", "step"])
def test_nothing_compiles_after_the_first_episode(
    tiny_deep: RunConfig, tmp_path: Path, when: str
) -> None:
    config = overridden(tiny_deep, {"agent": {"learning": {"when": when}}})
    compiled: list[tuple[int, str]] = []
    episode = 0

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if "compile" in event:
            compiled.append((episode, event))

    def count(record: EpisodeRecord) -> None:
        nonlocal episode
        episode = record.episode

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        loop.run(config, tmp_path, on_episode=count, warn=ignore)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert [found for found in compiled if found[0] >= 1] == []


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("mean", marks=pytest.mark.slow),
        pytest.param("pets", marks=pytest.mark.slow),
        "sac",
        "sombrl",
        "r-ombrl",
    ],
)
def test_every_method_runs(
    method: str, tiny_deep_settings: dict[str, Any], tmp_path: Path
) -> None:
    del tiny_deep_settings["forgetting"]  # a method has a rule of its own
    config = configure("pendulum-decay", method, {**tiny_deep_settings, "episodes": 3})
    rows = run(config, tmp_path)
    assert len(rows) == 3
    assert rows[-1]["temperature"] is not None
    greedy = method in ("mean", "pets", "sac")
    assert (rows[-1]["optimism"] == 0.0) == greedy


# ---- checkpoints of networks ---------------------------------------------------------


def test_a_state_goes_through_arrays_unchanged(tiny_deep: RunConfig) -> None:
    agent = assembly.make_agent(tiny_deep)
    state = agent.initial_state(key=jax.random.key(3))
    template = agent.initial_state(key=jax.random.key(4))
    again = unflatten(template, flatten(state))
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(old, new)
        assert old.dtype == new.dtype

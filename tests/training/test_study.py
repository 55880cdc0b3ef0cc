"""Studies: what they expand to, and a runner that loses nothing."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden, to_dict, toml_text
from driftrl.engines.launcher import Status, episodes_done, run_all
from driftrl.engines.local import LocalEngine
from driftrl.errors import InputError
from driftrl.memory.forgetting import Window
from driftrl.training.study import (
    Study,
    find_study,
    read_study,
    shipped_studies,
)

BASE: dict[str, Any] = {
    "name": "s",
    "title": "t",
    "summary": "u",
    "task": "pendulum",
    "methods": ["sombrl", "sw-ombrl"],
    "seeds": [0, 1],
}


def write(path: Path, **changes: Any) -> Path:
    path.write_text(toml_text({**BASE, **changes}))
    return path


def test_methods_times_seeds(tmp_path: Path) -> None:
    study = read_study(write(tmp_path / "s.toml", settings={"episodes": 7}))
    assert [run.name for run in study.runs()] == [
        "pendulum-sombrl-s0",
        "pendulum-sw-ombrl-s0",
        "pendulum-sombrl-s1",
        "pendulum-sw-ombrl-s1",
    ]
    assert {run.episodes for run in study.runs()} == {7}


def test_variants_lie_over_settings(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    write(path, settings={"episodes": 7}, seeds=[3])
    with open(path, "a") as file:
        file.write(
            '[[variants]]\nname = "w=2"\nmethods = ["sw-ombrl"]\n'
            "settings = { forgetting = { window = 2 }, episodes = 9 }\n"
        )
    (run,) = read_study(path).runs()
    assert run.name == "pendulum-sw-ombrl-w=2-s3"
    assert (run.forgetting.window, run.episodes) == (2, 9)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seeds": []}, "needs seeds"),
        ({"seeds": [1, 1]}, "repeat"),
        ({"methods": ["sombr"]}, "method 'sombr'. Did you mean 'sombrl'"),
        ({"methods": ["sombrl", "sombrl"]}, "same name"),
        ({"task": "pendul"}, "Unknown task 'pendul'"),
        ({"sedes": [1]}, "key 'sedes'. Did you mean 'seeds'"),
        ({"settings": {"drift": {"theta_min": 9}}}, "theta_min must be at most"),
        (
            {"settings": {"forgetting": {"window": 2}}},
            "Runs of method 'sombrl': Unknown configuration key 'forgetting.window'. "
            "There is none",
        ),
        ({"variants": [{"name": "w", "methods": []}]}, "variant 'w' has an empty list"),
    ],
)
def test_refusals_name_the_file(tmp_path: Path, changes: dict, sentence: str) -> None:
    path = write(tmp_path / "wrong.toml", **changes)
    with pytest.raises(InputError, match=f"wrong.toml: .*{sentence}"):
        read_study(path)


def test_shipped_studies_are_found_by_name_and_are_valid() -> None:
    assert "gp_pendulum" in shipped_studies()
    for name, path in shipped_studies().items():
        assert find_study(name) == path
        assert isinstance(read_study(path), Study) and read_study(path).name == name
    with pytest.raises(InputError, match="'gp_pendulm'. Did you mean 'gp_pendulum'"):
        find_study("gp_pendulm")
    with pytest.raises(InputError, match="no study file 'none.toml'"):
        find_study("none.toml")


def test_the_figures_study_is_what_the_paper_describes() -> None:
    runs = read_study(find_study("gp_pendulum")).runs()
    assert len({run.seed for run in runs}) == 5
    assert {run.method for run in runs} == {"sombrl", "r-ombrl", "sw-ombrl"}
    for run in runs:
        thetas = [run.drift(n) for n in range(1, run.episodes + 1)]
        assert thetas[:10] == [thetas[0]] * 10 and thetas[10] < thetas[9]
        assert thetas[-1] == pytest.approx(thetas[0] / 2, rel=1e-6)


@pytest.fixture
def two(tiny: RunConfig) -> list[RunConfig]:
    short = overridden(tiny, {"episodes": 2})
    return [short, overridden(short, {"seed": 1})]


def test_runner_finishes_what_is_missing_and_repeats_nothing(
    two: list[RunConfig], tmp_path: Path
) -> None:
    seen: list[Status] = []
    assert run_all(two, tmp_path, LocalEngine(2), on_status=seen.append) == ()
    assert seen[-1].episodes_done == seen[-1].episodes_total == 4
    assert seen[-1].runs_done == 2
    stamp = {run.name: _stamp(tmp_path / run.name) for run in two}
    assert all(episodes_done(tmp_path / run.name) == 2 for run in two)
    longer = [two[0], overridden(two[1], {"seed": 2})]
    assert run_all(longer, tmp_path, LocalEngine(2), on_status=seen.append) == ()
    assert stamp[two[0].name] == _stamp(tmp_path / two[0].name)


def test_a_failed_run_is_reported_and_the_rest_goes_on(
    two: list[RunConfig], tmp_path: Path
) -> None:
    directory = tmp_path / two[0].name
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text('task = "other"\nmethod = "sombrl"\n')
    (failure,) = run_all(two, tmp_path, LocalEngine(1), on_status=lambda _: None)
    assert failure.name == two[0].name and failure.status == 2
    assert "holds a different run" in failure.reason and failure.log.exists()
    assert episodes_done(tmp_path / two[1].name) == 2


@pytest.mark.kill
def test_a_killed_run_is_reported_and_finished_the_next_time(
    two: list[RunConfig], tmp_path: Path
) -> None:
    killed = False

    def kill_one(status: Status) -> None:
        nonlocal killed
        if not killed and status.running:
            killed = True
            os.kill(_worker_of(tmp_path / status.running[0]), signal.SIGKILL)

    (failure,) = run_all(two, tmp_path, LocalEngine(2), on_status=kill_one)
    assert failure.status == -signal.SIGKILL and "signal 9" in failure.reason
    assert run_all(two, tmp_path, LocalEngine(2), on_status=lambda _: None) == ()
    assert all(episodes_done(tmp_path / run.name) == 2 for run in two)


def _stamp(directory: Path) -> int:
    return (directory / "episodes.jsonl").stat().st_mtime_ns


def _worker_of(directory: Path) -> int:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(str(directory)) in words:
            return int(process.name)
    raise AssertionError(f"no process runs {directory}")


def test_a_preset_lies_between_settings_and_variants(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        """name = "s"
title = "t"
summary = "u"
task = "pendulum"
methods = ["sw-ombrl"]
seeds = [0]
preset = "small"
settings = { episodes = 3, forgetting = { window = 1 } }
presets = { small = { episodes = 5 }, large = { episodes = 9, seed = 7 } }
variants = [{ name = "v", settings = { forgetting = { window = 4 } } }]
"""
    )
    small, large = (read_study(path, preset).runs()[0] for preset in (None, "large"))
    assert small.episodes == 5 and large.episodes == 9
    assert small.forgetting.window == large.forgetting.window == 4  # pyright: ignore[reportAttributeAccessIssue]
    assert large.seed == 0  # a run's own seed comes last
    with pytest.raises(InputError, match=r"preset 'smal'. Did you mean 'small'"):
        read_study(path, "smal")


def test_a_variant_may_have_its_own_task_and_meaning_of_a_preset(
    tmp_path: Path,
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        """name = "s"
title = "t"
summary = "u"
task = "hopper"
methods = ["sw-ombrl"]
seeds = [0]
preset = "small"
presets = { small = { episodes = 5 }, large = { } }
[[variants]]
name = "one"
settings = { episodes = 7 }
[[variants]]
name = "other"
task = "ant"
settings = { episodes = 7 }
presets.small = { episodes = 4, drift = { start = 2 }, forget_after = 3 }
"""
    )
    hopper, ant = read_study(path).runs()
    assert (hopper.name, hopper.episodes) == ("hopper-sw-ombrl-one-s0", 7)
    assert (ant.name, ant.episodes) == ("ant-sw-ombrl-other-s0", 4)
    assert ant.drift.start == 2  # pyright: ignore[reportAttributeAccessIssue]
    assert (ant.forgetting, hopper.forgetting) == (Window(3), Window(200))
    _, large = read_study(path, "large").runs()
    assert large.episodes == 7 and large.drift.start == 400  # pyright: ignore[reportAttributeAccessIssue]
    path.write_text(path.read_text().replace("presets.small =", "presets.smal ="))
    with pytest.raises(InputError, match=r"preset of a variant 'smal'"):
        read_study(path)


def test_a_study_without_presets_knows_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Unknown preset 'paper'"):
        read_study(find_study("gp_pendulum"), "paper")


@pytest.mark.parametrize("name", ["pendulum_decay_rates", "soft_reset_ablation"])
def test_presets_differ_in_size_alone(name: str) -> None:
    laptop, paper = (
        read_study(find_study(name), p).runs() for p in ("laptop", "paper")
    )
    assert [run.name for run in laptop] == [run.name for run in paper]
    for small, large in zip(laptop, paper, strict=True):
        first, second = to_dict(small), to_dict(large)
        for table in ("model", "sac", "learning"):
            del first["agent"][table], second["agent"][table]
        assert first == second
        assert large.agent.learning.model_updates == 5  # pyright: ignore[reportAttributeAccessIssue]

"""Studies: what they expand to, and that killed runs are finished."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden, to_dict, toml_text
from driftrl.engines.launcher import episodes_done, run_all
from driftrl.engines.local import LocalEngine
from driftrl.errors import InputError
from driftrl.memory.forgetting import Window
from driftrl.training.study import find_study, read_study, shipped_studies
from factories import Chaotic, worker_of

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


def test_variants_override_settings_and_may_have_a_users_rule(tmp_path: Path) -> None:
    window = {"forgetting": {"window": 2}, "episodes": 9}
    rule = {"forgetting": {"kind": "factories:Chaotic", "salt": 5}}
    variants = [
        {"name": "w-2", "methods": ["sw-ombrl"], "settings": window},
        {"name": "chaotic", "methods": ["sombrl"], "settings": rule},
    ]
    changes = {"settings": {"episodes": 7}, "seeds": [3], "variants": variants}
    first, second = read_study(write(tmp_path / "s.toml", **changes)).runs()
    assert first.name == "pendulum-sw-ombrl-w-2-s3"
    assert (first.forgetting, first.episodes) == (Window(2), 9)
    assert second.name == "pendulum-sombrl-chaotic-s3"
    assert (second.forgetting, second.episodes) == (Chaotic(5), 7)
    assert to_dict(second)["forgetting"] == rule["forgetting"]


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "1, 1"),
        ({"methods": ["sombr"]}, "'sombrl'"),
        ({"methods": ["sombrl", "sombrl"]}, "pendulum-sombrl-s0"),
        ({"task": "pendul"}, "'pendul'"),
        ({"sedes": [1]}, "'seeds'"),
        ({"settings": {"drift": {"theta_min": 9}}}, "theta_min"),
        ({"settings": {"forgetting": {"window": 2}}}, "'sombrl'.*forgetting.window"),
        ({"settings": {"forgetting": {"kind": "nowhere:Rule"}}}, "nowhere"),
        ({"variants": [{"name": "w", "methods": []}]}, "'w'"),
        ({"variants": [{"name": "v", "presets": {"smal": {}}}]}, "'smal'"),
        ({"preset": "paper"}, "'paper'"),
        ({"engine": {"patience_minutes": 0}}, "patience_minutes"),
        ({"engine": {"slurm": {"particion": "x"}}}, "engine.slurm.partition"),
        *(
            ({"name": name}, "name")
            for name in ("", ".", "..", "../s", "/s", "a/b", "a\0", ".s", "s" * 101)
        ),
    ],
)
def test_refusals_name_the_file(tmp_path: Path, changes: dict, value: str) -> None:
    path = write(tmp_path / "wrong.toml", **changes)
    with pytest.raises(InputError, match=f"wrong.toml.*{value}"):
        read_study(path)


def test_shipped_studies_are_found_by_name_and_are_valid() -> None:
    assert "gp_pendulum" in shipped_studies()
    for name, path in shipped_studies().items():
        assert find_study(name) == path
        assert read_study(path).name == name
    for wrong in ("gp_pendulm", "none.toml"):
        with pytest.raises(InputError, match=wrong):
            find_study(wrong)


def test_the_figures_study_is_what_the_paper_describes() -> None:
    runs = read_study(find_study("gp_pendulum")).runs()
    assert len({run.seed for run in runs}) == 5
    methods = {"sombrl", "r-ombrl", "sw-ombrl", "adaptive"}
    assert {run.method for run in runs} == methods
    for run in runs:
        thetas = [run.drift(n) for n in range(1, run.episodes + 1)]
        assert thetas[:10] == [thetas[0]] * 10 and thetas[10] < thetas[9]
        assert thetas[-1] == pytest.approx(thetas[0] / 2, rel=1e-6)


def test_presets_come_between_settings_and_variants(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.toml",
        task="hopper",
        methods=["sw-ombrl"],
        seeds=[0],
        preset="small",
        settings={"episodes": 3, "forgetting": {"window": 1}},
        presets={"small": {"episodes": 5}, "large": {"seed": 7}},
        variants=[
            {"name": "one", "settings": {"forgetting": {"window": 4}}},
            {
                "name": "other",
                "task": "ant",
                "settings": {"episodes": 7},
                "presets": {"small": {"episodes": 4, "drift": {"start": 2}}},
            },
        ],
    )
    hopper, ant = read_study(path).runs()
    assert (hopper.name, hopper.episodes) == ("hopper-sw-ombrl-one-s0", 5)
    assert (ant.name, ant.episodes) == ("ant-sw-ombrl-other-s0", 4)
    assert (hopper.forgetting, ant.forgetting) == (Window(4), Window(1))
    assert to_dict(ant)["drift"]["start"] == 2
    hopper, ant = read_study(path, "large").runs()
    assert (hopper.episodes, ant.episodes) == (3, 7)
    assert hopper.seed == 0  # the seeds of the study come last
    with pytest.raises(InputError, match="'small'"):
        read_study(path, "smal")


@pytest.mark.kill
def test_a_killed_run_is_reported_and_finished_the_next_time(
    tiny: RunConfig, tmp_path: Path
) -> None:
    short = overridden(tiny, {"episodes": 2})
    runs = [short, overridden(short, {"seed": 1})]
    killed = False

    def kill_one(failures: object) -> None:
        nonlocal killed
        process = worker_of(tmp_path / short.name)
        if not killed and process is not None:
            killed = True
            os.kill(process, signal.SIGKILL)

    failures = run_all(runs, tmp_path, LocalEngine(2), on_poll=kill_one)
    assert failures.keys() == {short.name} and "signal 9" in failures[short.name]
    for _ in range(2):
        assert run_all(runs, tmp_path, LocalEngine(2)) == {}
        assert all(episodes_done(tmp_path / run.name) == 2 for run in runs)


def test_a_preset_may_have_seeds_and_methods_of_its_own(tmp_path: Path) -> None:
    presets = {
        "small": {"seeds": [7], "methods": ["adaptive"], "episodes": 4},
        "large": {"episodes": 9},
    }
    path = write(tmp_path / "s.toml", presets=presets, preset="large")
    runs = read_study(path).runs()
    assert ([run.seed for run in runs], runs[0].episodes) == ([0, 0, 1, 1], 9)
    (run,) = read_study(path, "small").runs()
    assert (run.method, run.seed, run.episodes) == ("adaptive", 7, 4)
    presets["small"]["seeds"] = [7, 7]
    with pytest.raises(InputError, match="7, 7"):
        read_study(write(path, presets=presets, preset="small"))


def test_a_preset_may_be_like_another_studys(tmp_path: Path) -> None:
    first = {"episodes": 4, "drift": {"rate": 0.5, "start": 2}, "seeds": [3]}
    path = write(tmp_path / "a.toml", presets={"small": first}, preset="small")
    like = {"like": str(path), "drift": {"start": 1}}
    other = write(tmp_path / "b.toml", presets={"small": like}, preset="small")
    study = read_study(other)
    assert study.seeds == (3,)
    assert study.presets["small"] == {"episodes": 4, "drift": {"rate": 0.5, "start": 1}}
    with pytest.raises(InputError, match="'tiny'"):
        read_study(write(other, presets={"tiny": like}, preset="tiny"))


def test_machines_that_fall_end_and_forget_by_transitions() -> None:
    """Those of hopper, ant and walker hold 20 whole episodes, however long theirs are.

    The cheetah, which can't fall, is as it was published.
    """
    studies = [
        read_study(find_study(name), "laptop")
        for name in ("mujoco_decay_rates", "mujoco_environments")
    ]
    assert {(study.seeds, len(study.methods)) for study in studies} == {
        ((0, 1, 2, 3, 4), 4)
    }
    few = [replace(study, methods=("sw-ombrl",), seeds=(4,)) for study in studies]
    runs = {run.name: run for study in few for run in study.runs()}
    cheetah = runs["halfcheetah-sw-ombrl-a=0.005-s4"]
    assert cheetah.forgetting == Window(20)
    for name in ("hopper-sw-ombrl-a=0.007", "ant-sw-ombrl", "walker2d-sw-ombrl"):
        run = runs[f"{name}-s4"]
        steps = 20 * cheetah.environment.steps
        assert run.forgetting == Window(steps, unit="transitions")
        agent: Any = run.agent
        assert run.environment.terminates and agent.sac.discount == 0.99
        assert agent.imagination.termination == "known" and agent.imagination.collected
        assert agent.imagination.noise == (run.task != "hopper")
        assert agent.model == cheetah.agent.model  # pyright: ignore[reportAttributeAccessIssue]
        constant = [run.drift(n) for n in range(1, run.episodes + 1)]
        assert constant[0] == 1.0 > constant[-1]

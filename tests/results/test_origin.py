"""Where runs come from: names, commands and versions, from what lies beside them."""

from pathlib import Path
from typing import Any

import pytest

from driftrl.errors import CorruptFile, InputError
from driftrl.records import Run
from driftrl.results.origin import (
    Source,
    chosen_preset,
    read_source,
    read_sources,
    run_command,
    study_command,
    versions_of,
)

STUDY = """
name = "two_rates"
title = "Two rates"
summary = "What one sees."
preset = "laptop"
[presets.laptop]
episodes = 20
forget_after = 5
agent = { hidden = [64, 64] }
drift = { rate = 1.0 }
[presets.paper]
[[variants]]
name = "fast"
presets.laptop = { drift = { rate = 2.0 } }
"""


def make_run(directory: str = "runs/s0", **config: Any) -> Run:
    base = {"task": "pendulum", "method": "sombrl", "seed": 0, "episodes": 20}
    return Run(Path(directory), {**base, **config}, ())


def test_a_study_speaks_for_itself(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    source = read_source(tmp_path)
    assert (source.title, source.description) == ("Two rates", "What one sees.")
    assert source.text == STUDY
    assert source.name == tmp_path.name


def test_a_directory_without_a_study_has_its_name(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    assert read_source(place) == Source("mine", place, "mine")


def test_a_damaged_study_is_named(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("title = ")
    with pytest.raises(CorruptFile, match=r"study\.toml is not valid TOML: "):
        read_source(tmp_path)


def test_studies_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    places = [tmp_path / one for one in ("a/x/study", "b/x/study", "b/other")]
    for place in places:
        place.mkdir(parents=True)
    names = [source.name for source in read_sources(places)]
    assert names == ["a/x/study", "b/x/study", "other"]


def test_a_directory_is_named_once(tmp_path: Path) -> None:
    twice = [tmp_path, tmp_path / "below" / ".."]
    (tmp_path / "below").mkdir()
    with pytest.raises(InputError, match="is named twice. Name each directory once."):
        read_sources(twice)


@pytest.mark.parametrize(
    ("config", "preset"),
    [
        ({"agent": {"hidden": [64, 64]}, "drift": {"rate": 2.0}}, "laptop"),
        ({"agent": {"hidden": [256, 256]}}, "paper"),
        ({"agent": {"hidden": [64, 64]}, "episodes": 500}, "paper"),
    ],
)
def test_the_preset_is_the_one_that_no_run_contradicts(
    config: dict[str, Any], preset: str
) -> None:
    table = read_table()
    assert chosen_preset(table, [make_run(**config)]) == preset
    source = Source("study", Path("runs/my study"), "", "", STUDY)
    command = study_command(source, [make_run(**config)])
    asked = " --preset paper" if preset == "paper" else ""
    assert command == f"driftrl study study.toml{asked} --out 'runs/my study'"


def read_table() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(STUDY)


def test_a_study_without_presets_needs_none() -> None:
    assert chosen_preset({}, [make_run()]) == ""


def test_a_run_is_made_again_from_its_file() -> None:
    assert run_command(make_run("runs/study/pendulum-sombrl-s0")) == (
        "driftrl run pendulum --method sombrl --config pendulum-sombrl-s0/config.toml "
        "--out runs/pendulum-sombrl-s0-again"
    )


def test_versions_are_counted() -> None:
    runs = [
        make_run(versions={"driftrl": "0.1.0", "numpy": "2.1"}),
        make_run(versions={"driftrl": "0.2.0", "numpy": "2.1"}),
        make_run(versions={"driftrl": "0.2.0", "numpy": "2.1"}),
        make_run(),
    ]
    assert versions_of(runs) == {
        "driftrl": {"0.1.0": 1, "0.2.0": 2, "not said": 1},
        "numpy": {"2.1": 3, "not said": 1},
    }


def test_runs_belong_to_the_directory_they_lie_in() -> None:
    mine, other = make_run("a/s0"), make_run("b/s0")
    assert Source("a", Path("a"), "").runs_among([mine, other]) == [mine]
    assert Source("s0", Path("b/s0"), "").runs_among([mine, other]) == [other]

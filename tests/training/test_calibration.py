"""The calibration experiment: known functions, the project's GP, resumable draws."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import driftrl.cli.report
from driftrl.cli.study import main as study_command
from driftrl.config.toml import to_dict, toml_text
from driftrl.errors import InputError
from driftrl.results.calibration import coverage_table, read_calibration
from driftrl.training import calibration_runner
from driftrl.training.calibration_draw import (
    ask_compiled,
    believe,
    bounds_at,
    example_draw,
    judge,
    make_draw,
    maximum_gain,
    retained,
)
from driftrl.training.calibration_runner import run_calibration
from driftrl.training.calibration_study import (
    CalibrationSettings,
    CalibrationStudy,
    is_calibration_study,
    read_calibration_study,
)

SMALL = CalibrationSettings(
    centres=10, episodes=6, steps=8, reset_period=2, window=2, test_points=7
)
STUDY = CalibrationStudy("small", "Small", "A small one.", draws=3, draw=SMALL)


@pytest.mark.parametrize("outputs", [1, 2])
def test_beliefs_are_those_of_the_compiled_model(outputs: int) -> None:
    settings = dataclasses.replace(SMALL, outputs=outputs, variation=1.0)
    made, points = make_draw(settings, 0, 0, True), settings.grid(7)
    for first, n in ((1, 1), (3, 6)):
        data = retained(made, first, n)
        belief = believe(settings, *data, points)
        mean, std = ask_compiled(settings, *data, points)
        np.testing.assert_allclose(belief.mean, mean, atol=1e-9)
        np.testing.assert_allclose(belief.std, std, atol=1e-7)
        assert len(data[0]) == 8 * (n - first)


def test_draws_are_what_they_say() -> None:
    drifting, still = (make_draw(SMALL, 3, 1, drift) for drift in (True, False))
    np.testing.assert_array_equal(drifting.inputs, still.inputs)
    np.testing.assert_array_equal(drifting.targets[0], still.targets[0])
    assert drifting.functions.increments().sum() == pytest.approx(SMALL.variation)
    assert still.functions.increments().sum() == 0.0
    residual = drifting.targets[4] - drifting.functions.at(5)(drifting.inputs[4])
    assert 0.05 < residual.std() < 0.2
    other = make_draw(SMALL, 3, 2, True)
    assert not np.array_equal(other.inputs, drifting.inputs)


def test_maximum_gain_exceeds_that_of_the_data() -> None:
    gains = maximum_gain(SMALL)
    assert gains[0] == 0.0 and len(gains) == 49
    belief = believe(
        SMALL, *retained(make_draw(SMALL, 0, 0, True), 1, 6), SMALL.grid(3)
    )
    assert belief.gain < gains[40]


def test_bounds_are_ordered() -> None:
    made = make_draw(SMALL, 0, 0, True)
    belief = believe(SMALL, *retained(made, 4, 6), SMALL.grid(5))
    steps = made.functions.increments()[3:5]
    bounds = bounds_at(SMALL, belief, "window", 6, steps)
    assert np.all(bounds["stationary_corrected"] < bounds["drift_sharp"])
    assert np.all(bounds["drift_sharp"] < bounds["drift_corrected"])
    assert np.all(bounds["stationary_printed"] < bounds["drift_printed"])


def test_lemma_holds_with_its_drift_term_and_fails_without() -> None:
    verdicts = [
        one
        for draw in range(4)
        for drifting in (True, False)
        for one in judge(SMALL, 0, draw, drifting)
    ]
    rates = {(c.drifting, c.scheme, c.bound): c.rate for c in coverage_table(verdicts)}
    for scheme in ("keep_all", "reset", "window"):
        for bound in ("drift_printed", "drift_corrected", "drift_sharp"):
            assert rates[True, scheme, bound] == 1.0
        assert rates[False, scheme, "stationary_corrected"] == 1.0
        assert rates[True, scheme, "two_sigma"] == 0.0
    assert rates[True, "keep_all", "stationary_corrected"] <= 0.25
    failed = [one for one in verdicts if not one.covered]
    assert all(one.first_failure is not None and one.share < 1 for one in failed)
    still = {
        (one.draw, one.scheme, one.bound): one for one in verdicts if not one.drifting
    }
    for (draw, scheme, bound), one in still.items():
        if bound in ("drift_corrected", "drift_sharp"):
            plain = still[draw, scheme, "stationary_corrected"]
            assert one.half_width == pytest.approx(plain.half_width)


def test_the_example_shows_the_point() -> None:
    shown = example_draw(CalibrationSettings(), 0)
    truth = np.array(shown["truth"])
    keep, window = shown["keep_all"], shown["window"]
    outside = np.abs(truth - keep["mean"]) > keep["half_width"]
    assert outside.mean() > 0.2
    assert np.all(np.abs(truth - window["mean"]) <= window["half_width"])
    assert (keep["first"], window["first"], shown["episode"]) == (1, 6, 10)
    json.dumps(shown)


def test_a_study_is_resumed_and_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration_runner, "_AT_ONCE", 2)
    told: list[tuple[int, int]] = []

    def run(study: CalibrationStudy) -> None:
        run_calibration(
            study, tmp_path, workers=1, on_progress=lambda *x: told.append(x)
        )

    run(STUDY)
    assert told == [(0, 3), (2, 3), (3, 3)]
    files = sorted((tmp_path / "draws").iterdir())
    assert [file.name for file in files] == ["00000-00001.json", "00002-00002.json"]
    before = files[0].read_bytes()
    files[0].unlink()
    told.clear()
    run(STUDY)
    assert told == [(1, 3), (3, 3)] and files[0].read_bytes() == before
    told.clear()
    run(dataclasses.replace(STUDY, draws=4))
    assert told == [(2, 4), (4, 4)]
    verdicts = read_calibration(tmp_path).verdicts
    assert len(verdicts) == 4 * 2 * 3 * 6
    changed = dataclasses.replace(SMALL, window=3)
    with pytest.raises(InputError, match="other settings: window changed. Give anoth"):
        run(dataclasses.replace(STUDY, draw=changed))


@pytest.mark.slow
def test_processes_make_the_same_draws(tmp_path: Path) -> None:
    study = dataclasses.replace(STUDY, draws=7)
    for name, workers in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        run_calibration(
            study, tmp_path / name, workers=workers, on_progress=lambda *_: None
        )
    one, two = (read_calibration(tmp_path / name) for name in ("one", "two"))
    assert len(one.verdicts) == len(two.verdicts)
    for a, b in zip(one.verdicts, two.verdicts, strict=True):
        assert a.covered == b.covered and a.half_width == pytest.approx(b.half_width)


def write(path: Path, **changes: object) -> Path:
    path.write_text(toml_text({**to_dict(STUDY), **changes}))
    return path


def test_the_command_line_runs_it_and_draws_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, out = write(tmp_path / "s.toml", draws=1), tmp_path / "out"
    options = ["--out", str(out), "--workers", "1"]
    assert study_command([str(file), *options]) == 0
    said = capsys.readouterr().out
    assert "1 draws, 1 at once" in said and "drift_sharp" in said
    picture = out / "report" / "calibration.png"
    assert picture.is_file() and (out / "study.toml").is_file()
    drawn: list[Path] = []
    monkeypatch.setattr(driftrl.cli.report, "tell_calibration", drawn.append)
    assert driftrl.cli.report.main([str(out)]) == 0 and drawn == [out]
    with pytest.raises(InputError, match="without --preset"):
        study_command([str(file), *options, "--preset", "paper"])


def test_bad_study_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Unknown experiment 'coverage'. Known: cal"):
        is_calibration_study({"experiment": "coverage"})
    assert not is_calibration_study({"task": "pendulum"})
    path = write(tmp_path / "s.toml", draws=0)
    with pytest.raises(InputError, match="s.toml: draws must be a number of at least"):
        read_calibration_study(path)
    for changes, sentence in (
        ({"outputs": 3}, "draw.outputs = 3 must not exceed draw.dimension = 2"),
        ({"window": 0}, "draw.window must be a number of at least 1"),
        ({"steps": 0}, "draw.steps must be a number of at least 1"),
        ({"failure_probability": 1.0}, "strictly between 0 and 1"),
        ({"episodes": 1}, "N of at least 2 episodes, received 1"),
    ):
        path = write(tmp_path / "s.toml", draw={**to_dict(SMALL), **changes})
        with pytest.raises(InputError, match=sentence):
            read_calibration_study(path)

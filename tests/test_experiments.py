"""The scripts in ``experiments``, with small arguments and on published records."""

import json
import tarfile
from pathlib import Path

import numpy as np
import polars
import pytest
from tests.factories import record, script

from driftrl.config.toml import from_dict, to_dict, toml_text
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import save_episode
from driftrl.records import RecordWriter
from driftrl.training.study import Study
from driftrl.types import Episode

ROOT = Path(__file__).parents[1]


def test_calibration_of_published_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibration = script("calibration_under_drift")
    archive = ROOT / "docs" / "records" / "calibration_under_drift.tar.gz"
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    out = tmp_path / "calibration_under_drift"
    calibration.main(["--draws", "0", "--out", str(out)])
    assert (out / "calibration.png").is_file()
    table = {
        (row["drifting"], row["scheme"], row["bound"]): row
        for row in calibration.coverage_table(out)
    }
    kept = table[True, "keep_all", "stationary_corrected"]
    assert (kept["coverage"], round(kept["high"], 3)) == (0.0, 0.013)
    window = table[True, "window", "stationary_corrected"]
    rounded = [round(window[name], 3) for name in ("coverage", "low", "high")]
    assert rounded == [0.897, 0.857, 0.926]
    # The first draw comes out as it was published.
    stored = json.loads((out / "draws" / "00000-00004.json").read_text())
    again = calibration.evaluate_draw(calibration.Settings(), 0, True)
    for new, old in zip(again, stored, strict=False):
        assert {k: new[k] for k in ("draw", "scheme", "bound", "covered")} == {
            k: old[k] for k in ("draw", "scheme", "bound", "covered")
        }
        assert new["half_width"] == pytest.approx(old["half_width"], rel=1e-6)


def test_calibration_resumes(tmp_path: Path) -> None:
    calibration = script("calibration_under_drift")
    settings = calibration.Settings(episodes=3, steps=3, test_points=3)
    for draws in (1, 2):
        for number in range(draws):
            path = tmp_path / "draws" / f"{number:05d}-{number:05d}.json"
            path.parent.mkdir(exist_ok=True)
            if not path.is_file():
                calibration.evaluate_file(settings, path, [number])
    table = calibration.coverage_table(tmp_path)
    assert {row["draws"] for row in table} == {2} and len(table) == 36
    with pytest.raises(Exception, match="other settings"):
        (tmp_path / "settings.json").write_text("{}")
        calibration.run(settings, tmp_path, 0, 1)


def test_functions_have_their_norm_and_budget() -> None:
    calibration = script("calibration_under_drift")
    for shape in ("steady", "abrupt"):
        settings = calibration.Settings(shape=shape)
        draw = calibration.make_draw(settings, 3, True)
        assert draw.increments().sum() == pytest.approx(settings.variation)
        norms = np.array([draw.function(n).norms() for n in (1, settings.episodes)])
        np.testing.assert_allclose(norms.max(axis=0), settings.rkhs_bound)
        assert not calibration.make_draw(settings, 3, False).increments().any()


def write_run(directory: Path, method: str, variant: str, returns: np.ndarray) -> None:
    """Write a run of a linear system with its episodes."""
    settings = {"episodes": len(returns), "variant": variant}
    config = configure("pendulum", method, settings)
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(toml_text(to_dict(config)))
    draw = np.random.default_rng(0)
    with RecordWriter(directory / "episodes.jsonl") as writer:
        for number, value in enumerate(returns, start=1):
            theta = 2.0 if number < 4 else 0.5
            obs, actions = draw.uniform(-1, 1, (6, 3)), draw.uniform(-1, 1, (6, 1))
            after = 0.9 * obs + 0.1 * theta * actions
            episode = Episode(obs, actions, -np.abs(obs[:, 0]), after, False)
            save_episode(directory / "memory", number, episode)
            writer.append(record(number, theta=theta, return_executed=float(value)))


def zero(theta: float) -> float:
    """J* of the runs here."""
    return 0.0


ORACLE = "tests.test_experiments:zero"


def test_growth_exponent(tmp_path: Path) -> None:
    """R_N = 3·N² has the exponent 2, at any two lengths."""
    growth = script("regret_growth")
    for n in (2, 4, 8):
        total = 3.0 * np.arange(n + 1) ** 2
        write_run(tmp_path / f"{n}", "sw-ombrl", f"N={n}", -np.diff(total))
    write_run(tmp_path / "all", "sombrl", "", np.full(8, -5.0))
    out = tmp_path / "growth.png"
    growth.main([str(tmp_path), "--oracle", ORACLE, "--out", str(out)])
    assert out.is_file()
    import driftrl

    found = {
        one.method: one for one in growth.growth(driftrl.load(tmp_path, oracle=zero))
    }
    assert found["sw-ombrl"].exponents() == pytest.approx([2.0])
    assert found["sombrl"].exponents(2) == pytest.approx([1.0])
    np.testing.assert_allclose(found["sombrl"].regrets, [[10.0, 20.0, 40.0]])


def test_bound_beside_regret(tmp_path: Path) -> None:
    bound = script("bound_beside_regret")
    write_run(tmp_path / "a", "sombrl", "", np.full(5, -2.0))
    out = tmp_path / "bound.png"
    bound.main([str(tmp_path), "--oracle", ORACLE, "--out", str(out)])
    (column,) = bound.columns_of(tmp_path, ORACLE)
    np.testing.assert_array_equal(column.regret, np.full((1, 5), 2.0))
    assert np.all(np.diff(column.mean("drift")) >= 0) and out.is_file()


def test_regret_relative_to_the_best_fixed_choice(tmp_path: Path) -> None:
    """w=2 is the best fixed one with 12 + 8; adaptive has 6 + 10, so 0.5 and 1.25."""
    script_of = script("adaptive_forgetting")
    rows = [
        {"episode": 3, "method": name, "seed": seed, "cumulative_regret": value}
        for name, values in {
            "sombrl": (30.0, 40.0),
            "sw-ombrl w=2": (12.0, 8.0),
            "adaptive": (6.0, 10.0),
            **dict.fromkeys(("event", "doubling", "hindsight told"), (12.0, 8.0)),
        }.items()
        for seed, value in enumerate(values)
    ]
    frame = polars.DataFrame(rows)
    assert script_of.relative_regret(frame, 4) is None
    table = script_of.relative_regret(frame, 3)
    found = {row["method"]: row for row in table.iter_rows(named=True)}
    assert [name for name, row in found.items() if row["best"]] == ["sw-ombrl w=2"]
    assert found["adaptive"]["relative"] == pytest.approx((0.5 + 1.25) / 2)
    # t with one degree of freedom is 12.706, and the standard error 0.375.
    assert found["adaptive"]["high"] == pytest.approx(0.875 + 12.706 * 0.375, rel=1e-4)
    assert found["sombrl"]["relative"] == pytest.approx((2.5 + 5.0) / 2)
    cells = script_of.summary({"none": table})[2].split(" | ")
    assert cells[:3] == ["| none", "sw-ombrl w=2: 10", "0.88 (-3.89 to 5.64)"]
    assert cells[3] == "1.00 (1.00 to 1.00)" and cells[6].startswith("3.75")
    script_of.draw({"none": table}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_returns_are_paired_by_seed() -> None:
    """Adaptive is ahead of w=2 by 2 and 4 after the onset; before it nothing counts."""
    experiment = script("adaptive_forgetting")
    rows = [
        {"episode": episode, "method": name, "seed": seed, "return_eval": value}
        for name, values in {"w=2": (7.0, 1.0), "adaptive": (9.0, 5.0)}.items()
        for seed, value in enumerate(values)
        for episode in (experiment.ONSET, experiment.ONSET + 1)
    ]
    rows[0]["return_eval"] = 1000.0
    table = experiment.returns_after_onset(polars.DataFrame(rows))
    assert table["method"].to_list() == ["adaptive", "w=2"]
    assert table["return"].to_list() == [7.0, 4.0]
    # t with one degree of freedom is 12.706, and the standard error 1.
    assert table["adaptive ahead by"].to_list() == [0.0, 3.0]
    assert table["low"][1] == pytest.approx(3 - 12.706, rel=1e-4)


@pytest.mark.parametrize(
    ("task", "methods"), [("pendulum", 13), ("pendulum-decay", 11), ("halfcheetah", 5)]
)
def test_studies_of_adaptive_forgetting_are_complete(task: str, methods: int) -> None:
    experiment = script("adaptive_forgetting")
    for drift in experiment.drifts_of(task):
        runs = from_dict(Study, experiment.study_of(task, drift, [0])).runs()
        assert len(runs) == methods and len({run.drift for run in runs}) == 1
        moved = {runs[0].drift(n) for n in range(1, runs[0].episodes + 1)}
        assert (len(moved) == 1) == (drift == "none")


def test_ingredients_are_paired_by_seed() -> None:
    ingredients = script("learner_ingredients")
    rows = [
        ("preset", seed, value, 7.0)
        for seed, value in zip((100, 101, 102), (1.0, 5.0, 3.0), strict=True)
    ]
    # In another order, and one seed more than the preset has.
    rows += [("K=1", 103, 50.0, 5.0), ("K=1", 102, 2.0, 5.0)]
    rows += [("K=1", 101, 3.0, 5.0), ("K=1", 100, 1.0, 9.0)]
    columns = ["variant", "seed", "value", "seconds"]
    found = ingredients.differences(polars.DataFrame(rows, columns, orient="row"))
    changed = found.filter(polars.col("change") == "K=1").row(0, named=True)
    # Differences 0, −2, −1: mean −1, standard error 1/√3, t = 4.3027 at 2.
    assert changed["difference"] == pytest.approx(-1.0)
    assert changed["high"] == pytest.approx(-1.0 + 4.302653 / 3**0.5, rel=1e-6)
    assert (changed["mean"], changed["seconds"]) == (14.0, 6.0)


def test_gentle_start_compares_with_the_pd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gentle = script("gentle_start")
    motor = gentle.PLANTS["motor"]
    new, worn = (
        gentle.drive(motor, 0, day, lambda obs: gentle.motor_pd(obs)) for day in (1, 60)
    )
    assert (new.obs.shape, new.actions.shape) == ((51, 2), (50, 1))
    assert abs(new.obs[-1, 0]) < 0.05 < abs(worn.obs[-1, 0])  # friction holds it back
    changes = np.abs(np.diff(new.actions[:, 0], prepend=0.0)) / 12.0
    assert gentle.largest_change(motor, new) == pytest.approx(changes.max())
    monkeypatch.setattr(gentle, "best_pd", lambda *_: -1.0)
    rows = {"returns": [-9.0] * 20 + [-2.0] * 10, "violations": [1] * 30}
    rows |= {"steps": [50] * 30, "reach": [0.0] * 29 + [2.0], "seconds": 3.0}
    monkeypatch.setattr(gentle, "learn", lambda *_: rows)
    worst = min(gentle.returns_of(motor, 0, range(1, 31), gentle.motor_pd))
    text = gentle.summary("motor", 0, 30, ["guided"], tmp_path)
    assert f"{-2.0 / worst:5.2f} of the PD's, last ten    -2.00" in text
    assert "per 1,000 steps  20.0,  20.0 after the random ones, free 1" in text


def test_the_best_rate_of_the_process_is_reached_by_the_pump_that_holds_its_level() -> (
    None
):
    process = script("continuing").Process()
    for valve in (0.4, 1.0):
        process.set_parameters({"valve": valve})
        process.reset()
        volts = np.array([6.0 * valve * np.sqrt(0.5)])
        rewards = [process.step(volts)[1] for _ in range(2000)]
        best = script("continuing").best_rate(valve)
        np.testing.assert_allclose(rewards[-1], best, atol=1e-6)
        rates = []  # of other constant voltages, when they have settled
        for other in np.linspace(0.5, 9.5, 19):
            rates.append([process.step([other])[1] for _ in range(2000)][-1])
        assert max(rates) <= best


def test_continuing_methods_are_compared_from_doing_nothing_to_the_best() -> None:
    rows = [
        ("abrupt", method, seed, episode, 10, gained, 8.0, 100.0 - 10 * gained)
        for seed in (0, 1)
        for episode in range(1, 21)
        for method, gained in (("sombrl", 2.0 + 2 * seed), ("adaptive", 5.0))
    ]
    names = "problem method seed episode steps return_executed optimal_return"
    columns = [*names.split(), "cumulative_regret"]
    frame = polars.DataFrame(rows, schema=columns, orient="row")
    found = script("continuing").table(frame, -0.2)  # of one of 10 steps
    adaptive, sombrl = found.sort("method").to_dicts()
    assert adaptive["share"] == pytest.approx((5 + 2) / (8 + 2))
    assert sombrl["share"] == pytest.approx(np.mean([4 / 10, 6 / 10]))
    assert sombrl["least share"] == pytest.approx(4 / 10)
    assert sombrl["adaptive has less by"] == pytest.approx(np.mean([30.0, 10.0]))

"""Dynamic regret: by hand, paired, and suspicious of an oracle that is beaten."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from scipy import stats

import driftrl
from driftrl.analysis.regret import (
    ProblemSummary,
    change_starts,
    oracle_warnings,
    summarize,
)
from driftrl.cli.main import main
from driftrl.errors import InputError
from factories import record, write_run

OPTIMA = {2.0: -100.0, 1.0: -150.0}


class Study:
    """A directory to which runs are added."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(
        self,
        method: str,
        seed: int,
        returns: list[float],
        thetas: list[float] | None = None,
        retained: list[int] | None = None,
        variant: str = "",
        **settings: Any,
    ) -> "Study":
        columns = zip(
            returns,
            thetas or [2.0] * len(returns),
            retained or [1] * len(returns),
            strict=True,
        )
        rows = [
            record(n, return_executed=value, theta=theta, first_retained=first)
            for n, (value, theta, first) in enumerate(columns, start=1)
        ]
        settings |= {"method": method, "seed": seed, "variant": variant}
        write_run(self.directory / f"{method}-{variant}-s{seed}", rows, **settings)
        return self

    def frame(self) -> polars.DataFrame:
        return driftrl.load(self.directory, oracle=OPTIMA.__getitem__)

    def summary(self) -> ProblemSummary:
        (summary,) = summarize(self.frame())
        return summary


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


@pytest.fixture
def five_seeds(study: Study) -> Study:
    generator = np.random.default_rng(5)
    for seed in range(5):
        luck = generator.normal(0, 40)
        for method, level in [("sw-ombrl", -120.0), ("sombrl", -180.0)]:
            returns = level + luck + generator.normal(0, 2, 4)
            study.add(method, seed, returns.tolist(), [2.0, 2.0, 1.0, 1.0])
    return study


def test_regret_by_hand(study: Study) -> None:
    study.add("sombrl", 0, [-130.0, -110.0, -250.0], [2.0, 2.0, 1.0])
    study.add("sombrl", 1, [-130.0, -110.0, -160.0], [2.0, 2.0, 1.0])
    study.add("sw-ombrl", 0, [-110.0, -105.0, -170.0], [2.0, 2.0, 1.0])
    table = driftrl.regret(study.frame())
    assert table["method"].to_list() == ["sombrl", "sw-ombrl"]
    assert table["seeds"].to_list() == [2, 1]
    assert table["episodes"].to_list() == [3, 3]
    # R_3 is 140 and 50 for sombrl, 35 for the window; up to the onset 40, 40; 15.
    assert table["regret"].to_list() == [95.0, 35.0]
    assert table["standard_error"].to_list() == [45.0, None]
    assert table["regret_before_onset"].to_list() == [40.0, 15.0]
    assert table["regret_after_onset"].to_list() == [55.0, 20.0]
    assert table["paired_seeds"].to_list() == [0, 1]
    assert table["difference"].to_list() == [None, -105.0]
    assert table["difference_before_onset"].to_list() == [None, -25.0]
    assert table["difference_low"].null_count() == 2
    assert polars.Null not in table.dtypes
    gaps = [(0.3 + 0.1 + 100 / 150 + 0.3 + 0.1 + 10 / 150) / 6, (0.15 + 20 / 150) / 3]
    assert table["gap"].to_list() == pytest.approx(gaps)


def test_runs_with_different_courses_of_theta_by_hand(study: Study) -> None:
    study.add("sombrl", 0, [-130.0, -110.0, -120.0], [2.0, 2.0, 2.0])
    study.add("sombrl", 1, [-130.0, -110.0, -250.0], [2.0, 2.0, 1.0])
    study.add("sw-ombrl", 0, [-110.0, -180.0, -170.0], [2.0, 1.0, 1.0])
    study.add("sw-ombrl", 1, [-110.0, -110.0, -170.0], [2.0, 2.0, 1.0])
    summary = study.summary()
    keep, window = summary.methods
    assert keep.curves.tolist() == [[30.0, 40.0, 60.0], [30.0, 40.0, 140.0]]
    assert window.curves.tolist() == [[10.0, 40.0, 60.0], [10.0, 20.0, 40.0]]
    # θ changed from the first episode on in one run, in the third episode in two.
    assert summary.onset == 3
    assert window.difference and window.difference_before_onset
    assert window.difference.values.tolist() == [0.0, -100.0]
    assert window.difference_before_onset.values.tolist() == [0.0, -20.0]


def test_the_onset_is_the_first_change_in_any_run(study: Study) -> None:
    study.add("sombrl", 0, [-160.0] * 5, [2.0, 2.0, 2.0, 1.0, 1.0])
    study.add("sombrl", 1, [-160.0] * 5, [2.0, 2.0, 1.0, 1.0, 2.0])
    assert study.summary().onset == 3


def test_a_comparison_agrees_with_scipy(five_seeds: Study) -> None:
    summary = five_seeds.summary()
    finals = [method.score.values for method in summary.methods]
    for method, values in zip(summary.methods, finals, strict=True):
        assert method.curves.shape == (5, 4)
        np.testing.assert_allclose(method.score.mean, values.mean())
        np.testing.assert_allclose(method.score.stderr, stats.sem(values))
    expected = stats.ttest_rel(finals[1], finals[0]).confidence_interval(0.95)
    row = driftrl.regret(five_seeds.frame()).row(1, named=True)
    ends = [row["difference_low"], row["difference_high"]]
    np.testing.assert_allclose(ends, [*expected])
    # The seeds' common luck cancels: paired is far tighter than either method alone.
    assert ends[1] - ends[0] < 0.5 * (row["high"] - row["low"])


def test_pairs_are_matched_by_seed(study: Study) -> None:
    for seed, value in [(1, -110.0), (2, -200.0), (3, -400.0)]:
        study.add("sombrl", seed, [value])
    for seed, value in [(0, -101.0), (2, -190.0), (3, -370.0)]:
        study.add("sw-ombrl", seed, [value])
    difference = study.summary().methods[1].difference
    assert difference and difference.values.tolist() == [-10.0, -30.0]


def test_without_a_shared_seed_nothing_is_paired(study: Study) -> None:
    study.add("sombrl", 0, [-110.0]).add("sw-ombrl", 1, [-110.0])
    assert driftrl.regret(study.frame())["difference"].null_count() == 2
    table = driftrl.regret(study.frame(), baseline="sw-ombrl")
    assert table["method"].to_list() == ["sw-ombrl", "sombrl"]


def test_unfinished_runs_are_compared_where_all_have_been(study: Study) -> None:
    study.add("sombrl", 0, [-110.0, -120.0, -130.0, -140.0])
    study.add("sombrl", 1, [-110.0, -120.0, -130.0])
    study.add("sw-ombrl", 0, [-105.0, -105.0]).add("sw-ombrl", 1, [])
    summary = study.summary()
    assert summary.episodes == 2
    assert [method.curves.shape for method in summary.methods] == [(2, 3), (1, 2)]
    assert [method.score.mean for method in summary.methods] == [30.0, 10.0]


def test_without_sombrl_a_sweep_is_compared_with_its_zero(study: Study) -> None:
    for value in (10, 0, 2):
        study.add("r-ombrl", 0, [-100.0 - 10 * value], variant=f"alpha={value}")
    table = driftrl.regret(study.frame())
    assert set(table["baseline"]) == {"r-ombrl alpha=0"}
    assert table["difference"].to_list() == [None, 20.0, 100.0]


def test_the_gap_is_over_the_last_ten_episodes(study: Study) -> None:
    study.add("sombrl", 0, [-900.0] * 5 + [-110.0] * 9 + [-120.0])
    (method,) = study.summary().methods
    assert method.late
    assert method.late.mean == pytest.approx((9 * 0.1 + 0.2) / 10)


def test_the_gap_can_leave_out_episodes_after_a_reset(study: Study) -> None:
    # m jumps from 1 to 3 at episode 4: episodes 4 and 5 follow the reset.
    returns = [-110.0, -110.0, -110.0, -300.0, -200.0, -104.0]
    study.add("r-ombrl", 0, returns, retained=[1, 1, 1, 3, 3, 3])
    (method,) = study.summary().methods
    assert method.late and method.late_outside_resets
    assert method.late.mean == pytest.approx((3 * 0.1 + 2.0 + 1.0 + 0.04) / 6)
    assert method.late_outside_resets.mean == pytest.approx((3 * 0.1 + 0.04) / 4)


def test_a_relative_gap_to_zero_is_unknown(study: Study) -> None:
    study.add("sombrl", 0, [-1.0])
    table = driftrl.regret(driftrl.load(study.directory, oracle=lambda theta: 0.0))
    assert table.select("regret", "gap").row(0) == (1.0, None)


def test_returns_are_summarized_without_an_optimum(five_seeds: Study) -> None:
    (summary,) = summarize(driftrl.load(five_seeds.directory, oracle="none"))
    known = five_seeds.summary()
    assert not summary.is_known
    for ours, theirs in zip(summary.methods, known.methods, strict=True):
        # J* is −100 twice and −150 twice.
        assert ours.score.mean == pytest.approx(-125 - theirs.score.mean / 4)
        assert ours.difference is None or theirs.difference is not None
    # J* cancels in differences, of regret R_4 or of the mean return.
    assert summary.methods[1].difference and known.methods[1].difference
    np.testing.assert_allclose(
        -4 * summary.methods[1].difference.values, known.methods[1].difference.values
    )


def test_frames_that_cannot_be_compared_are_refused(study: Study) -> None:
    frame = study.add("sombrl", 0, [-110.0, -120.0]).frame()
    with pytest.raises(InputError, match="oracle="):
        driftrl.regret(
            frame.with_columns(optimal_return=polars.lit(None, polars.Float64))
        )
    with pytest.raises(InputError, match="episodes"):
        driftrl.regret(
            frame.with_columns(achieved_return=polars.lit(None, polars.Float64))
        )
    with pytest.raises(InputError):
        driftrl.regret(frame.clear())
    copy = frame.with_columns(directory=polars.lit("copy"))
    with pytest.raises(InputError, match="seed 0"):
        driftrl.regret(polars.concat([frame, copy]))


# Curves.


@pytest.mark.parametrize(
    ("thetas", "starts"),
    [
        ([2.0, 2.0, 1.0, 0.5], [3]),
        ([2.0, 1.0, 0.5], []),
        ([2.0, 2.0, 2.0], []),
        ([2.0, 2.0, 1.0, 1.0, 0.5], [3, 5]),
        ([2.0], []),
    ],
)
def test_changes_start_at_the_first_new_value_after_a_constant_one(
    thetas: list[float], starts: list[int]
) -> None:
    assert change_starts(np.array(thetas)) == starts


# An oracle that is beaten.


def warnings_of(study: Study, error: float = 0.5, std: float = 0.0) -> list[str]:
    frame = study.frame().with_columns(
        optimal_error=polars.lit(error), optimal_std=polars.lit(std)
    )
    return oracle_warnings(frame)


def test_beating_the_oracle_within_its_error_is_no_warning(study: Study) -> None:
    assert warnings_of(study.add("sombrl", 0, [-99.5, -100.0])) == []


def test_an_oracle_that_is_beaten_is_named_with_theta_and_run(study: Study) -> None:
    study.add("sombrl", 0, [-120.0, -98.0]).add("sw-ombrl", 3, [-120.0, -95.0])
    (warning,) = warnings_of(study)
    assert "θ = 2" in warning and "sw-ombrl--s3" in warning and "-95" in warning


def test_small_excesses_that_add_up_are_reported_as_a_sum(study: Study) -> None:
    # Each episode stays within four deviations of noise; forty of them cannot.
    study.add("sombrl", 0, [-97.0] * 40)
    (warning,) = warnings_of(study, std=1.0)
    # 40 · 0.5 + 4·√40 = 45.3
    assert "-120" in warning and "45.3" in warning


def test_random_returns_around_the_optimum_raise_no_alarm(study: Study) -> None:
    returns = np.random.default_rng(1).normal(-100.0, 5.0, (20, 100))
    for seed, row in enumerate(returns):
        study.add("sombrl", seed, row.tolist())
    assert warnings_of(study, error=0.0, std=5.0) == []


# The command.


def test_the_command_prints_what_the_functions_return(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    oracle = tmp_path / "oracle.csv"
    oracle.write_text("theta,value\n2,-100\n")
    study.add("sombrl", 0, [-130.0, -110.0]).add("sw-ombrl", 0, [-105.0, -101.0])
    command = ["regret", str(tmp_path), "--oracle", str(oracle)]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["regret"][0]["regret"] == 40.0
    assert main(command) == 0
    out = capsys.readouterr().out
    first, second = [line.split() for line in out.splitlines()[-3:-1]]
    assert (first[:3], second[:3]) == (["sombrl", "1", "40"], ["sw-ombrl", "1", "6"])
    assert "-34" in second
    assert main(["regret", str(tmp_path / "nowhere")]) == 2

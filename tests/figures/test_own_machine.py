"""Reports of machines of one's own: θ is not known, and returns are all there is."""

import html
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from driftrl.cli.main import main
from driftrl.cli.progress import run_progress
from driftrl.cli.recorded import compare
from driftrl.config.toml import toml_text
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.figures.interactive import interactive_figures
from driftrl.figures.panels import (
    return_panel,
    soft_resets,
    study_changes,
    study_panels,
)
from driftrl.figures.part import part_of
from driftrl.figures.printed import overview_figure, returns_figure
from driftrl.figures.problems import problems_figure
from driftrl.figures.report import report_page
from driftrl.figures.sweep import sweep_figure, sweep_returns_figure
from driftrl.figures.wording import comparison_summary, study_summary
from driftrl.figures.write import write_report
from driftrl.oracles.values import NO_ORACLE, OracleTable, OracleValue
from driftrl.records import Run, encode_record
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret, compare_methods
from driftrl.results.scores import late_returns, mean_returns, scores_of
from driftrl.types import EpisodeRecord

TASK = "press_line:Press"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def own_run(
    method: str,
    seed: int,
    returns: Sequence[float],
    *,
    variant: str = "",
    retained: Sequence[int] | None = None,
    task: str = TASK,
) -> Run:
    """Return a finished run with these returns; by default it keeps all data."""
    rows = [
        EpisodeRecord(
            episode=n,
            theta=math.nan,
            steps=40,
            return_executed=value,
            return_eval=None,
            terminated=False,
            first_retained=first,
            transitions=40 * (n - first),
            optimism=1.0,
            model_error=0.5 / n if n > 1 else None,
            coverage=0.9 if n > 1 else None,
            epistemic_std=0.2 / n if n > 1 else None,
            wall_s=1.5,
        )
        for n, (value, first) in enumerate(
            zip(returns, retained or [1] * len(returns), strict=True), start=1
        )
    ]
    config = {
        **{"task": task, "method": method, "seed": seed, "episodes": len(rows)},
        **{"variant": variant, "drift": {"kind": "unknown"}},
        "forgetting": {"kind": method},
    }
    name = f"{task}-{method}-{variant}-s{seed}".replace(":", ".")
    return Run(Path(name), config, tuple(rows))


def written(runs: Sequence[Run], directory: Path) -> Path:
    for run in runs:
        place = directory / run.directory.name
        place.mkdir(parents=True)
        (place / "config.toml").write_text(toml_text(run.config))
        rows = "".join(encode_record(record) + "\n" for record in run.records)
        (place / "episodes.jsonl").write_text(rows)
    return directory


# Means of two episodes: 2 and 4 against 4 and 7, so that windows return 2 and 3 more.
RUNS = [
    own_run("sombrl", 0, [1.0, 3.0]),
    own_run("sombrl", 1, [2.0, 6.0]),
    own_run("sw-ombrl", 0, [2.0, 6.0]),
    own_run("sw-ombrl", 1, [4.0, 10.0]),
]


@pytest.fixture(scope="module")
def tanks() -> StudyRegret:
    """Three seeds of two methods and one of a third, over fourteen episodes."""
    n = np.arange(1, 15)
    runs = [own_run("r-ombrl", 0, (4 - 30 / n).tolist())]
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(size=(2, 14))
        runs.append(own_run("sombrl", seed, (-20 / n + noise[0]).tolist()))
        runs.append(own_run("sw-ombrl", seed, (5 - 20 / n + noise[1]).tolist()))
    return compare_methods(runs, NO_ORACLE)


def own_text(page: str) -> str:
    """Everything on the page that is not code."""
    return html.unescape(re.sub("<script.*?</script>", "", page, flags=re.DOTALL))


def test_scores_are_mean_returns_and_more_is_better() -> None:
    scores = scores_of(compare_methods(RUNS, NO_ORACLE))
    assert scores.finals["sombrl"].values.tolist() == [2.0, 4.0]
    assert scores.finals["sw-ombrl"].values.tolist() == [4.0, 7.0]
    assert scores.best == "sw-ombrl"
    (difference,) = scores.differences
    assert difference.estimate.values.tolist() == [2.0, 3.0]
    # Mean 2.5, standard error 0.5, and 12.706 is t₁ at 97.5 %.
    student, bootstrap = difference.estimate.student, difference.estimate.bootstrap
    half = 12.7062 / 2
    np.testing.assert_allclose(student.low, 2.5 - half, 1e-4)
    np.testing.assert_allclose(student.high, 2.5 + half, 1e-4)
    assert (bootstrap.low, bootstrap.high) == (2.0, 3.0)


def test_differences_are_those_of_any_oracle() -> None:
    runs = [
        Run(
            run.directory,
            run.config,
            tuple(EpisodeRecord(**{**vars(row), "theta": 2.0}) for row in run.records),
        )
        for run in RUNS
    ]
    unknown = compare_methods(RUNS, NO_ORACLE)
    known = compare_methods(runs, OracleTable((OracleValue(2.0, 55.0, 0.0),), "test"))
    for one, two in zip(unknown.differences, known.differences, strict=True):
        np.testing.assert_allclose(one.estimate.values, two.estimate.values)
        assert one.estimate.values.tolist() == [-4.0, -6.0]  # R_2: less is better
    assert scores_of(known).differences == known.differences
    for method, estimate in mean_returns(known).items():
        assert estimate.mean == mean_returns(unknown)[method].mean
    assert unknown.warnings == ()
    assert unknown.differences_before_change == ()
    assert [gap.estimate for gap in unknown.gaps] == [None, None]


def test_a_table_says_whether_it_knows_anything() -> None:
    with pytest.raises(InputError, match="at least one value of θ"):
        OracleTable((), "test")
    with pytest.raises(InputError, match="none if none is known"):
        OracleTable((OracleValue(2.0, 1.0, 0.0),), "test")


def test_late_returns_with_and_without_resets() -> None:
    # Returns 1 … 12, a reset before episode 11: the last ten are 3 … 12.
    retained = [1] * 10 + [10, 10]
    runs = [own_run("r-ombrl", 0, [float(n) for n in range(1, 13)], retained=retained)]
    study = compare_methods(runs, NO_ORACLE)
    late = late_returns(study)["r-ombrl"]
    outside = late_returns(study, after_reset=2)["r-ombrl"]
    assert late is not None and outside is not None
    assert (late.mean, outside.mean) == (7.5, 6.5)
    assert study_summary(study) == [
        f"Over 12 episodes of {TASK}, R-OMBRL has a mean return of 6.50 (one seed).",
        "Over the last 10 episodes the mean return is 7.50 (6.50 without the 2 "
        "episodes after a reset).",
    ]


def test_the_whole_summary_by_hand() -> None:
    study = compare_methods(RUNS, NO_ORACLE)
    assert study_summary(study) == [
        f"Over 2 episodes of {TASK}, SW-OMBRL has the highest mean return, 5.50 ± 1.50 "
        "(mean ± standard error over 2 seeds).",
        "SW-OMBRL returns 2.50 more an episode than SOMBRL on the same 2 seeds (paired "
        "95\u00a0% t interval of the difference −3.85 to 8.85, which contains zero: "
        "these seeds do not tell the two apart).",
        "Over the last 2 episodes the mean return is 5.50 ± 1.50 for SW-OMBRL and 3.00 "
        "± 1.00 for SOMBRL.",
    ]


def test_many_directions_by_hand() -> None:
    runs = [own_run("sombrl", seed, [200.0]) for seed in range(2)]
    for name, returns in {
        "a": [150.0, 151.0],
        "b": [250.0, 251.0],
        "c": [190.0, 210.0],
        "d": [170.0, 171.0],
        "e": [230.0, 170.0],
    }.items():
        runs += [own_run(name, seed, [value]) for seed, value in enumerate(returns)]
    assert study_summary(compare_methods(runs, NO_ORACLE))[1] == (
        "Compared to SOMBRL on the same seeds, by the paired 95\u00a0% t interval, "
        "b returns more than it; a and d return less than it; c and e cannot be told "
        "from it."
    )


def test_problems_with_and_without_an_oracle_have_their_own_words(
    rates: Comparison,
) -> None:
    own = compare_methods(RUNS, NO_ORACLE, problem=TASK)
    mixed = Comparison((rates.studies[0], own))
    known, unknown = comparison_summary(mixed)
    assert " the lowest regret, " in known
    assert unknown == (
        f"{TASK}: over 2 episodes SW-OMBRL has the highest mean return, 5.50 ± 1.50; "
        "compared to SOMBRL, SW-OMBRL returns 2.50 more an episode (95\u00a0% t "
        "interval −3.85 to 8.85, which contains zero)."
    )
    assert study_summary(own)[0].startswith(f"Over 2 episodes of {TASK}, SW-OMBRL")
    page = own_text(report_page(mixed, "Both", ""))
    assert page.count("<h3>Oracle</h3>") == 1
    assert "<h4>Regret and returns over episodes</h4>" in page
    assert "<h4>Returns over episodes</h4>" in page


def test_panels_are_those_of_what_was_recorded(tanks: StudyRegret) -> None:
    assert [panel.key for panel in study_panels(tanks)] == [
        *("returns", "span", "model_error", "coverage", "epistemic_std")
    ]
    panel = return_panel(tanks)
    assert panel.references == ()
    assert panel.caption == "Return of the policy of each episode; more is better."


def test_soft_resets_at_rates_of_zero_are_none(ablation: StudyRegret) -> None:
    def at(rate: float) -> StudyRegret:
        agent = {"soft_reset": {"model": 0.0, "policy": rate}}
        runs = [
            Run(run.directory, {**run.config, "agent": agent}, run.records)
            for run in ablation.runs
        ]
        return compare_methods(runs, ablation.table)

    assert soft_resets(at(0.0)) == {}
    assert soft_resets(at(0.1)) == soft_resets(ablation) != {}


def test_the_page_speaks_of_returns_alone(tanks: StudyRegret) -> None:
    text = own_text(report_page(Comparison((tanks,)), "Tanks", "A level process."))
    for word in ("regret", "J*", "θ", "theta", "nan", "<h2>oracle"):
        assert word.lower() not in text.lower()
    assert all(sentence in text for sentence in study_summary(tanks))
    assert f"<p>{NO_ORACLE.provenance}</p>" in text
    mean = scores_of(tanks).finals["sw-ombrl"]
    assert f"<td>{mean.mean:.2f} ± {mean.stderr:.2f}</td>" in text
    assert "Mean return<small>14 episodes, ± standard error</small>" in text
    assert "Mean return<small>last 10 episodes</small>" in text
    assert "Right of the line is better than the baseline." in text
    assert 'title="press_line.Press-episodes.csv"' in text
    assert "computed from 98 recorded episodes: " in text


def test_the_page_of_a_single_run_has_no_empty_columns() -> None:
    study = compare_methods([own_run("sw-ombrl", 3, [1.0, 2.0, 3.0])], NO_ORACLE)
    text = own_text(report_page(Comparison((study,)), "Press", ""))
    titles = re.findall(r"<th>([^<]*)", text[: text.index("<h2>Figures")])
    assert titles == ["Method", "Seeds", "Mean return", "Mean return", "Minutes"]
    assert "Mean return<small>3 episodes</small>" in text
    assert "A line is one run. Click" in text
    assert "interval" not in text
    assert "SOMBRL was not run" not in text


def test_interactive_differences_are_positive_where_a_method_is_better() -> None:
    figures = interactive_figures(part_of(compare_methods(RUNS, NO_ORACLE)))
    figure = figures["differences"].to_plotly_json()
    dots, mark = figure["data"]
    assert list(dots["x"]) == [2.0, 3.0]
    assert mark["x"] == [2.5]
    title = figure["layout"]["xaxis"]["title"]["text"]
    assert title == "difference in mean return to SOMBRL"


def test_printed_returns_are_means_with_their_names(tanks: StudyRegret) -> None:
    (axes,) = returns_figure(tanks).axes
    lines = {line.get_label(): line for line in axes.lines}
    expected = np.mean(
        [
            [record.return_executed for record in run.records]
            for run in tanks.runs_of("sw-ombrl")
        ],
        axis=0,
    )
    np.testing.assert_allclose(np.asarray(lines["SW-OMBRL"].get_ydata()), expected)
    assert {text.get_text() for text in axes.texts} == {"SOMBRL", "R-OMBRL", "SW-OMBRL"}
    assert axes.get_title(loc="right") == "mean ± standard error, 1 to 3 seeds"
    overview = overview_figure(tanks)
    assert overview.axes[0].get_title(loc="left") == "Return of an episode"
    assert overview.axes[0].yaxis.label.get_rotation() == 90
    names = [text.get_text() for text in overview.legends[0].get_texts()]
    assert names == ["SOMBRL", "R-OMBRL", "SW-OMBRL"]


def test_machines_side_by_side_have_axes_of_their_own(rates: Comparison) -> None:
    own = compare_methods(RUNS, NO_ORACLE, problem="press")
    figure = problems_figure([own, own])
    assert [axes.get_ylabel() for axes in figure.axes] == [r"Return $J(\pi_n)$", ""]
    assert len(figure.legends[0].get_texts()) == 2
    figure = problems_figure([own, rates.studies[0]])
    grid = np.array(figure.axes).reshape(3, 2)
    said = [[text.get_text() for text in axes.texts] for axes in grid[:, 0]]
    assert said == [["not known"], [], ["not known"]]
    assert grid[1, 0].get_ylim() != grid[1, 1].get_ylim()
    assert grid[1, 0].get_xlim() == (0.5, 2.5)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["SOMBRL", "SW-OMBRL", "R-OMBRL", "J*(θ), optimum"]


def test_a_sweep_is_drawn_over_the_mean_return() -> None:
    runs = [own_run("sombrl", seed, [-3.0, -1.0]) for seed in range(2)]
    for value, shift in ((2, 1.0), (5, 3.0), (9, 2.0)):
        for seed in range(2):
            returns = [shift + seed, shift - 4.0]
            runs.append(own_run("sw-ombrl", seed, returns, variant=f"w={value}"))
    study = compare_methods(runs, NO_ORACLE)
    (axes,) = sweep_figure(study).axes
    assert axes.get_ylabel() == "Mean return"
    (bars,) = axes.containers
    # (s + s − 4)/2 and (s + 1 + s − 4)/2: mean s − 1.75.
    heights = np.asarray(bars[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(heights, [-0.75, 1.25, 0.25])
    (axes,) = sweep_returns_figure(study).axes
    assert list(axes.texts) == []  # such as “not recorded”
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["2", "5", "9"]


def test_files_of_the_report(tmp_path: Path, rates: Comparison) -> None:
    own = compare_methods(RUNS, NO_ORACLE)
    paths = write_report(Comparison((own,)), tmp_path / "one", "Press", "")
    assert [path.name for path in paths] == [
        *("returns.png", "returns.pdf", "overview.png", "overview.pdf"),
        *("aggregate.png", "aggregate.pdf", "report.html"),
    ]
    own = compare_methods(RUNS, NO_ORACLE, problem=TASK)
    mixed = Comparison((own,), waiting=("b",))
    paths = write_report(mixed, tmp_path / "several", "Press", "")
    assert paths[2].name == "returns-press_line_Press.png"
    assert "The return of each policy, a column" in paths[-1].read_text()


def test_the_command_reports_records_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = written(RUNS, tmp_path / "runs")
    study = {
        **{"name": "press", "title": "A press", "summary": "It wears.", "task": TASK},
        **{"methods": ["sombrl", "sw-ombrl"], "seeds": [0, 1]},
    }
    (directory / "study.toml").write_text(toml_text(study))
    assert main(["report", str(directory)]) == 0
    assert "report.html" in capsys.readouterr().out
    page = (directory / "report" / "report.html").read_text()
    assert "<h1>A press</h1>" in page and "It wears." in page
    assert "press_line" not in sys.modules
    assert main(["regret", str(directory)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"No regret is known for runs of {TASK}. There is no oracle for a m" in err
    assert f"`driftrl report {directory}` shows the returns." in err


def test_regret_of_the_problems_that_have_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def oracle(runs: Sequence[Run], *_: object, **__: object) -> OracleTable:
        assert {run.task for run in runs} == {"pendulum"}
        return OracleTable((OracleValue(2.0, 10.0, 0.0),), "by hand")

    monkeypatch.setattr("driftrl.oracles.optimal_returns_of_runs", oracle)
    known = own_run("sombrl", 0, [1.0, 3.0], task="pendulum")
    rows = [EpisodeRecord(**{**vars(row), "theta": 2.0}) for row in known.records]
    known = Run(known.directory, known.config, tuple(rows))
    directory = written([*RUNS, known], tmp_path)
    assert main(["regret", str(directory), "--json"]) == 0
    out, err = capsys.readouterr()
    (problem,) = json.loads(out)["problems"]
    assert problem["task"] == "pendulum"
    assert problem["methods"]["sombrl"]["final_regret"]["mean"] == 16.0
    assert f"No regret is known for runs of {TASK}. There is no oracle" in err


def test_a_robot_that_does_not_tell_theta_has_no_oracle(tmp_path: Path) -> None:
    silent = own_run("sombrl", 0, [1.0] * 4, task="pendulum")
    told = own_run("sw-ombrl", 0, [2.0] * 4, task="pendulum")
    thetas = [2.0, 2.0, 1.5, 1.0]
    rows = [
        EpisodeRecord(**{**vars(row), "theta": theta})
        for row, theta in zip(told.records, thetas, strict=True)
    ]
    runs = [silent, Run(told.directory, told.config, tuple(rows))]
    (study,) = compare(written(runs, tmp_path)).studies
    assert study.table == NO_ORACLE
    assert study_changes(study) == []
    assert "θ" not in " ".join(study_summary(study))


def test_progress_prints_no_theta(capsys: pytest.CaptureFixture[str]) -> None:
    with run_progress(configure("pendulum", "sombrl", {}), quiet=False) as progress:
        progress.show(RUNS[0].records[0])
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[1:3] == ["–", "1.0"]
    assert "nan" not in line


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_opens_without_a_complaint(tmp_path: Path, tanks: StudyRegret) -> None:
    assert CHROMIUM is not None
    page = tmp_path / "report.html"
    page.write_text(report_page(Comparison((tanks,)), "Tanks", ""), encoding="utf-8")
    opened = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu"),
            *("--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"),
            # So high that every figure is in view, and drawn.
            *("--window-size=1280,12000", "--virtual-time-budget=9000"),
            *("--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in opened.stderr
    pattern = r'class="plot js-plotly-plot" id="plot-([a-z_]*)"'
    drawn = re.findall(pattern, opened.stdout)
    assert {*drawn} >= interactive_figures(part_of(tanks)).keys() | {"run"}

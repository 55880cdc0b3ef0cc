"""A study of different machines: other tasks, other seeds, other things known.

Episodes of the poles end when they fall, and their schedule counts decisions: θ takes
another course in every run.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from driftrl.figures.axes import draw_panel
from driftrl.figures.interactive import interactive_figures
from driftrl.figures.panels import (
    Panel,
    return_panel,
    study_changes,
    study_panels,
    theta_panel,
)
from driftrl.figures.part import part_of
from driftrl.figures.printed import overview_figure, regret_figure, returns_figure
from driftrl.figures.problems import problems_caption, problems_figure
from driftrl.figures.report import report_page
from driftrl.figures.wording import comparison_summary, study_summary
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison, compare_problems
from driftrl.results.document import comparison_document
from driftrl.results.regret import StudyRegret, compare_methods
from driftrl.types import EpisodeRecord

METHODS = ("sombrl", "r-ombrl", "sw-ombrl")
UNTRAINED = OracleTable((), "No oracle was trained for this machine.")


def machine_run(
    task: str, method: str, seed: int, thetas: Sequence[float], returns: Sequence[float]
) -> Run:
    rows = [
        EpisodeRecord(
            episode=n,
            theta=float(theta),
            steps=100,
            return_executed=float(value),
            return_eval=None,
            terminated=False,
            first_retained=1,
            transitions=100 * (n - 1),
            optimism=1.0,
            model_error=0.5 if n > 1 else None,
            coverage=0.9 if n > 1 else None,
            epistemic_std=0.2 if n > 1 else None,
            wall_s=1.5,
        )
        for n, (theta, value) in enumerate(zip(thetas, returns, strict=True), start=1)
    ]
    config = {
        **{"task": task, "method": method, "seed": seed, "episodes": len(rows)},
        **{"variant": "", "drift": {"kind": "exponential"}},
        "clock": "steps" if task == "double-pendulum" else "episodes",
    }
    return Run(Path(f"{task}-{method}-s{seed}"), config, tuple(rows))


def poles(method: str, seed: int, episodes: int = 60) -> Run:
    """A run that balances for longer and longer, until its motor fades."""
    generator = np.random.default_rng([seed, METHODS.index(method)])
    decisions, thetas, returns = 0, [], []
    skill = {"sombrl": 0.4, "r-ombrl": 0.9, "sw-ombrl": 0.8}[method]
    for n in range(episodes):
        thetas.append(0.25 + 0.75 * np.exp(-4e-4 * max(0, decisions - 5000)))
        faded = skill + (1 - skill) * thetas[-1]
        learned = 1 - np.exp(-n / (6 + 2 * seed))
        steps = 500 * faded * learned * generator.uniform(0.8, 1.0)
        decisions += 5 + round(steps)
        returns.append(9.3 * (5 + round(steps)))
    return machine_run("double-pendulum", method, seed, thetas, returns)


def ant(method: str, seed: int, episodes: int = 40) -> Run:
    n = np.arange(1, episodes + 1)
    thetas = 0.3 + 0.7 * np.exp(-0.1 * np.maximum(0, n - 20))
    returns = 2000 * (1 - np.exp(-n / 6)) * thetas + 40 * seed
    return machine_run("ant", method, seed, thetas.tolist(), returns.tolist())


def standup(seed: int) -> Run:
    n = np.arange(1, 26)
    thetas = np.where(n > 12, 0.5, 1.0)
    return machine_run(
        *("humanoid-standup", "sombrl", seed), thetas.tolist(), (4000.0 * n).tolist()
    )


def oracle(runs: Sequence[Run]) -> OracleTable:
    if runs[0].task == "humanoid-standup":
        return UNTRAINED
    scale = {"double-pendulum": 6000.0, "ant": 2500.0}[runs[0].task]
    thetas = sorted({record.theta for run in runs for record in run.records})
    entries = [OracleValue(one, scale * one**0.2, 50.0) for one in thetas]
    return OracleTable(tuple(entries), "by hand")


@pytest.fixture(scope="module")
def machines() -> Comparison:
    """Three methods and seeds of the poles, two seeds of the ant, one of another."""
    everyone = [poles(method, seed) for method in METHODS for seed in range(3)]
    everyone += [ant(*one) for one in itertools.product(METHODS[:2], range(2))]
    return compare_problems([*everyone, standup(7)], oracle)


def of(machines: Comparison, task: str) -> StudyRegret:
    (found,) = [study for study in machines.studies if study.task == task]
    return found


def test_each_machine_is_a_problem_of_its_own(machines: Comparison) -> None:
    assert [study.problem for study in machines.studies] == [
        *("ant", "double-pendulum", "humanoid-standup")
    ]
    seeds = [[len(one.seeds) for one in study.methods] for study in machines.studies]
    assert seeds == [[2, 2], [3, 3, 3], [1]]
    assert [study.episodes for study in machines.studies] == [40, 60, 25]


def test_each_column_has_axes_of_its_own(machines: Comparison) -> None:
    figure = problems_figure(machines.studies)
    grid = np.array(figure.axes).reshape(3, 3)
    assert [axes.get_title() for axes in grid[0]] == [
        study.problem for study in machines.studies
    ]
    for row in grid:
        assert [axes.get_xlim()[1] for axes in row] == [40.5, 60.5, 25.5]
        assert len({axes.get_ylim() for axes in row}) == 3
        assert all(axes.yaxis.get_tick_params()["labelleft"] for axes in row)
    # Each shows all of its own, and little more.
    for axes, study in zip(grid[1], machines.studies, strict=True):
        drawn = [*return_panel(study).curves.values()]
        highest = max(values.max() for values in drawn)
        if study.table.known:
            highest = max(highest, return_panel(study).references[0].values.max())
        assert highest < axes.get_ylim()[1] < 1.1 * highest
    assert [text.get_text() for text in grid[2, 2].texts] == ["not known"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["SOMBRL", "R-OMBRL", "SW-OMBRL", "J*(θ), optimum"]
    assert figure.texts[0].get_text() == "mean ± standard error, 1 to 3 seeds"
    figure.draw_without_rendering()


def test_columns_of_one_task_share_axes_beside_another_task(
    machines: Comparison, rates: Comparison
) -> None:
    studies = [*rates.studies[:2], of(machines, "ant")]
    grid = np.array(problems_figure(studies).axes).reshape(3, 3)
    for one, two, other in grid:
        assert one.get_ylim() == two.get_ylim() != other.get_ylim()
        assert (one.get_xlim(), two.get_xlim()) == ((0.5, 30.5), (0.5, 30.5))
        assert other.get_xlim() == (0.5, 40.5)
        cells = (one, two, other)
        numbered = [axes.yaxis.get_tick_params()["labelleft"] for axes in cells]
        assert numbered == [True, False, True]
    highest = max(one.mean.max() for study in studies[:2] for one in study.methods)
    assert grid[2, 0].get_ylim()[0] == 0
    assert highest < grid[2, 0].get_ylim()[1] < 1.1 * highest


def test_the_caption_says_what_is_there(
    machines: Comparison, rates: Comparison
) -> None:
    assert problems_caption(rates.studies) == (
        "The drift θ, the return of each policy with the best possible J*(θ) and "
        "cumulative dynamic regret, a column for each problem. Lines are means over "
        "seeds, bands one standard error to either side; the dotted line marks where θ "
        "begins to change."
    )
    assert problems_caption(machines.studies).endswith(
        "change. Axes differ between machines. Where J*(θ) is not known, the return is "
        "what there is to compare."
    )
    alone = [of(machines, "humanoid-standup")] * 2
    assert problems_caption(alone).startswith(
        "The drift θ and the return of each policy, a column"
    )
    grid = np.array(problems_figure(alone).axes).reshape(2, 2)
    labels = [axes.get_ylabel() for axes in grid[:, 0]]
    assert labels == [r"$\theta_n$", r"Return $J(\pi_n)$"]


def test_theta_is_a_curve_of_each_method_where_runs_differ_in_it(
    machines: Comparison,
) -> None:
    study = of(machines, "double-pendulum")
    panel = theta_panel(study)
    assert panel.references == ()
    assert list(panel.curves) == list(METHODS)
    for seed, curve in enumerate(panel.curves["r-ombrl"]):
        run = study.runs_of("r-ombrl")[seed]
        assert curve.tolist() == [record.theta for record in run.records]
    assert panel.caption.endswith("in every run: lines are means over seeds.")
    assert theta_panel(of(machines, "ant")).curves == {}


def test_one_line_marks_the_first_run_to_change(machines: Comparison) -> None:
    study = of(machines, "double-pendulum")
    (start,) = study_changes(study)
    thetas = np.array([[row.theta for row in run.records] for run in study.runs])
    assert (thetas[:, : start - 1] == 1).all()
    assert 0 < (thetas[:, start - 1] < 1).sum() < 9
    assert [one.episode for one in study.differences_before_change] == [start - 1] * 2
    drawn: Any = interactive_figures(part_of(study))["curves"]
    assert len(drawn.layout.shapes) == 1


def two_courses() -> StudyRegret:
    runs = [
        machine_run("double-pendulum", "sombrl", 0, [1.0, 1.0, 0.5], [5.0, 6.0, 7.0]),
        machine_run("double-pendulum", "sombrl", 1, [1.0, 1.0, 1.0], [5.0, 6.0, 9.0]),
        machine_run("double-pendulum", "sombrl", 2, [1.0, 0.5], [5.0, 6.0]),
    ]
    table = OracleTable((OracleValue(1.0, 10.0, 0.0), OracleValue(0.5, 7.0, 0.0)), "")
    return compare_methods(runs, table)


def test_the_optimum_is_then_a_mean_with_its_range() -> None:
    (optimum,) = return_panel(two_courses()).references
    # Up to the episode that all runs have reached.
    np.testing.assert_allclose(optimum.values, [10.0, 9.0])
    assert optimum.spread is not None
    np.testing.assert_array_equal(optimum.spread, [[10.0, 7.0], [10.0, 10.0]])
    axes = Figure().subplots()
    draw_panel(axes, Panel("k", "", "", "", {}, (optimum,)), {})
    line, area = axes.patches
    np.testing.assert_allclose(line.get_data().values, [10.0, 9.0])  # type: ignore[attr-defined]
    np.testing.assert_array_equal(area.get_data().baseline, [10.0, 7.0])  # type: ignore[attr-defined]
    drawn: Any = interactive_figures(part_of(two_courses()))["curves"]
    band, middle = (one for one in drawn.data if one.legendgroup == "J*(θ), optimum")
    assert (list(band.x), list(band.y)) == ([1, 2, 2, 1], [10.0, 10.0, 7.0, 10.0])
    assert middle.name == "J*(θ), optimum"
    assert list(middle.customdata) == [[10.0, 10.0], [7.0, 10.0]]
    assert list(middle.meta["columns"]) == ["episode", "mean", "lower", "upper"]


def test_the_summary_says_that_theta_differs() -> None:
    assert (
        "θ did not take the same course in every run: in episode 2 it lies between 0.5 "
        "and 1. Methods are compared at the same episode, not at the same θ."
    ) in study_summary(two_courses())


def test_a_machine_is_named_once(machines: Comparison) -> None:
    first = [study_summary(study)[0] for study in machines.studies]
    assert [sentence.partition(",")[0] for sentence in first] == [
        "After 40 episodes of ant",
        "After 60 episodes of double-pendulum",
        "Over 25 episodes of humanoid-standup",
    ]
    runs = [ant("sombrl", 0)]
    study = compare_methods(runs, oracle(runs), problem="ant a=0.1")
    assert study_summary(study)[0].startswith("After 40 episodes of ant with a = 0.1, ")
    assert comparison_summary(machines)[2] == (
        "humanoid-standup: over 25 episodes SOMBRL has a mean return of 52,000."
    )


def test_theta_is_shown_where_no_optimum_is_known(machines: Comparison) -> None:
    study = of(machines, "humanoid-standup")
    assert [panel.key for panel in study_panels(study)][:2] == ["theta", "returns"]
    assert study_changes(study) == [13]
    strip, returns = returns_figure(study).axes
    assert {text.get_text() for text in strip.texts} == {"change"}
    assert list(returns.lines[-1].get_xdata()) == [12.5, 12.5]  # type: ignore[call-overload]
    assert returns.get_xlim() == (0.5, 25.5)


def test_returns_before_the_change_are_compared_without_an_optimum() -> None:
    # Mean returns of 2 and 3 against 4 and 7 until θ changes: 2 and 4 more.
    thetas = [1.0, 1.0, 0.5]
    returns = {"sombrl": ([1, 3, 0], [2, 4, 0]), "sw-ombrl": ([2, 6, 9], [4, 10, 9])}
    runs = [
        machine_run("walker2d", method, seed, thetas, values)
        for method, both in returns.items()
        for seed, values in enumerate(both)
    ]
    summary = " ".join(study_summary(compare_methods(runs, UNTRAINED)))
    # 3 ± 12.7062 · 1, for two seeds.
    assert (
        "Up to episode 2, before θ begins to change, the differences in mean return to "
        "SOMBRL were 3.00 for SW-OMBRL (−9.71 to 15.7)."
    ) in summary


def test_long_numbers_are_short_at_the_axes(machines: Comparison) -> None:
    axes = regret_figure(of(machines, "ant")).axes[-1]
    label = axes.yaxis.get_major_formatter().format_ticks
    assert label([0, 20_000, 45_000]) == ["0", "20k", "45k"]
    assert label([-500_000, 0, 1_000_000]) == ["−0.5M", "0", "1M"]
    assert label([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]


@pytest.mark.parametrize("draw", [regret_figure, overview_figure])
def test_courses_that_differ_can_be_drawn(
    draw: Callable[[StudyRegret], Figure], machines: Comparison
) -> None:
    figure = draw(of(machines, "double-pendulum"))
    figure.draw_without_rendering()
    assert [line.get_label() for line in figure.axes[0].lines[:3]] == [
        *("SOMBRL", "R-OMBRL", "SW-OMBRL")
    ]


def test_the_page_holds_all_machines_and_not_every_optimum(
    machines: Comparison,
) -> None:
    page = report_page(machines, "Machines", "")
    poles = of(machines, "double-pendulum")
    count = len({row.theta for run in poles.runs for row in run.records})
    assert count > 200
    assert f"J*(θ) for 100 of the {count} θ that occur" in page
    assert page.count("J*(θ) for every θ that occurs") == 1  # the ant’s twenty
    assert page.count("<h3>Oracle</h3>") == 2
    assert f"<p>{UNTRAINED.provenance}</p>" in page
    assert page.count("A line is one run; the dotted line marks where θ") == 1
    # As a program reads it: strict JSON, with nothing for what one seed can’t tell.
    document = json.loads(json.dumps(comparison_document(machines), allow_nan=False))
    only = document["problems"][2]["methods"]["sombrl"]
    assert only["final_regret"]["standard_error"] is None
    assert only["minus_baseline"] is None

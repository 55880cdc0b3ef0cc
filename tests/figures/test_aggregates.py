"""The section on all runs together, its figures, and what it says in words."""

import dataclasses
import re
from html import unescape

import numpy as np
import pytest

from driftrl.figures.aggregate_wording import (
    aggregate_explanations,
    aggregate_notes,
    aggregate_sentences,
    improvement_caption,
    improvement_words,
    profile_caption,
)
from driftrl.figures.aggregates import (
    IMPROVEMENT,
    PROFILE,
    aggregate_figure,
    aggregate_section,
    aggregates_of,
)
from driftrl.figures.style import render
from driftrl.oracles.values import NO_ORACLE, OracleTable
from driftrl.records import Run
from driftrl.results.aggregates import Aggregates, aggregate
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret, compare_methods
from driftrl.results.score_table import OPTIMALITY, ScoreTable


def made_up(seeds: int = 4, problems: int = 2, apart: float = 1.0) -> Aggregates:
    """Return aggregates of evenly spaced scores, the second method ``apart`` above."""
    runs = np.linspace(0.0, 0.5, seeds)
    strata = {"sombrl": (runs,) * problems, "sw-ombrl": (runs + apart,) * problems}
    labels = tuple(f"a={place}" for place in range(problems))
    return aggregate(ScoreTable(OPTIMALITY, labels, strata), resamples=200)


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


@pytest.fixture
def one(study: StudyRegret) -> Comparison:
    return Comparison((study,))


def test_the_table_has_the_numbers_of_every_method(rates: Comparison) -> None:
    html, _ = aggregate_section(rates, "all-", 2)
    found = aggregates_of(rates)
    assert found is not None
    assert html.startswith("<h2>All problems together</h2>")
    header = re.findall(r"<th>(.*?)</th>", html)
    assert [re.sub("<.*", "", title) for title in header] == [
        *("Method", "Runs", "Interquartile mean", "Mean", "Median"),
        *("Optimality gap", "Beats SOMBRL"),
    ]
    rows = re.findall(r"<tr>(<td>.*?)</tr>", html)
    assert len(rows) == 3
    for row, (name, method) in zip(rows, found.methods.items(), strict=True):
        cells = [text_of(cell).strip() for cell in re.findall("<td>(.*?)</td>", row)]
        assert cells[0].lower() == name
        assert cells[1] == "6"
        low, high = method.iqm.interval.low, method.iqm.interval.high
        shown = f"{method.iqm.value:.2f} {low:.2f} to {high:.2f}"
        assert cells[2] == shown.replace("-", "−")
        assert method.optimality_gap is not None
        assert cells[5].startswith(f"{method.optimality_gap.value:.2f} ")
        assert (cells[6] == "–") == (name == "sombrl")


def test_every_figure_has_its_box(rates: Comparison, one: Comparison) -> None:
    for comparison in (rates, one):
        html, figures = aggregate_section(comparison, "all-", 3)
        assert list(figures) == [f"all-{PROFILE}", f"all-{IMPROVEMENT}"]
        boxes = re.findall(r'<div class="plot" id="plot-(.*?)"></div>', html)
        assert boxes == list(figures)
        assert html.count("<h4>") == 2


def test_profiles_are_drawn_with_their_bands(rates: Comparison) -> None:
    found = aggregates_of(rates)
    assert found is not None
    figure = aggregate_section(rates, "", 2)[1][PROFILE].to_plotly_json()
    for place, method in enumerate(found.methods.values()):
        band, line = figure["data"][2 * place], figure["data"][2 * place + 1]
        np.testing.assert_allclose(line["x"], found.thresholds, rtol=1e-6)
        np.testing.assert_allclose(line["y"], method.profile.value, rtol=1e-6)
        interval = method.profile.interval
        np.testing.assert_allclose(band["y"][:201], interval.high, rtol=1e-6)
        np.testing.assert_allclose(band["y"][201:], interval.low[::-1], rtol=1e-6)
        assert band["legendgroup"] == line["legendgroup"] == line["name"]
    assert figure["layout"]["yaxis"]["title"]["text"] == "share of runs above τ"


def test_probabilities_are_drawn_with_their_intervals(rates: Comparison) -> None:
    found = aggregates_of(rates)
    assert found is not None
    figure = aggregate_section(rates, "", 2)[1][IMPROVEMENT].to_plotly_json()
    assert [trace["y"] for trace in figure["data"]] == [["R-OMBRL"], ["SW-OMBRL"]]
    for trace, name in zip(figure["data"], ("r-ombrl", "sw-ombrl"), strict=True):
        expected = found.methods[name].improvement
        assert expected is not None
        (value,), reach = trace["x"], trace["error_x"]
        assert value == expected.value
        assert value + reach["array"][0] == pytest.approx(expected.interval.high)
        assert value - reach["arrayminus"][0] == pytest.approx(expected.interval.low)
    assert figure["layout"]["shapes"][0]["x0"] == 0.5


def test_one_problem_speaks_of_its_regret(one: Comparison) -> None:
    html, figures = aggregate_section(one, "", 2)
    assert html.startswith("<h2>All runs together</h2>")
    assert "Optimality gap" not in html
    assert "R<sub>30</sub>" in html
    axis = figures[PROFILE].to_plotly_json()["layout"]["yaxis"]
    assert axis["title"]["text"] == "share of runs below τ"


def test_where_nothing_can_be_said_there_is_no_section(
    single: StudyRegret, unfinished: StudyRegret
) -> None:
    for study in (single, unfinished):
        assert aggregate_section(Comparison((study,)), "", 2) == ("", {})
        assert aggregate_figure(Comparison((study,))) is None


def test_names_from_files_are_escaped(runs: list[Run], table: OracleTable) -> None:
    strange = "<script>alert(1)</script>"
    renamed = [
        dataclasses.replace(run, config={**run.config, "method": strange})
        if run.method == "sw-ombrl"
        else run
        for run in runs
    ]
    html, figures = aggregate_section(
        Comparison((compare_methods(renamed, table),)), "", 2
    )
    assert "<script>" not in html and "&lt;script&gt;" in html
    for figure in figures.values():
        traces = figure.to_plotly_json()["data"]
        names = [trace.get("name", trace["y"][0]) for trace in traces]
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in names


def test_sentences_say_which_method_how_much_and_how_sure() -> None:
    best, chance, *_ = aggregate_sentences(made_up(apart=0.25))
    # Eight runs: the middle four of 0, 1/6, 1/3, 1/2 twice are 1/6 and 1/3 twice.
    assert best.startswith(
        "Over 2 problems and 8 runs of each method, SW-OMBRL has the best "
        "interquartile mean, with a score of 0.50 (95\u00a0% bootstrap interval "
    )
    # x = i/6 + 1/4 exceeds y = j/6 where j < i + 1.5: for 2, 3, 4 and 4 of four j.
    assert chance.startswith(
        "A run beats one of SOMBRL on the same problem with a probability of "
        "81\u00a0% for SW-OMBRL ("
    )


def test_even_chances_are_called_so() -> None:
    assert aggregate_sentences(made_up(apart=0.0))[-1] == (
        "The interval of SW-OMBRL contains 50\u00a0%."
    )
    assert len(aggregate_sentences(made_up(apart=1.0))) == 2
    # The best is none of two that came to the same.
    assert aggregate_sentences(made_up(apart=0.0))[0].startswith(
        "Over 2 problems and 8 runs of each method, SOMBRL and SW-OMBRL share the best "
        "interquartile mean, with"
    )


def test_winning_every_pair_is_not_called_certain() -> None:
    found = made_up(apart=1.0)
    improvement = found.methods["sw-ombrl"].improvement
    assert improvement is not None
    assert improvement_words(improvement) == "every pair"
    assert "that is not certainty" in " ".join(aggregate_notes(found))
    lost = made_up(apart=-1.0).methods["sw-ombrl"].improvement
    assert lost is not None and improvement_words(lost) == "no pair"
    assert "certainty" not in " ".join(aggregate_notes(made_up(apart=0.0)))


def test_notes_say_what_the_score_is_and_what_was_left_out() -> None:
    assert aggregate_notes(made_up(apart=0.0)) == [
        "Below each number is its 95\u00a0% bootstrap interval.",
        OPTIMALITY.meaning,
    ]
    table = dataclasses.replace(
        made_up(apart=0.0).table,
        problems_left_out=("a=7",),
        methods_left_out=("r-ombrl",),
        runs_left_out=3,
    )
    assert aggregate_notes(aggregate(table, resamples=9))[-1] == (
        "Every method is judged by the same problems and seeds, at least two seeds a "
        "problem; 3 runs without a counterpart are left out: a = 7 and R-OMBRL."
    )
    uneven = (np.arange(2.0), np.arange(3.0))
    table = ScoreTable(OPTIMALITY, ("a", "b"), {"sombrl": uneven, "sw-ombrl": uneven})
    assert "Problems with more seeds count for more." in aggregate_notes(
        aggregate(table, resamples=9)
    )


def test_explanations_fit_the_numbers() -> None:
    assert aggregate_explanations(made_up())[0].startswith("The interquartile mean is")
    few = made_up(seeds=3, problems=1)
    assert aggregate_explanations(few)[0] == (
        "Of 3 runs no quarter can be cut: the interquartile mean is the mean."
    )
    assert "short of a score of 1" in " ".join(aggregate_explanations(few))


def test_captions_say_how_to_read_a_figure(one: Comparison) -> None:
    found = aggregates_of(one)
    assert found is not None
    assert "a regret R_30 of less than the value" in profile_caption(found)
    assert "a score of more than the value" in profile_caption(made_up())
    assert "Bands are 95\u00a0%" in profile_caption(found)
    assert "on the same problem, averaged" in improvement_caption(made_up())
    assert "problem" not in improvement_caption(found)


def test_the_printed_figure_shows_the_same_numbers(rates: Comparison) -> None:
    found, figure = aggregates_of(rates), aggregate_figure(rates)
    assert found is not None and figure is not None
    means, chances, profiles = figure.axes
    names = [label.get_text() for label in means.get_yticklabels()]
    assert names == ["SOMBRL", "R-OMBRL", "SW-OMBRL"]
    marks = [np.asarray(line.get_xdata()).item() for line in means.lines]
    assert marks == [one.iqm.value for one in found.methods.values()]
    assert len(chances.lines) == 3  # two methods, and the line at one half
    for line, one in zip(profiles.lines, found.methods.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), one.profile.value)
    assert means.get_title(loc="left") == (
        "3 problems × 2 seeds, 95\u00a0% bootstrap intervals"
    )
    assert render(figure, "png").startswith(b"\x89PNG")


def test_many_methods_have_no_profiles_in_print(ablation: StudyRegret) -> None:
    figure = aggregate_figure(Comparison((ablation,)))
    assert figure is not None
    means, chances = figure.axes
    assert means.get_xlabel() == "Interquartile mean, regret $R_{30}$"
    assert chances.get_xlabel() == "Probability of beating R-OMBRL (α = 0)"
    html, _ = aggregate_section(Comparison((ablation,)), "", 2)
    assert html.count('<figure class="wide">') == 2
    assert "Bands" not in html


def test_returns_are_compared_where_no_optimum_is_known(runs: list[Run]) -> None:
    study = compare_methods(runs, NO_ORACLE)
    html, figures = aggregate_section(Comparison((study,)), "", 2)
    assert "its mean return over 30 episodes" in html
    axis = figures[PROFILE].to_plotly_json()["layout"]["xaxis"]
    assert axis["title"]["text"] == "τ, mean return"

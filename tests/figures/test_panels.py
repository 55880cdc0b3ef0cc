"""Panels hold what the records say, and nothing where they say nothing."""

import dataclasses

import numpy as np

from driftrl.figures.panels import (
    Panel,
    coverage_panel,
    epistemic_panel,
    error_panel,
    optimism_panel,
    return_panel,
    smoothing_width,
    soft_reset_rows,
    soft_resets,
    span_panel,
    study_changes,
    study_panels,
    temperature_panel,
    theta_panel,
)
from driftrl.results.regret import StudyRegret, compare_methods


def test_curves_are_columns_of_the_records(study: StudyRegret) -> None:
    runs = study.runs_of("r-ombrl")
    expected = [[record.return_executed for record in run.records] for run in runs]
    np.testing.assert_array_equal(return_panel(study).curves["r-ombrl"], expected)
    spans = span_panel(study).curves
    np.testing.assert_array_equal(spans["sombrl"][0], np.arange(30))
    np.testing.assert_array_equal(spans["sw-ombrl"][0], np.minimum(np.arange(30), 6))
    errors = error_panel(study).curves["sombrl"]
    assert np.isnan(errors[:, 0]).all()
    assert errors[2, 5] == study.runs_of("sombrl")[2].records[5].model_error


def test_only_what_is_noisy_is_smoothed(study: StudyRegret) -> None:
    smoothed = {one.key: one.over(5) for one in study_panels(study)}
    told = {key: one.title.partition(", ")[2] for key, one in smoothed.items()}
    assert {key: words for key, words in told.items() if words} == {
        "returns": "mean of 5",
        "model_error": "median of 5",
        "coverage": "mean of 5",
        "epistemic_std": "median of 5",
    }
    for panel in study_panels(study):
        assert panel.over(1) is panel
        expected, drawn = panel.curves.get("sombrl"), smoothed[panel.key].curves
        if expected is None:
            continue
        middle = expected[:, 9:14]  # around episode 12
        value = {
            "mean of 5": middle.mean(axis=1),
            "median of 5": np.median(middle, axis=1),
        }
        known = value.get(told[panel.key], expected[:, 11])
        np.testing.assert_allclose(drawn["sombrl"][:, 11], known)


def test_only_long_courses_are_smoothed_and_by_an_odd_number(
    study: StudyRegret,
) -> None:
    def lasting(episodes: int) -> int:
        runs = [
            dataclasses.replace(run, records=run.records[:1] * episodes)
            for run in study.runs
        ]
        return smoothing_width(dataclasses.replace(study, runs=tuple(runs)))

    assert [lasting(n) for n in (30, 150, 151, 300, 1500)] == [1, 1, 5, 11, 51]


def test_references_are_theta_and_its_optimum(study: StudyRegret) -> None:
    (theta,) = theta_panel(study).references
    np.testing.assert_array_equal(
        theta.values, [record.theta for record in study.runs[0].records]
    )
    (optimum,) = return_panel(study).references
    np.testing.assert_allclose(optimum.values, -60 - 200 / theta.values)


def test_the_change_begins_after_episode_10(study: StudyRegret) -> None:
    assert study_changes(study) == [11]


def test_all_methods_are_in_every_panel_but_thetas(study: StudyRegret) -> None:
    panels = study_panels(study)
    assert [panel.key for panel in panels] == [
        "theta",
        "returns",
        "regret",
        "span",
        "model_error",
        "coverage",
        "epistemic_std",
    ]
    for panel in panels[1:]:
        assert list(panel.curves) == ["sombrl", "r-ombrl", "sw-ombrl"]


def test_panels_without_records_are_empty(study: StudyRegret) -> None:
    blind = [
        dataclasses.replace(
            run,
            records=tuple(
                dataclasses.replace(record, coverage=None) for record in run.records
            ),
        )
        for run in study.runs
    ]
    panel = coverage_panel(compare_methods(blind, study.table))
    assert panel.is_empty
    assert not coverage_panel(study).is_empty


def test_details_are_shown_where_they_were_recorded(
    study: StudyRegret, ablation: StudyRegret
) -> None:
    keys = [panel.key for panel in study_panels(ablation)]
    assert keys[-3:] == ["epistemic_std", "optimism", "temperature"]
    n = np.arange(1, 31)
    curves = temperature_panel(ablation).curves["r-ombrl alpha=0.2"]
    np.testing.assert_allclose(curves, [0.5 + 0.5 / n] * 3)
    curves = optimism_panel(ablation).curves["r-ombrl model=1"]
    np.testing.assert_allclose(curves, [1 / n] * 3)
    uncertain = epistemic_panel(study).curves["sombrl"]
    np.testing.assert_array_equal(uncertain[0], [np.nan] + [0.1] * 29)
    # The same λ in every episode is a setting, and not worth a panel.
    assert optimism_panel(study).is_empty
    assert temperature_panel(study).is_empty


def test_soft_resets_are_read_off_the_records(
    study: StudyRegret, ablation: StudyRegret
) -> None:
    assert soft_resets(study) == {}
    assert soft_reset_rows(study) == []
    found = soft_resets(ablation)
    assert list(found) == [one.method for one in ablation.methods]
    assert set(map(tuple, found.values())) == {(8, 15, 22, 29)}


def with_soft_resets(study: StudyRegret, episodes: dict[str, set[int]]) -> StudyRegret:
    runs = [
        dataclasses.replace(
            run,
            records=tuple(
                dataclasses.replace(
                    record,
                    soft_reset=record.episode in episodes.get(run.method, ()),
                )
                for record in run.records
            ),
        )
        for run in study.runs
    ]
    return compare_methods(runs, study.table)


def test_methods_that_are_reset_together_share_a_row(study: StudyRegret) -> None:
    resets = {"sombrl": {5, 9}, "sw-ombrl": {5, 9}, "r-ombrl": {7}}
    first, second = soft_reset_rows(with_soft_resets(study, resets))
    assert (first.methods, first.episodes) == (("sombrl", "sw-ombrl"), (5, 9))
    assert (second.methods, second.episodes) == (("r-ombrl",), (7,))
    assert 0 == first.low < first.high < second.low < second.high < 0.15


def with_values(*values: float, is_scale: bool = True) -> Panel:
    curves = {"sombrl": np.array([values])}
    return Panel("key", "title", "axis", "caption", curves, is_scale=is_scale)


def test_a_log_axis_is_used_for_positive_values_far_apart() -> None:
    assert with_values(0.02, 0.9).log_ticks == [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert with_values(0.1, 0.9).log_ticks == []
    assert with_values(0.0, 0.9).log_ticks == []
    assert with_values(np.nan, np.nan).log_ticks == []
    assert with_values(0.02, 0.9, is_scale=False).log_ticks == []

"""A score for each run of a study, so that methods can be judged over all problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.errors import counted, require
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret, optimal_returns, usual_baseline
from driftrl.results.scores import mean_returns

_FEWEST_SEEDS = 2  # a single run says nothing about its scatter

Strata = tuple[Float[np.ndarray, " _"], ...]
"""Scores of the runs of one method, an array for each problem."""


@dataclass(frozen=True)
class Measure:
    """What a run is judged by."""

    name: str
    """In two or three words."""
    meaning: str
    """In a sentence or two, which belong wherever the numbers are shown."""
    higher_is_better: bool = True
    target: float | None = None
    """The score of a run that is optimal throughout; None where none is known."""

    def oriented(self, scores: np.ndarray) -> np.ndarray:
        """Return scores of which more is better."""
        return np.asarray(scores if self.higher_is_better else -scores)


@dataclass(frozen=True)
class ScoreTable:
    """A score for every run that counts."""

    measure: Measure
    problems: tuple[str, ...]
    """Labels of the problems that count."""
    scores: Mapping[str, Strata]
    """Of each method that counts, the scores of its seeds on each problem."""
    problems_left_out: tuple[str, ...] = ()
    methods_left_out: tuple[str, ...] = ()
    runs_left_out: int = 0
    """Number of runs that have begun and do not count."""

    def __post_init__(self) -> None:
        shapes = {name: [*map(len, one)] for name, one in self.scores.items()}
        require(
            bool(shapes)
            and all(len(one) == len(self.problems) for one in shapes.values())
            and all(min(one, default=0) >= _FEWEST_SEEDS for one in shapes.values()),
            "Aggregates need at least two seeds of every method on every problem; "
            f"received {shapes} for {counted(len(self.problems), 'problem')}.",
        )
        require(
            all(np.isfinite(pooled(one)).all() for one in self.scores.values()),
            "Every score must be finite.",
        )

    @property
    def baseline(self) -> str | None:
        """The method that the others are compared with; None if it does not count."""
        name = usual_baseline(self.scores)
        return name if name in self.scores else None


def score_table(comparison: Comparison) -> ScoreTable | None:
    """Return the scores of a study's runs; None if there is nothing to aggregate.

    All methods are judged by the same mixture of problems.  Those count on which every
    method was run (if there is none, the methods that were run on all of them), and of
    each the seeds that all these methods ran, if that is two at least.

    The score must mean the same on every problem that counts.  It is, for

    * one problem, what a report speaks of anyway: R_N, or the mean return of an episode
      where J* is not known;
    * several, on each of which J* is known: ``optimality_scores``;
    * several otherwise: ``ranged_scores`` on every one of them.  Nothing can be said of
      an optimality gap then.
    """
    studies, methods = _complete(comparison.studies)
    kept = [
        (study, seeds)
        for study in studies
        if len(seeds := _shared_seeds(study, methods)) >= _FEWEST_SEEDS
    ]
    if len(methods) < 2 or not kept:
        return None
    measure, values = _scores([study for study, _ in kept])
    columns = [
        _selected(study, scores, methods, seeds)
        for (study, seeds), scores in zip(kept, values, strict=True)
    ]
    if measure == RANGED:
        columns = [ranged_scores(column) for column in columns]
    problems = tuple(study.problem for study, _ in kept)
    labels = [*(study.problem for study in comparison.studies), *comparison.waiting]
    names = _method_names(comparison.studies)
    begun = sum(len(study.runs) for study in comparison.studies)
    return ScoreTable(
        measure=measure,
        problems=problems,
        scores={name: tuple(column[name] for column in columns) for name in methods},
        problems_left_out=tuple(label for label in labels if label not in problems),
        methods_left_out=tuple(name for name in names if name not in methods),
        runs_left_out=begun - len(methods) * sum(len(seeds) for _, seeds in kept),
    )


OPTIMALITY = Measure(
    "score",
    "The score of a run is 1 − R_N / Σ|J*(θ_n)|: 1 if every episode was optimal, 0.9 "
    "if its returns were short of the optimum by 10 % of |J*|. Where rewards are "
    "positive that is the share of the best possible return; where they are costs, 0 "
    "is twice the least possible cost, and scores below 0 occur.",
    target=1.0,
)
RANGED = Measure(
    "score",
    "J*(θ) is not known for all problems, so the score of a run is where its mean "
    "return lies between that of the worst run of its problem, 0, and that of the "
    "best, 1. It compares the runs of this study with each other: it does not say how "
    "good they are, and other runs would change it. There is no optimality gap.",
)


def optimality_scores(study: StudyRegret) -> dict[str, Float[np.ndarray, " _"]]:
    """Return 1 − R_N / Σ_{n ≤ N} |J*(θ_n)| of the seeds of each method.

    1 minus the relative gap to the optimum, weighted by |J*| so that an episode in
    which next to nothing can be had does not decide.  For J* > 0 it is ΣJ / ΣJ*, the
    share that was achieved; for costs, J* < 0, it is 2 − ΣJ / ΣJ*.  It is defined for
    every J* but zero throughout, and does not depend on other runs.  Like every ratio
    it depends on where the task puts the zero of its rewards.
    """
    possible = {
        one.method: np.array(
            [
                np.abs(
                    optimal_returns(run.records[: study.episodes], study.table)
                ).sum()
                for run in study.runs_of(one.method)
            ]
        )
        for one in study.methods
    }
    return {
        one.method: 1 - one.final.values / possible[one.method] for one in study.methods
    }


def ranged_scores(
    values: Mapping[str, Float[np.ndarray, " _"]],
) -> dict[str, Float[np.ndarray, " _"]]:
    """Map the values on one problem to [0, 1], the worst run to 0 and the best to 1.

    If all are equal they are ½.
    """
    everyone = np.concatenate([*values.values()])
    low, high = everyone.min(), everyone.max()
    if low == high:
        return {name: np.full(len(one), 0.5) for name, one in values.items()}
    return {name: (one - low) / (high - low) for name, one in values.items()}


def _scores(
    studies: Sequence[StudyRegret],
) -> tuple[Measure, list[dict[str, Float[np.ndarray, " _"]]]]:
    """Return what to judge by, and the value of every run of each problem."""
    if len(studies) == 1:
        (study,) = studies
        return _own_measure(study), [_own_scores(study)]
    if all(_has_optimum(study) for study in studies):
        return OPTIMALITY, [optimality_scores(study) for study in studies]
    return RANGED, [_mean_returns(study) for study in studies]


def _own_measure(study: StudyRegret) -> Measure:
    episodes = counted(study.episodes, "episode")
    if study.table.known:
        return Measure(
            f"regret R_{study.episodes}",
            f"The score of a run is its cumulative regret after {episodes}: less "
            "is better. The optimum has none, so the mean is the optimality gap, too.",
            higher_is_better=False,
        )
    return Measure(
        "mean return",
        f"The score of a run is its mean return over {episodes}: more is better. J*(θ) "
        "is not known, so there is no optimality gap.",
    )


def _own_scores(study: StudyRegret) -> dict[str, Float[np.ndarray, " _"]]:
    if not study.table.known:
        return _mean_returns(study)
    return {one.method: one.final.values for one in study.methods}


def _mean_returns(study: StudyRegret) -> dict[str, Float[np.ndarray, " _"]]:
    return {method: one.values for method, one in mean_returns(study).items()}


def _has_optimum(study: StudyRegret) -> bool:
    """Whether J* is known and not zero throughout any run."""
    return study.table.known and all(
        optimal_returns(run.records[: study.episodes], study.table).any()
        for run in study.runs
    )


def _complete(
    studies: Sequence[StudyRegret],
) -> tuple[list[StudyRegret], list[str]]:
    """Return the problems and the methods of which every pair was run."""
    names = _method_names(studies)
    ran = [{one.method for one in study.methods} for study in studies]
    full = [s for s, some in zip(studies, ran, strict=True) if some == set(names)]
    if full:
        return full, names
    return list(studies), [name for name in names if all(name in some for some in ran)]


def _method_names(studies: Sequence[StudyRegret]) -> list[str]:
    return list(dict.fromkeys(one.method for study in studies for one in study.methods))


def _shared_seeds(study: StudyRegret, methods: Sequence[str]) -> list[int]:
    seeds = [set(one.seeds) for one in study.methods if one.method in methods]
    return sorted(set.intersection(*seeds)) if seeds else []


def _selected(
    study: StudyRegret,
    values: Mapping[str, Float[np.ndarray, " _"]],
    methods: Sequence[str],
    seeds: Sequence[int],
) -> dict[str, Float[np.ndarray, " _"]]:
    known = {one.method: one.seeds for one in study.methods}
    return {
        name: values[name][[known[name].index(seed) for seed in seeds]]
        for name in methods
    }


def pooled(strata: Sequence[Float[np.ndarray, "*R _"]]) -> Float[np.ndarray, "*R K"]:
    """Return the runs of all problems along one axis, the last."""
    return np.concatenate(strata, axis=-1)

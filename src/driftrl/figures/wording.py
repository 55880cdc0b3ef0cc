"""Numbers and findings in words; every one is computed from a ``StudyRegret``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from driftrl.errors import counted
from driftrl.figures.style import method_name, problem_name
from driftrl.records import Run
from driftrl.results.comparison import Comparison
from driftrl.results.curves import theta_is_known, theta_sequences
from driftrl.results.late import AFTER_RESET, LAST_EPISODES
from driftrl.results.regret import GapStatistics, PairedDifference, StudyRegret
from driftrl.results.scores import Scores, late_returns, scores_of
from driftrl.results.statistics import LEVEL, Estimate, Interval

UNKNOWN = "–"
_MOST_COMPARED = 4  # with more, only the directions of differences are said
_MOST_NAMED = 6  # a sentence with more names than this is not read


@dataclass(frozen=True)
class _Words:
    """How to speak of what methods are compared by, be it regret or return."""

    span: str
    """Which episodes are meant by a count of them."""
    noun: str
    best: str
    only: str
    """What the best of several methods has, and what the only one has."""
    best_briefly: str
    only_briefly: str
    verbs: tuple[str, str]
    """Of one method, and of several."""
    sides: tuple[str, str]
    """Where a negative difference puts a method, and a positive one."""
    better: int
    """Which of the two is better."""
    unit: str
    than: str
    compared: str
    """What differences are differences of, where that has to be said."""

    def side(self, difference: float) -> str:
        """Return on which side of the baseline a method is."""
        return self.sides[difference >= 0]

    def apart(self, difference: float, whole: float = math.nan) -> str:
        """Return “ends 30.0 below”, or “ends 30.0 (12 %) below” if ``whole`` is 250."""
        amount = number(abs(difference))
        if whole > 0:
            amount += f" ({percent(abs(difference) / whole)})"
        return f"{self.verbs[0]} {amount} {self.side(difference)}{self.unit}"


_REGRET = _Words(
    span="After",
    noun="cumulative dynamic regret",
    best="has the lowest cumulative dynamic regret,",
    only="has a cumulative dynamic regret of",
    best_briefly="the lowest regret,",
    only_briefly="a regret of",
    verbs=("ends", "end"),
    sides=("below", "above"),
    better=0,
    unit="",
    than="",
    compared="",
)
_RETURN = _Words(
    span="Over",
    noun="mean return",
    best="has the highest mean return,",
    only="has a mean return of",
    best_briefly="the highest mean return,",
    only_briefly="a mean return of",
    verbs=("returns", "return"),
    sides=("less", "more"),
    better=1,
    unit=" an episode",
    than=" than",
    compared=" in mean return",
)


def _words(study: StudyRegret) -> _Words:
    return _REGRET if study.table.known else _RETURN


def number(value: float) -> str:
    """Return a number to about three digits."""
    if not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 100:
        text = f"{value:,.0f}"
    elif size >= 10:
        text = f"{value:.1f}"
    elif size >= 0.01:
        text = f"{value:.2f}"
    else:
        text = f"{value:.2g}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share in percent."""
    if not math.isfinite(share):
        return UNKNOWN
    digits = 0 if abs(share) >= 0.1 else 1
    # The space must not let a line break between a number and its sign.
    return f"{100 * share:,.{digits}f}\u00a0%".replace("-", "−")


def mean_and_error(estimate: Estimate) -> str:
    """Return “mean ± standard error”, or the mean alone where one seed was run."""
    if math.isnan(estimate.stderr):
        return number(estimate.mean)
    return f"{number(estimate.mean)} ± {number(estimate.stderr)}"


def span(interval: Interval) -> str:
    """Return “low to high”."""
    if not math.isfinite(float(interval.low)):
        return UNKNOWN
    return f"{number(float(interval.low))} to {number(float(interval.high))}"


def listing(items: Sequence[str]) -> str:
    """Return “a, b and c”, cut short where there are many."""
    if len(items) > _MOST_NAMED:
        rest = len(items) - _MOST_NAMED
        items = [*items[:_MOST_NAMED], f"{rest} more"]
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def study_summary(study: StudyRegret) -> list[str]:
    """Return the findings of a study as sentences, the most important first."""
    words, scores = _words(study), scores_of(study)
    is_short = len(scores.differences) <= _MOST_COMPARED
    sentences = [
        _best_sentence(study, scores),
        *(
            _difference_sentence(one, words, _whole(study, scores))
            for one in scores.differences
            if is_short
        ),
        "" if is_short else _verdicts_sentence(study, scores),
        _comparison_caveat(study),
        _courses_sentence(study),
        _before_change_sentence(scores.before_change, words) if is_short else "",
        _gap_sentence(study) if study.table.known else _late_sentence(study),
        _unfinished_sentence(study),
        _warning_sentence(study),
    ]
    return [sentence for sentence in sentences if sentence]


def comparison_summary(comparison: Comparison) -> list[str]:
    """Return what was found on each of several problems, a sentence for each."""
    sentences = [_problem_sentence(study) for study in comparison.studies]
    unfinished = [
        problem_name(study.problem)
        for study in comparison.studies
        if _unfinished_sentence(study)
    ]
    if unfinished:
        sentences.append(f"Not finished yet: {listing(unfinished)}; see there.")
    if comparison.waiting:
        waiting = [problem_name(label) for label in comparison.waiting]
        sentences.append(f"Not started yet: {listing(waiting)}.")
    beaten = [
        problem_name(study.problem) for study in comparison.studies if study.warnings
    ]
    if beaten:
        sentences.append(
            f"The oracle was beaten beyond noise at {listing(beaten)}: every regret "
            "there is too low."
        )
    return sentences


def _problem_sentence(study: StudyRegret) -> str:
    words, scores = _words(study), scores_of(study)
    claim = words.best_briefly if len(study.methods) > 1 else words.only_briefly
    claim = f"{method_name(scores.best)} has {claim}"
    start = (
        f"{problem_name(study.problem)}: {words.span.lower()} "
        f"{counted(study.episodes, 'episode')} {_tie(scores, words) or claim} "
        f"{mean_and_error(scores.finals[scores.best])}"
    )
    parts = [_difference_words(one, words) for one in scores.differences]
    if not parts:
        return f"{start}."
    return f"{start}; compared to {method_name(study.baseline)}, {listing(parts)}."


def _tie(scores: Scores, words: _Words) -> str:
    """Say that several methods are the best, if they are."""
    names = [method_name(name) for name in scores.leaders]
    if len(names) < 2:
        return ""
    if len(names) == len(scores.finals):
        return f"{listing(names)} have the same {words.noun},"
    return f"{listing(names)} share {words.best.removeprefix('has ')}"


def _is_zero(difference: PairedDifference) -> bool:
    """Whether two methods came to exactly the same on every seed."""
    return not difference.estimate.values.any()


def _difference_words(one: PairedDifference, words: _Words) -> str:
    if _is_zero(one):
        return f"{method_name(one.method)} is equal on every seed"
    said = f"{method_name(one.method)} {words.apart(one.estimate.mean)}"
    if len(one.seeds) < 2:
        return f"{said} (one seed)"
    verdict = "" if one.estimate.student.excludes(0.0) else ", which contains zero"
    interval = f"{percent(LEVEL)} t interval {span(one.estimate.student)}"
    return f"{said} ({interval}{verdict})"


def _whole(study: StudyRegret, scores: Scores) -> float:
    """Return the regret that differences are shares of; a return has no such zero."""
    known = study.table.known and study.baseline in scores.finals
    return scores.finals[study.baseline].mean if known else math.nan


def _best_sentence(study: StudyRegret, scores: Scores) -> str:
    words = _words(study)
    best = scores.finals[scores.best]
    count = len(best.values)
    seeds = f"mean ± standard error over {count} seeds" if count > 1 else "one seed"
    claim = words.best if len(study.methods) > 1 else words.only
    claim = _tie(scores, words) or f"{method_name(scores.best)} {claim}"
    # Where a study has several tasks, the label begins with the task.
    tasks, _, rest = study.problem.partition(" ")
    setting = rest if tasks == study.task else study.problem
    name = problem_name(setting)
    # “with a = 0.1”, but the name of a study stands in brackets.
    where = f" with {name}" if "=" in setting.partition(",")[0] else f" ({name})"
    where = where if setting else ""
    return (
        f"{words.span} {counted(study.episodes, 'episode')} of {study.task}{where}, "
        f"{claim} {mean_and_error(best)} ({seeds})."
    )


def _difference_sentence(one: PairedDifference, words: _Words, whole: float) -> str:
    estimate, baseline = one.estimate, method_name(one.baseline)
    if _is_zero(one):
        seeds = counted(len(one.seeds), "seed")
        return f"{method_name(one.method)} equals {baseline} on the same {seeds}."
    apart = words.apart(estimate.mean, whole)
    start = f"{method_name(one.method)} {apart}{words.than} {baseline}"
    if len(one.seeds) < 2:
        return f"{start} on the one seed that both ran, too few for an interval."
    verdict = (
        "which excludes zero"
        if estimate.student.excludes(0.0)
        else "which contains zero: these seeds do not tell the two apart"
    )
    return (
        f"{start} on the same {len(one.seeds)} seeds (paired {percent(LEVEL)} t "
        f"interval of the difference {span(estimate.student)}, {verdict})."
    )


def _verdicts_sentence(study: StudyRegret, scores: Scores) -> str:
    """Say of many differences only which way they go."""
    words = _words(study)
    order = words.sides[words.better], words.sides[1 - words.better]
    verdicts: dict[str, list[str]] = {side: [] for side in (*order, "neither")}
    for one in scores.differences:
        side = words.side(one.estimate.mean)
        side = side if one.estimate.student.excludes(0.0) else "neither"
        verdicts[side].append(method_name(one.method))
    parts = [
        f"{listing(verdicts[side])} {words.verbs[len(verdicts[side]) > 1]} "
        f"{side}{words.than} it"
        for side in order
        if verdicts[side]
    ]
    if verdicts["neither"]:
        parts.append(f"{listing(verdicts['neither'])} cannot be told from it")
    return (
        f"Compared to {method_name(study.baseline)} on the same seeds, by the paired "
        f"{percent(LEVEL)} t interval, {'; '.join(parts)}."
    )


def _comparison_caveat(study: StudyRegret) -> str:
    names = [one.method for one in study.methods]
    if not study.table.known and len(names) == 1:
        return ""  # who runs one method on a machine is not comparing
    if study.baseline not in names:
        return (
            f"{method_name(study.baseline)} was not run, so nothing is compared to it."
        )
    compared = {one.method for one in study.differences}
    apart = [name for name in names if name not in compared | {study.baseline}]
    if not apart:
        return ""
    return (
        f"{listing([method_name(name) for name in apart])} shared no seed with "
        f"{method_name(study.baseline)}, so no paired difference is known."
    )


def _courses_sentence(study: StudyRegret) -> str:
    if not theta_is_known(study.runs) or len(theta_sequences(study.runs)) == 1:
        return ""
    last = [run.records[study.episodes - 1].theta for run in study.runs]
    return (
        "θ did not take the same course in every run: in episode "
        f"{study.episodes} it lies between {min(last):.3g} and {max(last):.3g}. "
        "Methods are compared at the same episode, not at the same θ."
    )


def _before_change_sentence(
    differences: Sequence[PairedDifference], words: _Words
) -> str:
    if not differences:
        return ""
    parts = [
        f"{number(one.estimate.mean)} for {method_name(one.method)}"
        + (f" ({span(one.estimate.student)})" if len(one.seeds) > 1 else "")
        for one in differences
    ]
    return (
        f"Up to episode {differences[0].episode}, before θ begins to change, the "
        f"differences{words.compared} to {method_name(differences[0].baseline)} were "
        f"{listing(parts)}."
    )


def _gap_sentence(study: StudyRegret) -> str:
    outside = {gap.method: gap for gap in study.gaps_outside_resets}
    parts = [
        _gap_words(gap, outside[gap.method])
        for gap in sorted(study.gaps, key=_gap_size)
        if gap.estimate is not None
    ]
    if not parts:
        return ""
    last = study.gaps[0].last
    return (
        f"Over the last {counted(last, 'episode')} the mean return lies short of "
        f"J*(θ), relative to |J*(θ)|, by {listing(parts)}."
    )


def _gap_size(gap: GapStatistics) -> float:
    return math.inf if gap.estimate is None else gap.estimate.mean


def _gap_words(gap: GapStatistics, outside: GapStatistics) -> str:
    assert gap.estimate is not None
    words = f"{percent(gap.estimate.mean)} for {method_name(gap.method)}"
    if outside.estimate is None:
        return f"{words} (all within {outside.after_reset} episodes of a reset)"
    if outside.estimate.mean != gap.estimate.mean:
        words += (
            f" ({percent(outside.estimate.mean)} without the {outside.after_reset} "
            "episodes after a reset)"
        )
    return words


def _late_sentence(study: StudyRegret) -> str:
    outside = late_returns(study, after_reset=AFTER_RESET)
    late = {name: one for name, one in late_returns(study).items() if one is not None}
    parts = []
    for name in sorted(late, key=lambda name: -late[name].mean):
        words, without = mean_and_error(late[name]), outside[name]
        if len(late) > 1:
            words += f" for {method_name(name)}"
        if without is not None and without.mean != late[name].mean:
            words += (
                f" ({number(without.mean)} without the {AFTER_RESET} episodes after a "
                "reset)"
            )
        parts.append(words)
    last = counted(min(LAST_EPISODES, study.episodes), "episode")
    return f"Over the last {last} the mean return is {listing(parts)}."


def _unfinished_sentence(study: StudyRegret) -> str:
    waiting = [f"{run.label} (not started)" for run in study.not_started]
    unfinished = [progress(run) for run in study.runs if not run.is_finished]
    if not waiting and not unfinished:
        return ""
    return (
        f"Unfinished: {listing([*unfinished, *waiting])}. All numbers are taken at "
        f"episode {study.episodes}, the last that every started run has reached."
    )


def progress(run: Run) -> str:
    """Return a run's label with how far it has come."""
    planned = counted(run.planned_episodes, "episode")
    return f"{run.label} ({len(run.records)} of {planned})"


def _warning_sentence(study: StudyRegret) -> str:
    if not study.warnings:
        return ""
    return (
        "Some regret is negative beyond noise: the oracle is not an optimum, and every "
        "regret here is too low. See the section on the oracle."
    )

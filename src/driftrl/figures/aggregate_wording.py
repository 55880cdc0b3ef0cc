"""What all runs of a study say together, in words."""

from collections.abc import Callable

from driftrl.errors import counted
from driftrl.figures.style import method_name, problem_name
from driftrl.figures.wording import listing, number, percent
from driftrl.results.aggregates import RESAMPLES, Aggregate, Aggregates
from driftrl.results.score_table import ScoreTable
from driftrl.results.statistics import LEVEL

EVEN = 0.5
"""The probability of beating one's equal."""
_MOST_BANDS = 5  # more would hide each other
_MOST_COMPARED = 4  # more numbers in a sentence are not read
_FEWEST_CUT = 4  # of fewer runs no outer quarter can be cut


def aggregate_sentences(aggregates: Aggregates) -> list[str]:
    """Return which method is best over all runs, and how likely each beats another."""
    table, best = aggregates.table, aggregates.best
    iqm = aggregates.methods[best].iqm
    runs = counted(aggregates.methods[best].runs, "run")
    several = len(table.problems) > 1
    where = f"{counted(len(table.problems), 'problem')} and " if several else ""
    leaders = [
        method_name(name)
        for name, one in aggregates.methods.items()
        if one.iqm.value == iqm.value
    ]
    verb = "has" if len(leaders) == 1 else "share"
    sentences = [
        f"Over {where}{runs} of each method, {listing(leaders)} {verb} the best "
        f"interquartile mean, with a {table.measure.name} of "
        f"{number(float(iqm.value))} ({percent(LEVEL)} bootstrap interval "
        f"{interval_words(iqm, number)})."
    ]
    improvements = improvements_of(aggregates)
    if table.baseline is None or not 0 < len(improvements) <= _MOST_COMPARED:
        return sentences
    parts = [
        f"{percent(float(one.value))} for {method_name(name)} "
        f"({improvement_words(one)})"
        for name, one in improvements.items()
    ]
    same = " on the same problem" if several else ""
    sentences.append(
        f"A run beats one of {method_name(table.baseline)}{same} with a probability of "
        f"{listing(parts)}."
    )
    alike = [n for n, one in improvements.items() if not one.interval.excludes(EVEN)]
    if alike:
        names = listing([method_name(name) for name in alike])
        ending, verb = ("", "contains") if len(alike) == 1 else ("s", "contain")
        sentences.append(f"The interval{ending} of {names} {verb} {percent(EVEN)}.")
    return sentences


def aggregate_notes(aggregates: Aggregates) -> list[str]:
    """Return what has to be said beside the numbers: what they are, and of what."""
    table = aggregates.table
    is_uneven = len({len(one) for s in table.scores.values() for one in s}) > 1
    notes = [
        f"Below each number is its {percent(LEVEL)} bootstrap interval.",
        table.measure.meaning,
        "Where a method won or lost every pair of runs, no interval is known; with few "
        "seeds that is not certainty."
        if any(is_one_sided(one) for one in improvements_of(aggregates).values())
        else "",
        "Problems with more seeds count for more." if is_uneven else "",
        _left_out_note(table),
    ]
    return [note for note in notes if note]


def aggregate_explanations(aggregates: Aggregates) -> list[str]:
    """Return how the numbers are computed, and how far to trust them."""
    target = aggregates.table.measure.target
    fewest = min(one.runs for one in aggregates.methods.values())
    several = len(aggregates.table.problems) > 1
    explanations = [
        "The interquartile mean is the mean of the middle half of the runs, which a "
        "failed or a lucky run does not move."
        if fewest >= _FEWEST_CUT
        else f"Of {fewest} runs no quarter can be cut: the interquartile mean is the "
        "mean.",
        "The median is that of the means on each problem." if several else "",
        f"The optimality gap is how far runs fall short of a score of {target:g}, on "
        "average."
        if target is not None
        else "",
        f"Intervals come from {RESAMPLES:,} resamples of the seeds"
        f"{' of each problem' * several} (stratified bootstrap). With few seeds they "
        "are too narrow, and they ignore what runs on the same seed have in common: to "
        "decide whether two methods differ on a problem, take the paired t interval.",
    ]
    return [one for one in explanations if one]


def _left_out_note(table: ScoreTable) -> str:
    names = [
        *(problem_name(label) for label in table.problems_left_out),
        *(method_name(name) for name in table.methods_left_out),
    ]
    if not names and not table.runs_left_out:
        return ""
    named = f": {listing(names)}" if names else ""
    return (
        "Every method is judged by the same problems and seeds, at least two seeds a "
        f"problem; {counted(table.runs_left_out, 'run')} without a counterpart "
        f"{'is' if table.runs_left_out == 1 else 'are'} left out{named}."
    )


def profile_caption(aggregates: Aggregates) -> str:
    """Say how to read a performance profile."""
    measure = aggregates.table.measure
    side = "more than" if measure.higher_is_better else "less than"
    bands = f" Bands are {percent(LEVEL)} bootstrap intervals." * has_bands(aggregates)
    return (
        f"The share of a method’s runs with a {measure.name} of {side} the value on "
        f"the horizontal axis. A higher curve is better; where it passes "
        f"{percent(EVEN)}, half of the runs do better.{bands}"
    )


def improvement_caption(aggregates: Aggregates) -> str:
    """Say how to read a probability of improvement."""
    several = len(aggregates.table.problems) > 1
    where = " on the same problem, averaged over problems" if several else ""
    baseline = method_name(str(aggregates.table.baseline))
    return (
        f"The probability that a run of the method beats a run of {baseline}{where}; "
        f"equal runs count half. {percent(EVEN)} is no difference. Bars are "
        f"{percent(LEVEL)} bootstrap intervals. It says how often a method is better, "
        "not by how much."
    )


def improvements_of(aggregates: Aggregates) -> dict[str, Aggregate]:
    """Return how likely each method beats the baseline; nothing of the baseline."""
    return {
        name: one.improvement
        for name, one in aggregates.methods.items()
        if one.improvement is not None
    }


def is_one_sided(improvement: Aggregate) -> bool:
    """Whether every pair of runs had the same winner, so that no interval is known."""
    return float(improvement.value) in (0.0, 1.0)


def improvement_words(improvement: Aggregate) -> str:
    """Return the interval of a probability, or that every pair of runs was alike."""
    if is_one_sided(improvement):
        return "every pair" if improvement.value else "no pair"
    return interval_words(improvement, percent)


def has_bands(aggregates: Aggregates) -> bool:
    """Whether the methods are few enough to draw the interval of each profile."""
    return len(aggregates.methods) <= _MOST_BANDS


def interval_words(one: Aggregate, say: Callable[[float], str]) -> str:
    """Return “low to high”, each as ``say`` says it."""
    return f"{say(float(one.interval.low))} to {say(float(one.interval.high))}"

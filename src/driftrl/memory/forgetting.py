"""Forgetting rules: which episodes the policy of episode n is learned from.

At episode n the agent learns from the episodes m(n) … n−1.  A rule is any object with
a method ``first_retained(n, evidence)`` that returns m(n); if m(n) = n, there is
nothing to learn from.  It must be a function of n, the evidence and its own settings
alone: then a resumed run equals an uninterrupted one.  Nothing is ever deleted.

A rule may also have, where the defaults don't fit::

    max_transitions(episodes, steps)   how many transitions it can retain at once:
                                       by default, all
    turns_over(n, evidence)            whether its clock comes round before episode n,
                                       which soft resets keep: by default when m(n)
                                       changes
    decide(n, evidence)                m(n) and why, as a ``Decision``; it replaces
                                       first_retained and turns_over

``FORGETTING`` has the rules that come with driftrl by ``kind``, their name in files and
on the command line.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    get_args,
    runtime_checkable,
)

from driftrl.errors import at_least, positive, require, shown, unknown_name
from driftrl.types import Episode, EpisodeRecord

if TYPE_CHECKING:
    from driftrl.memory.adaptive import Stretch

Unit = Literal["episodes", "transitions"]

ENDLESS = 10**6
"""Episodes of a run that never ends, for ``max_transitions``."""


class EpisodeSummary(NamedTuple):
    """What is known of one past episode; see ``EpisodeRecord``."""

    length: int
    executed_return: float | None = None
    model_error: float | None = None
    coverage: float | None = None
    predictive_loss: float | None = None
    error_quantile: float | None = None
    last_change: int | None = None
    span_losses: tuple[float, ...] | None = None

    @classmethod
    def of(cls, record: EpisodeRecord) -> "EpisodeSummary":
        """Return what a row of ``episodes.jsonl`` says.

        What JSON can't hold is unknown, so that a resumed run knows the same.
        """
        columns = ("return_executed", *cls._fields[2:])
        values = (getattr(record, column) for column in columns)
        known = (v if _is_finite(v) else None for v in values)
        return cls(record.steps, *known)


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at before episode n: entry i is on episode i + 1.

    Values are None where they are unknown, as the model's are before there is a model.
    """

    lengths: tuple[int, ...] = ()
    """Number of transitions of every episode."""
    returns: tuple[float | None, ...] = ()
    """Sum of its rewards."""
    model_error: tuple[float | None, ...] = ()
    """Root mean square one-step error of the model that acted in it."""
    coverage: tuple[float | None, ...] = ()
    """Share of that model's predictions that lie within μ ± 2σ, σ as it was stated."""
    predictive_loss: tuple[float | None, ...] = ()
    """Mean negative log likelihood of a transition under that model, in nats."""
    error_quantile: tuple[float | None, ...] = ()
    """95 % quantile of ``|error|/σ`` of that model, before its σ is scaled."""
    last_change: tuple[int | None, ...] = ()
    """Last change that the rule had located before the episode."""
    span_losses: tuple[tuple[float, ...] | None, ...] = ()
    """How well each span predicted the episode before it."""
    episodes: Sequence[Any] = ()
    """Each ``Episode`` itself, which is read when it is asked for."""

    @classmethod
    def of(
        cls, history: Sequence[EpisodeSummary], episodes: Sequence[Any] = ()
    ) -> "Evidence":
        """Return the summaries of the past episodes, column by column."""
        return cls(*zip(*history, strict=True), episodes=episodes)

    def before(self, n: int) -> "Evidence":
        """Return what was known before an earlier episode n."""
        return Evidence(*(getattr(self, item.name)[: n - 1] for item in fields(self)))


@dataclass(frozen=True)
class Decision:
    """m(n) of a rule, and what it is based on."""

    first: int
    """m(n)."""
    turned_over: bool = False
    """Whether the rule's clock has come round, which soft resets keep."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What the row of episode n says about it: columns of ``EpisodeRecord``."""


@runtime_checkable
class ForgettingRule(Protocol):
    """A choice of m(n)."""

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n), the oldest episode to learn from at episode n; 1 ≤ m(n) ≤ n."""
        ...


def decide(rule: ForgettingRule, n: int, evidence: Evidence) -> Decision:
    """Return m(n), from 1 to n, whether the rule's clock came round, and why."""
    method: Any = getattr(rule, "decide", None)
    decision = None if method is None else method(n, evidence)
    m: Any = decision.first if decision else rule.first_retained(n, evidence)
    require(
        _is_integer(m, 1) and int(m) <= n,
        f"The forgetting rule {rule!r} returned {shown(m)} as the first episode to "
        f"learn from at episode {n}; it must be an integer from 1 to {n}.",
    )
    decision = decision or Decision(int(m), _turns_over(rule, n, m, evidence))
    return replace(decision, first=int(m))


def _turns_over(rule: ForgettingRule, n: int, m: Any, evidence: Evidence) -> bool:
    """Return whether a rule's clock comes round: by default whenever m(n) changes."""
    if n == 1:
        return False
    if method := getattr(rule, "turns_over", None):
        return bool(method(n, evidence))
    return bool(rule.first_retained(n - 1, evidence.before(n - 1)) != m)


def replay(rule: ForgettingRule, episodes: Sequence[Episode]) -> list[Decision]:
    """Return what a rule would have decided before episodes 2, 3, … N + 1."""
    history: list[EpisodeSummary] = []
    columns: Mapping[str, Any] = {}
    decisions = []
    for n, episode in enumerate(episodes, start=2):
        known = {k: v for k, v in columns.items() if k in EpisodeSummary._fields}
        history.append(EpisodeSummary(len(episode), **known))
        decisions.append(decide(rule, n, Evidence.of(history, episodes[: n - 1])))
        columns = decisions[-1].columns
    return decisions


def max_transitions(rule: ForgettingRule, episodes: int, steps: int) -> int:
    """Return how many transitions a rule can retain at once: by default, all.

    The run has N = ``episodes``, each of ``steps`` if it runs its full time.
    """
    everything = (episodes - 1) * steps
    method = getattr(rule, "max_transitions", None)
    if method is None:
        return everything
    most = method(episodes, steps)
    require(
        _is_integer(most, 0),
        f"max_transitions of the forgetting rule {rule!r} returned {shown(most)}; it "
        "must be an integer, at least 0.",
    )
    return min(everything, int(most))


@dataclass(frozen=True)
class KeepAll:
    """Forget nothing, as SOMBRL does: m(n) = 1."""

    kind: ClassVar[str] = "keep_all"

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        return 1


@dataclass(frozen=True)
class Reset:
    """Forget everything every H episodes, as R-OMBRL does.

    Algorithm 1 of the paper empties the buffer before it collects an episode whose
    number is a multiple of H, so that m(n) = max(1, H·⌊(n−1)/H⌋).  The text around it
    has n₀(n) = H·⌊(n−1)/H⌋ + 1, which also drops the episode just collected and leaves
    the episode after a reset without any data.

    Counted in transitions, the buffer holds up to H of them: it is emptied before an
    episode that would not fit any more, and that episode is the first of the new one.
    An episode longer than H is kept whole.
    """

    kind: ClassVar[str] = "reset"

    period: int = 10
    """Reset period H, at least 1."""
    unit: Unit = "episodes"
    """What the period counts."""

    def __post_init__(self) -> None:
        _check_fields(self)

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        if self.unit == "transitions":
            return _last_reset(_lengths_before(n, evidence), self.period)
        return max(1, self.period * ((n - 1) // self.period))

    def max_transitions(self, episodes: int, steps: int) -> int:
        """Return what a period holds."""
        return _most(self.period, self.unit, steps)


@dataclass(frozen=True)
class Window:
    """Forget what is older than w episodes, as SW-OMBRL does: m(n) = max(1, n−w).

    Counted in transitions, as many of the newest whole episodes are kept as have at
    most w transitions together, and the newest one in any case.
    """

    kind: ClassVar[str] = "window"

    window: int = 10
    """Window size w, at least 1."""
    unit: Unit = "episodes"
    """What the window counts."""

    def __post_init__(self) -> None:
        _check_fields(self)

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        if self.unit == "transitions":
            return n - _newest_fitting(_lengths_before(n, evidence), self.window)
        return max(1, n - self.window)

    def max_transitions(self, episodes: int, steps: int) -> int:
        """Return what the window holds."""
        return _most(self.window, self.unit, steps)

    def turns_over(self, n: int, evidence: Evidence) -> bool:
        """Return whether as much has been collected as the window holds, once more."""
        if self.unit == "episodes":
            return (n - 1) % self.window == 0
        lengths = _lengths_before(n, evidence)
        return sum(lengths) // self.window > sum(lengths[:-1]) // self.window


@dataclass(frozen=True)
class Doubling:
    """Forget as the bound asks when the length of the run is unknown.

    H ∝ γ^{1/4}·√N needs N.  The doubling trick (Besson & Kaufmann) cuts the run into
    epochs of 1, 2, 4, … episodes and takes for each the span of its own length L_i::

        p_i = min(L_i, ⌈c·√L_i⌉),   L_i = 2^i

    c stands for γ^{1/4}, which grows like a power of a logarithm.  A regret of order
    L_i^{3/4} in every epoch adds up to at most 1/(1 − 2^{−3/4}) ≈ 2.5 times N^{3/4}.

    With resets every epoch begins anew with the episode just collected, and they come
    every p_i episodes in it: with e the first episode of the epoch
    m(n) = max(1, e−1 + p_i·⌊(n−e)/p_i⌋).  The proof asks only that no more than p_i are
    in the buffer, so a window slides on: m(n) = max(1, e−1−p_{i−1}, n−p_i).
    """

    kind: ClassVar[str] = "doubling"

    factor: float = 1.0
    """Factor c of √L_i, above 0; larger ones forget less."""
    scheme: Literal["reset", "window"] = "reset"
    """Whether each epoch has resets or a window."""

    def __post_init__(self) -> None:
        _check_fields(self)
        positive("forgetting.factor", self.factor)

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        epoch, start = self.epoch(n)
        span = self.span(epoch)
        if self.scheme == "reset":
            return max(1, start - 1 + span * ((n - start) // span))
        held = start - 1 - self.span(epoch - 1) if epoch else 0
        return max(1, held, n - span)

    def max_transitions(self, episodes: int, steps: int) -> int:
        """Return what the span of the last epoch holds."""
        return self.span(self.epoch(episodes)[0]) * steps

    def turns_over(self, n: int, evidence: Evidence) -> bool:
        """Return whether it forgets, or has collected what the window holds."""
        epoch, start = self.epoch(n)
        if self.scheme == "window":
            return (n - start) % self.span(epoch) == 0
        return self.first_retained(n, evidence) != self.first_retained(n - 1, evidence)

    def epoch(self, n: int) -> tuple[int, int]:
        """Return the number i of episode n's epoch, from 0, and its first episode."""
        epoch = n.bit_length() - 1
        return epoch, 2**epoch

    def span(self, epoch: int) -> int:
        """Return p_i, the most episodes that are learned from at once in epoch i."""
        length = 2**epoch
        return min(length, math.ceil(self.factor * math.sqrt(length)))


@dataclass(frozen=True)
class Hindsight:
    """Forget at given changes: the bar for rules that must find them.

    A change can be known only once an episode has shown it, and that episode is kept:
    m(n) is the last k < n of ``changes``, and 1 before the first, or smaller where
    too little would be left.
    """

    kind: ClassVar[str] = "hindsight"

    changes: tuple[int, ...] = ()
    """First episode after each change."""
    soft_resets: bool = False
    """Whether the agent's soft resets follow the changes, or never come."""
    least_episodes: int = 5
    """Newest episodes that are retained in any case; 1 for a Gaussian process."""
    least_transitions: int = 500
    """Newest transitions that are retained in any case; 1 for a Gaussian process."""

    def __post_init__(self) -> None:
        for change in self.changes:
            at_least("forgetting.changes", change, 1)
        _check_least(self)

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        last = max((change for change in self.changes if change < n), default=1)
        return min(last, _least_first(self, n, evidence))

    def turns_over(self, n: int, evidence: Evidence) -> bool:
        """Return whether a change is known since the last episode."""
        return self.soft_resets and n - 1 in self.changes


@dataclass(frozen=True)
class _Testing:
    """A rule that tests the newest episodes for a change.

    Its state is the last change, which the rows of a run record.
    """

    false_alarms: float = 0.01
    """Probability of an alarm, between two changes, that is none; below 1."""
    tolerance: float = 0.02
    """Changes that do not matter, in standard deviations of a step of the state."""
    soft_resets: bool = False
    """Whether the agent's soft resets follow located changes, or never come."""
    least_episodes: int = 5
    """Newest episodes that are retained in any case: a network that is left with one or
    two forgets the rest of its task.  1 for a Gaussian process."""
    least_transitions: int = 500
    """Newest transitions that are retained in any case; 1 for a Gaussian process."""

    def __post_init__(self) -> None:
        _check_least(self)
        for name in ("false_alarms", "tolerance"):
            value = getattr(self, name)
            require(
                isinstance(value, int | float) and 0 < value < 1,
                f"forgetting.{name} must be above 0 and below 1; received {value!r}.",
            )

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        return self.decide(n, evidence).first

    def decide(self, n: int, evidence: Evidence) -> Decision:
        """Return m(n) and why."""
        from driftrl.memory.adaptive import Stretch, looked_at

        since = (evidence.last_change[-1] if n > 1 else None) or 1
        least = _least_first(self, n, evidence)
        nothing = Decision(min(since, least), columns={"last_change": since})
        if n < 3:
            return nothing
        numbers = looked_at(since, n)
        episodes = [evidence.episodes[number - 1] for number in numbers]
        stretch = Stretch(episodes, self.tolerance)
        if sum(stretch.rows) == 0:
            return nothing
        decision = self._judge(n, numbers, stretch, evidence)
        return replace(decision, first=min(decision.first, least))

    def _judge(
        self, n: int, numbers: list[int], stretch: "Stretch", evidence: Evidence
    ) -> Decision:
        """Decide by a stretch of episodes, the first of which is the last change."""
        raise NotImplementedError


@dataclass(frozen=True)
class Adaptive(_Testing):
    """Choose m(n) from the data: keep everything unless they speak against it.

    Before every episode it asks a model of its own (see ``driftrl.memory.adaptive``):

    1. Do the data contradict each other, before and from some episode k on?  If the
       odds of that exceed π²j²/(6·``false_alarms``), j episodes after the last change,
       what is before the most likely k is dropped for good, and the rest tested again.
    2. Has a short past predicted better than all that is left?  Under a steady drift
       it has, and then m(n) = n − p with the span p of largest weight, until all data
       predict as well again.

    In a system that does not change the first test raises an alarm at most with
    probability ``false_alarms`` however long it runs, if the model is right.
    """

    kind: ClassVar[str] = "adaptive"

    least_gain: float = 0.1
    """Nats per observed number by which less data must explain them better."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("forgetting.least_gain", self.least_gain, 0)

    def _judge(
        self, n: int, numbers: list[int], stretch: "Stretch", evidence: Evidence
    ) -> Decision:
        from driftrl.memory.adaptive import MOST_EPISODES, choose_span

        first, alarm = 1, False
        test = split = stretch.split(first, self.least_gain)
        while test is not None:
            count = n - numbers[first - 1]
            limit = math.log(math.pi**2 * count**2 / 6 / self.false_alarms)
            if not test.log_odds >= limit:
                break
            first, alarm = test.first, True
            test = stretch.split(first, self.least_gain)
        located = numbers[first - 1]
        rows = zip(evidence.last_change, evidence.span_losses, strict=True)
        known = [past for change, past in rows if past and change == located]
        losses = stretch.span_losses(first)
        known += [losses] if losses else []
        span = choose_span(known[-MOST_EPISODES:], self.least_gain)
        columns = {
            "last_change": located,
            "change_alarm": alarm,
            "change_candidate": numbers[split.first - 1] if split else None,
            "change_log_odds": split.log_odds if split else None,
            "span_losses": losses or None,
        }
        retained = located if span is None else max(located, n - span)
        return Decision(retained, alarm and self.soft_resets, columns)


@dataclass(frozen=True)
class Event(_Testing):
    """Forget when the newest episode is a surprise: event-triggered learning.

    A transition is a surprise where the error of the model of the retained episodes
    exceeds its bound of confidence 1 − ``false_alarms``, as in ET-GP-UCB; several in
    one episode are an event, and the change is located at that episode.  The bound
    takes the noise as known; it is estimated here, so alarms may be more frequent.
    """

    kind: ClassVar[str] = "event"

    false_alarms: float = 0.1
    hits: int = 3
    """Surprises in one episode that make an event."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("forgetting.hits", self.hits, 1)

    def _judge(
        self, n: int, numbers: list[int], stretch: "Stretch", evidence: Evidence
    ) -> Decision:
        alarm = stretch.surprises(self.false_alarms) >= self.hits
        since = n - 1 if alarm else numbers[0]
        columns = {"last_change": since, "change_alarm": alarm}
        return Decision(since, alarm and self.soft_resets, columns)


@dataclass(frozen=True)
class Since:
    """Forget what was before an episode, once and by hand; else as another rule does.

    A change was noticed before episode k, when the policy of episode k had been learned
    already; from there on m(n) = max(k, m'(n)), with the other rule's m'(n).
    """

    kind: ClassVar[str] = "since"

    first: int = 1
    """The oldest episode k that is learned from."""
    rule: ForgettingRule = field(default_factory=KeepAll)
    """How to forget otherwise."""

    def __post_init__(self) -> None:
        _check_fields(self)

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        return self.decide(n, evidence).first

    def max_transitions(self, episodes: int, steps: int) -> int:
        """Return what the other rule can retain."""
        return max_transitions(self.rule, episodes, steps)

    def decide(self, n: int, evidence: Evidence) -> Decision:
        """Return what the other rule decides, but nothing before ``first``."""
        other = decide(self.rule, n, evidence)
        if n <= self.first:
            return other
        over = other.turned_over or n == self.first + 1
        return replace(other, first=max(self.first, other.first), turned_over=over)


def forget_before(rule: ForgettingRule, first: int) -> Since:
    """Return the rule that once, by hand, forgets what was before ``first``."""
    return Since(first, rule.rule if isinstance(rule, Since) else rule)


def replace_rule(old: ForgettingRule, new: Any) -> ForgettingRule:
    """Return the new rule; what was forgotten by hand under the old one stays so."""
    require_rule(new)
    if isinstance(old, Since) and not isinstance(new, Since):
        return Since(old.first, new)
    return new


def require_rule(value: Any) -> None:
    """Refuse what is not a forgetting rule, such as the class of one."""
    require(
        isinstance(value, ForgettingRule) and not isinstance(value, type),
        "A forgetting rule is an object with a method first_retained(n, evidence), "
        f"such as Window(5); received {shown(value)}.",
    )


FORGETTING: dict[str, type[Any]] = {
    rule.kind: rule
    for rule in (KeepAll, Reset, Window, Doubling, Adaptive, Event, Hindsight, Since)
}
"""The rules that come with driftrl by their kind."""


def _most(size: int, unit: Unit, steps: int) -> int:
    return size * steps if unit == "episodes" else max(size, steps)


def _last_reset(lengths: Sequence[int], capacity: int) -> int:
    """Return the first episode in a buffer that is emptied when one does not fit."""
    first, held = 1, 0
    for number, length in enumerate(lengths, start=1):
        if held + length > capacity:
            first, held = number, 0
        held += length
    return first


def _newest_fitting(lengths: Sequence[int], capacity: int) -> int:
    """Return how many of the newest episodes fit, at least one if there is one."""
    count, held = 0, 0
    for length in reversed(lengths):
        held += length
        if held > capacity and count > 0:
            break
        count += 1
    return count


def _check_least(rule: "Hindsight | _Testing") -> None:
    for name in ("least_episodes", "least_transitions"):
        at_least(f"forgetting.{name}", getattr(rule, name), 1)


def _least_first(rule: "Hindsight | _Testing", n: int, evidence: Evidence) -> int:
    """Return the first of the newest episodes that are retained in any case."""
    first, held = n, 0
    while first > 1 and (
        held < rule.least_transitions or n - first < rule.least_episodes
    ):
        first -= 1
        held += evidence.lengths[first - 1]
    return first


def _lengths_before(n: int, evidence: Evidence) -> tuple[int, ...]:
    require(
        len(evidence.lengths) == n - 1,
        f"A rule that counts transitions needs the lengths of all {n - 1} episodes "
        f"before episode {n}; received {len(evidence.lengths)}.",
    )
    return evidence.lengths


def _is_finite(value: Any) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return all(number is not None and math.isfinite(number) for number in numbers)


def _is_integer(value: Any, least: int) -> bool:
    integral = isinstance(value, Integral) and not isinstance(value, bool)
    return integral and int(value) >= least


def _check_fields(rule: Any) -> None:
    """Check the sizes and choices of a rule, and store sizes as plain ints."""
    for item in fields(rule):
        value, choices = getattr(rule, item.name), get_args(item.type)
        if item.type is int:
            require(
                _is_integer(value, 1),
                f"forgetting.{item.name} must be a whole number, at least 1; received "
                f"{shown(value)}.",
            )
            object.__setattr__(rule, item.name, int(value))
        elif choices and value not in choices:
            raise unknown_name(f"value of forgetting.{item.name}:", value, choices)

"""Forgetting rules: which episodes the policy of episode n is learned from.

At episode n the agent learns from the episodes m(n) … n−1, and a rule is a choice of
m(n).  If m(n) = n, there is nothing to learn from.  Nothing is ever deleted: a rule
only answers, and the memory reads what it answered.

``FORGETTING`` finds the rules by ``kind``, their name in files and on the command line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, Literal, Protocol, get_args

from driftrl.errors import require, unknown_name

Unit = Literal["episodes", "transitions"]
Index = Literal["algorithm", "text"]
Scheme = Literal["reset", "window"]


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at before episode n: facts on the episodes 1 … n−1."""

    lengths: tuple[int, ...] = ()
    """Number of transitions of every episode."""

    def __post_init__(self) -> None:
        wrong = [length for length in self.lengths if not _is_whole(length)]
        require(
            not wrong,
            f"The lengths of episodes must be whole numbers, at least 1; "
            f"received {wrong}.",
        )


class ForgettingRule(Protocol):
    """A choice of m(n)."""

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n), the oldest episode to learn from at episode n; 1 ≤ m(n) ≤ n."""
        ...


@dataclass(frozen=True)
class KeepAll:
    """Forget nothing, as SOMBRL does: m(n) = 1."""

    kind: ClassVar[str] = "keep_all"

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        _require_episode(n)
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
    index: Index = "algorithm"
    """Whether resets fall as in the algorithm or as in the text of the paper."""

    def __post_init__(self) -> None:
        _settle_size(self, "period")
        _require_known("unit", self.unit, get_args(Unit))
        _require_known("index", self.index, get_args(Index))
        require(
            self.unit == "episodes" or self.index == "algorithm",
            "Forgetting rule 'reset': index 'text' is defined for periods counted in "
            "episodes only; received unit 'transitions'.",
        )

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        _require_episode(n)
        if self.unit == "transitions":
            return _last_reset(_lengths_before(n, evidence), self.period)
        last = self.period * ((n - 1) // self.period)
        return last + 1 if self.index == "text" else max(1, last)


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
        _settle_size(self, "window")
        _require_known("unit", self.unit, get_args(Unit))

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        _require_episode(n)
        if self.unit == "transitions":
            return n - _newest_fitting(_lengths_before(n, evidence), self.window)
        return max(1, n - self.window)


@dataclass(frozen=True)
class Doubling:
    """Forget as the bound asks when nobody knows how long the run will be.

    H ∝ γ^{1/4}·√N needs N.  The doubling trick (Besson & Kaufmann) cuts the run into
    epochs of ℓ, 2ℓ, 4ℓ, … episodes and takes for each the span of its own length L_i::

        p_i = min(L_i, ⌈c·√L_i⌉),   L_i = ℓ·2^i

    c stands for γ^{1/4}, which grows like a power of a logarithm.  A regret of order
    L_i^{3/4} in every epoch adds up to at most 1/(1 − 2^{−3/4}) ≈ 2.5 times N^{3/4}.

    With resets every epoch begins anew, as the trick says, and resets come every p_i
    episodes in it.  As in Algorithm 1, the episode just collected is kept, so that no
    policy is without data: with e the first episode of the epoch
    m(n) = max(1, e−1 + p_i·⌊(n−e)/p_i⌋).

    A window need not begin anew.  The proof asks of the buffer only that no more than p
    episodes are in it, and so a wider window slides on with what the narrower one still
    held: m(n) = max(1, e−1−p_{i−1}, n−p_i).
    """

    kind: ClassVar[str] = "doubling"

    factor: float = 1.0
    """Factor c of √L_i, above 0; larger ones forget less."""
    first_epoch: int = 1
    """Length ℓ of the first epoch in episodes, at least 1."""
    scheme: Scheme = "reset"
    """Whether each epoch has resets or a window."""

    def __post_init__(self) -> None:
        _settle_size(self, "first_epoch")
        _require_known("scheme", self.scheme, get_args(Scheme))
        require(
            isinstance(self.factor, int | float) and 0 < self.factor < math.inf,
            "Forgetting rule 'doubling': factor must be a finite number above 0; "
            f"received {self.factor!r}.",
        )

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        epoch, start = self.epoch(n)
        span = self.span(epoch)
        if self.scheme == "reset":
            return max(1, start - 1 + span * ((n - start) // span))
        held = start - 1 - self.span(epoch - 1) if epoch else 0
        return max(1, held, n - span)

    def epoch(self, n: int) -> tuple[int, int]:
        """Return the number i of episode n's epoch, from 0, and its first episode."""
        _require_episode(n)
        epoch = ((n - 1) // self.first_epoch + 1).bit_length() - 1
        return epoch, self.first_epoch * (2**epoch - 1) + 1

    def span(self, epoch: int) -> int:
        """Return p_i, the most episodes that are learned from at once in epoch i."""
        length = self.first_epoch * 2**epoch
        return min(length, math.ceil(self.factor * math.sqrt(length)))


@dataclass(frozen=True)
class Since:
    """Forget what was before an episode, once and by hand; else as another rule does.

    Someone saw a change before episode k.  The policy of episode k had been learned by
    then; from there on m(n) = max(k, m'(n)), with the other rule's m'(n).
    """

    kind: ClassVar[str] = "since"

    first: int = 1
    """The oldest episode k that is learned from."""
    rule: KeepAll | Reset | Window | Doubling = field(default_factory=KeepAll)
    """How to forget otherwise."""

    def __post_init__(self) -> None:
        _settle_size(self, "first")

    def first_retained(self, n: int, evidence: Evidence) -> int:
        """Return m(n)."""
        retained = self.rule.first_retained(n, evidence)
        return retained if n <= self.first else max(self.first, retained)


Forgetting = KeepAll | Reset | Window | Doubling | Since
"""Any forgetting rule that comes with driftrl."""

FORGETTING: dict[str, type[Forgetting]] = {
    rule.kind: rule for rule in (KeepAll, Reset, Window, Doubling, Since)
}
"""Every forgetting rule by its kind."""


def most_transitions(rule: Forgetting, episodes: int, steps: int) -> int:
    """Return how many transitions a run may learn from at once, at most.

    Args:
        rule: What the run forgets.
        episodes: Length N of the run.
        steps: Transitions of an episode that runs its full time.
    """
    everything = (episodes - 1) * steps
    if isinstance(rule, Since):
        return most_transitions(rule.rule, episodes, steps)
    if isinstance(rule, KeepAll):
        return everything
    if isinstance(rule, Doubling):
        return min(everything, rule.span(rule.epoch(episodes)[0]) * steps)
    size = rule.window if isinstance(rule, Window) else rule.period
    held = size * steps if rule.unit == "episodes" else max(size, steps)
    return min(everything, held)


def turns_over(rule: Forgetting, n: int, evidence: Evidence) -> bool:
    """Say whether the rule's clock comes round before episode n.

    A reset's does whenever it forgets, a window's whenever as much has been collected
    as it holds, a doubling rule's likewise in each of its epochs, and nothing else's
    ever; forgetting by hand counts as well.  Soft resets keep this time.
    """
    if isinstance(rule, Since):
        return n == rule.first + 1 or turns_over(rule.rule, n, evidence)
    if n == 1 or isinstance(rule, KeepAll):
        return False
    if isinstance(rule, Reset) or not slides(rule):
        before = Evidence(evidence.lengths[:-1])
        return rule.first_retained(n, evidence) != rule.first_retained(n - 1, before)
    if isinstance(rule, Doubling):
        epoch, start = rule.epoch(n)
        return (n - start) % rule.span(epoch) == 0
    if rule.unit == "episodes":
        return (n - 1) % rule.window == 0
    lengths = _lengths_before(n, evidence)
    return sum(lengths) // rule.window > sum(lengths[:-1]) // rule.window


def slides(rule: Forgetting) -> bool:
    """Say whether a rule forgets bit by bit, as a window does."""
    rule = rule.rule if isinstance(rule, Since) else rule
    if isinstance(rule, Doubling):
        return rule.scheme == "window"
    return isinstance(rule, Window)


def by_hand(rule: Forgetting, first: int) -> Since:
    """Return the rule that forgets, once, what was before the episode ``first``."""
    return Since(first, rule.rule if isinstance(rule, Since) else rule)


def replaced(old: Forgetting, new: Any) -> Forgetting:
    """Return the new rule; what was forgotten by hand under the old one stays so.

    Raises:
        InputError: The new one is no forgetting rule.
    """
    require(
        isinstance(new, Forgetting),
        "A forgetting rule is one of KeepAll, Reset, Window and Doubling, such as "
        f"Window(5); received {new!r}.",
    )
    if isinstance(old, Since) and not isinstance(new, Since):
        return Since(old.first, new)
    return new


def most_retained(rule: Forgetting, steps: int) -> float:
    """Return how many transitions a rule retains at most, however long the run is."""
    rule = rule.rule if isinstance(rule, Since) else rule
    if isinstance(rule, KeepAll | Doubling):
        return math.inf
    # A window or period of s episodes is full after s more, at the latest.
    size = rule.window if isinstance(rule, Window) else rule.period
    return most_transitions(rule, size + 1, steps)


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


def _lengths_before(n: int, evidence: Evidence) -> tuple[int, ...]:
    require(
        len(evidence.lengths) == n - 1,
        f"A rule that counts transitions needs the lengths of all {n - 1} episodes "
        f"before episode {n}; received {len(evidence.lengths)}.",
    )
    return evidence.lengths


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and int(value) >= 1


def _require_episode(n: Any) -> None:
    require(
        _is_whole(n),
        f"The number n of an episode must be a whole number, at least 1; "
        f"received {n!r}.",
    )


def _require_known(name: str, received: Any, known: tuple[str, ...]) -> None:
    if received not in known:
        raise unknown_name(name, str(received), known)


def _settle_size(rule: Any, name: str) -> None:
    """Check the size of a rule and store it as a plain int."""
    value = getattr(rule, name)
    require(
        _is_whole(value),
        f"Forgetting rule {rule.kind!r}: {name} must be a whole number, at least 1; "
        f"received {value!r}.",
    )
    object.__setattr__(rule, name, int(value))

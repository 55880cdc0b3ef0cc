"""Forgetting rules against the paper's algorithms, run literally on list buffers."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.errors import InputError, shown
from driftrl.memory import forgetting
from driftrl.memory.episodes import LazyEpisodes
from driftrl.memory.forgetting import (
    Doubling,
    EpisodeSummary,
    Evidence,
    ForgettingRule,
    KeepAll,
    Reset,
    Since,
    Window,
    decide,
    forget_before,
    max_transitions,
    replace_rule,
)

Unchecked = Callable[[ModuleType], Any]

# Transition t of episode n is the pair (n, t).
Buffer = list[tuple[int, int]]

FULL_LENGTH = 8
UNITS = ("episodes", "transitions")
HISTORIES = st.lists(
    st.one_of(st.just(FULL_LENGTH), st.integers(1, FULL_LENGTH)), max_size=30
)


def _collect(n: int, length: int) -> Buffer:
    return [(n, t) for t in range(length)]


def _keep_all(lengths: list[int]) -> Iterator[Buffer]:
    data: Buffer = []
    for n, length in enumerate(lengths, start=1):
        data = data + _collect(n, length)
        yield data


def _algorithm_one(lengths: list[int], period: int) -> Iterator[Buffer]:
    """Yield the buffer with which the policy is updated at the end of every episode."""
    data: Buffer = []
    for n, length in enumerate(lengths, start=1):
        if n % period == 0:
            data = []
        trajectory = _collect(n, length)
        data = data + trajectory
        yield data


def _algorithm_two(lengths: list[int], window: int) -> Iterator[Buffer]:
    data: Buffer = []
    for n, length in enumerate(lengths, start=1):
        data = data + _collect(n, length)
        data = [(k, t) for k, t in data if n - k < window]
        yield data


def _reset_when_full(lengths: list[int], capacity: int) -> Iterator[Buffer]:
    data: Buffer = []
    for n, length in enumerate(lengths, start=1):
        trajectory = _collect(n, length)
        if len(data) + len(trajectory) > capacity:
            data = []
        data = data + trajectory
        yield data


def _queue_of_episodes(lengths: list[int], capacity: int) -> Iterator[Buffer]:
    queue: deque[Buffer] = deque()
    for n, length in enumerate(lengths, start=1):
        queue.append(_collect(n, length))
        while len(queue) > 1 and sum(len(episode) for episode in queue) > capacity:
            queue.popleft()
        yield [pair for episode in queue for pair in episode]


@pytest.fixture(scope="session")
def plain(unchecked: Unchecked) -> Any:
    """Give the rules without type checks, which would take most of the time here."""
    return unchecked(forgetting)


def _evidences(plain: Any, lengths: list[int]) -> list[Any]:
    """Return what is known before each of the episodes 1 … N + 1 of a history of N."""
    return [plain.Evidence(tuple(lengths[:n])) for n in range(len(lengths) + 1)]


def _assert_same(rule: Any, evidences: list[Any], buffers: Iterator[Buffer]) -> None:
    """Compare what the rule retains before every episode with an explicit buffer."""
    assert rule.first_retained(1, evidences[0]) == 1
    pairs = zip(evidences[1:], buffers, strict=True)
    for n, (evidence, buffer) in enumerate(pairs, start=2):
        m = rule.first_retained(n, evidence)
        assert 1 <= m <= n
        episodes = enumerate(evidence.lengths[m - 1 :], start=m)
        retained = [pair for k, length in episodes for pair in _collect(k, length)]
        assert retained == buffer, (rule, n, m)


@settings(max_examples=300)
@given(lengths=HISTORIES, size=st.integers(1, 12), capacity=st.integers(1, 60))
def test_rules_retain_what_the_buffers_of_the_algorithms_hold(
    plain: Any, lengths: list[int], size: int, capacity: int
) -> None:
    evidences = _evidences(plain, lengths)
    for rule, buffers in (
        (plain.KeepAll(), _keep_all(lengths)),
        (plain.Reset(size), _algorithm_one(lengths, size)),
        (plain.Window(size), _algorithm_two(lengths, size)),
        (plain.Reset(capacity, "transitions"), _reset_when_full(lengths, capacity)),
        (plain.Window(capacity, "transitions"), _queue_of_episodes(lengths, capacity)),
    ):
        _assert_same(rule, evidences, buffers)


@given(lengths=HISTORIES, size=st.integers(1, 60))
def test_what_is_forgotten_stays_forgotten(
    plain: Any, lengths: list[int], size: int
) -> None:
    evidences = _evidences(plain, lengths)
    for rule in (
        plain.KeepAll(),
        plain.Reset(size),
        plain.Reset(size, unit="transitions"),
        plain.Window(size),
        plain.Window(size, unit="transitions"),
        plain.Doubling(size / 10),
        plain.Doubling(size / 10, "window"),
    ):
        known = enumerate(evidences, start=1)
        retained = [rule.first_retained(n, evidence) for n, evidence in known]
        assert retained == sorted(retained), rule


def test_first_retained_computed_by_hand() -> None:
    def of(rule: ForgettingRule) -> list[int]:
        return [rule.first_retained(n, Evidence()) for n in range(1, 9)]

    assert of(KeepAll()) == [1] * 8
    assert of(Reset(3)) == [1, 1, 1, 3, 3, 3, 6, 6]
    assert of(Reset(1)) == [1, 1, 2, 3, 4, 5, 6, 7]
    assert of(Window(3)) == [1, 1, 1, 1, 2, 3, 4, 5]
    assert of(Window(1)) == [1, 1, 2, 3, 4, 5, 6, 7]


def test_first_retained_in_transitions_computed_by_hand() -> None:
    lengths = (4, 4, 2, 5, 12, 1, 3)

    def of(rule: ForgettingRule) -> list[int]:
        return [rule.first_retained(n, Evidence(lengths[: n - 1])) for n in range(1, 9)]

    # Full at 4+4+2; the 5 begins anew; 12 is too long and alone; 1+3 fit together.
    assert of(Reset(10, unit="transitions")) == [1, 1, 1, 1, 4, 5, 6, 6]
    # 2+5 fit but not with the 4 before; 12 is alone; 1 pushes it out; 1+3 fit.
    assert of(Window(10, unit="transitions")) == [1, 1, 1, 1, 3, 5, 6, 6]


def test_doubling_by_hand() -> None:
    """Epochs 1; 2-3; 4-7; 8-15; 16-31 with spans 1, 2, 2, 3, 4."""

    def of(rule: ForgettingRule, last: int) -> list[int]:
        return [rule.first_retained(n, Evidence()) for n in range(1, last + 1)]

    resets = [1, 1, 1, 3, 3, 5, 5, 7, 7, 7, 10, 10, 10, 13, 13, 15, 15, 15, 15, 19]
    assert of(Doubling(), 20) == resets
    slid = [1, 1, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12, 12, 13, 14, 15, 16]
    assert of(Doubling(scheme="window"), 20) == slid
    # Large factors never span more than an epoch.
    assert of(Doubling(50.0), 16) == [1, 1, 1, 3, 3, 3, 3, *([7] * 8), 15]


@given(
    n=st.integers(1, 10**6),
    factor=st.floats(0.01, 100.0),
    scheme=st.sampled_from(["reset", "window"]),
)
def test_doubling_spans_no_more_than_its_epoch_asks_for(
    plain: Any, n: int, factor: float, scheme: Any
) -> None:
    rule = plain.Doubling(factor, scheme)
    epoch, start = rule.epoch(n)
    length = 2**epoch
    assert start <= n < start + length
    m = rule.first_retained(n, plain.Evidence())
    assert 1 <= m <= n
    assert n - m <= rule.span(epoch) <= min(length, factor * math.sqrt(length) + 1)
    assert rule.first_retained(n + 1, plain.Evidence()) >= m
    assert (n == 1) == (m == n), "every policy but the first is learned from something"
    if scheme == "reset":
        # Nothing of an earlier epoch but the episode that had just ended.
        assert m >= start - 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("reset", {"period": 0}),
        ("reset", {"period": 2.0}),
        ("reset", {"period": True}),
        ("reset", {"unit": "episode"}),
        ("window", {"window": -3}),
        ("window", {"window": math.nan}),
        ("window", {"unit": "steps"}),
        ("doubling", {"factor": 0.0}),
        ("doubling", {"factor": math.inf}),
        ("doubling", {"scheme": "windw"}),
    ],
)
def test_bad_fields_are_refused(plain: Any, kind: str, values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=str(list(values.values())[-1])):
        plain.FORGETTING[kind](**values)


def test_most_transitions_by_hand() -> None:
    assert max_transitions(KeepAll(), 30, 40) == 29 * 40
    assert max_transitions(Window(window=5), 30, 40) == 200
    assert max_transitions(Window(window=50), 30, 40) == 29 * 40
    assert max_transitions(Reset(period=100, unit="transitions"), 30, 40) == 100
    assert max_transitions(Window(window=9, unit="transitions"), 30, 40) == 40
    assert max_transitions(Window(window=5), 1, 40) == 0
    # Episode 30 is in the epoch of 16, which spans 4; episode 1 has nothing before it.
    assert max_transitions(Doubling(), 30, 40) == 160
    assert max_transitions(Doubling(), 1, 40) == 0


@given(lengths=HISTORIES, size=st.integers(1, 60), unit=st.sampled_from(UNITS))
def test_no_run_retains_more_than_max_transitions(
    lengths: list[int], size: int, unit: Any
) -> None:
    episodes = len(lengths) + 1
    doubling = [Doubling(size / 10, kind) for kind in ("reset", "window")]
    for rule in (KeepAll(), Reset(size, unit), Window(size, unit), *doubling):
        most = max_transitions(rule, episodes, FULL_LENGTH)
        for n in range(1, episodes + 1):
            first = rule.first_retained(n, Evidence(tuple(lengths[: n - 1])))
            assert sum(lengths[first - 1 : n - 1]) <= most


def rounds(rule: ForgettingRule, lengths: list[int]) -> list[int]:
    """Return the episodes before which the rule's clock comes round."""
    decisions = (
        (n, decide(rule, n, Evidence(tuple(lengths[: n - 1]))))
        for n in range(1, len(lengths) + 2)
    )
    return [n for n, decision in decisions if decision.turned_over]


def test_clock_of_each_rule_by_hand() -> None:
    lengths = [10] * 12
    assert rounds(KeepAll(), lengths) == []
    # Algorithm 1 forgets after episodes 4, 8 and 12; so does a soft reset.
    assert rounds(Reset(period=4), lengths) == [5, 9, 13]
    assert rounds(Window(window=4), lengths) == [5, 9, 13]
    # 40 transitions are four of these episodes; the fifth does not fit any more.
    assert rounds(Reset(period=40, unit="transitions"), lengths) == [6, 10]
    assert rounds(Window(window=40, unit="transitions"), lengths) == [5, 9, 13]
    # Spans 2, 2 and 3 in the epochs from 2, 4 and 8 on.
    assert rounds(Doubling(), lengths) == [4, 6, 8, 11]
    assert rounds(Doubling(scheme="window"), lengths) == [2, 4, 6, 8, 11]


def test_another_rule_keeps_what_was_forgotten_by_hand() -> None:
    assert replace_rule(KeepAll(), Window(3)) == Window(3)
    assert replace_rule(forget_before(Window(6), 4), Window(5)) == Since(4, Window(5))
    assert replace_rule(forget_before(Window(6), 4), Since(2)) == Since(2)
    for wrong in (3, Window, None):
        with pytest.raises(InputError, match="first_retained"):
            replace_rule(KeepAll(), wrong)


def test_forgetting_by_hand() -> None:
    """Someone sees a change before episode 5: m(5) stays, m(n) ≥ 5 from n = 6 on."""
    lengths = (3,) * 9
    rule = forget_before(Window(window=3), 5)
    numbers = range(1, 11)
    found = [rule.first_retained(n, Evidence(lengths[: n - 1])) for n in numbers]
    assert found == [1, 1, 1, 1, 2, 5, 5, 5, 6, 7]
    assert rounds(rule, list(lengths)) == [4, 6, 7, 10]
    again = forget_before(rule, 8)
    assert again == Since(8, Window(window=3))
    assert max_transitions(rule, 30, 40) == 120
    anytime = forget_before(Doubling(scheme="window"), 9)
    assert [anytime.first_retained(n, Evidence()) for n in (9, 10, 12, 13)] == [
        *(6, 9, 9, 10)
    ]


class Minimal:
    """A user's rule: nothing but m(n), here whatever it was made with."""

    def __init__(self, m: Any) -> None:
        self.m = m

    def first_retained(self, n: int, evidence: Evidence) -> int:
        value: Any = self.m
        m: Any = value(n) if callable(value) else value
        return m


def test_defaults_of_a_rule_that_is_only_a_choice_of_m() -> None:
    rule = Minimal(lambda n: 1 if n < 5 else n - 2)
    assert max_transitions(rule, 30, 40) == 29 * 40
    assert rounds(rule, [3] * 6) == [5, 6, 7]
    behind = forget_before(rule, 4)
    assert [behind.first_retained(n, Evidence()) for n in (4, 5, 7)] == [1, 4, 5]
    assert decide(Minimal(np.int64(2)), 3, Evidence()).first == 2


@pytest.mark.parametrize("m", [8, 0, -1, math.nan, 2.0, True, None, "3"])
def test_nonsense_from_a_rule_is_refused(unchecked_types: None, m: Any) -> None:
    with pytest.raises(InputError, match="episode 7") as caught:
        decide(Minimal(m), 7, Evidence())
    assert "Minimal" in str(caught.value) and shown(m) in str(caught.value)


def test_evidence_before_an_earlier_episode() -> None:
    rows = [EpisodeSummary(n, 10.0 * n, None, 0.5, -1.0 * n) for n in range(1, 6)]
    evidence = Evidence.of(
        rows, LazyEpisodes(range(1, 6), lambda n: pytest.fail(f"episode {n} was read"))
    )
    assert evidence.returns == (10.0, 20.0, 30.0, 40.0, 50.0)
    before = evidence.before(3)
    assert before.lengths == (1, 2) and before.predictive_loss == (-1.0, -2.0)
    assert before.model_error == (None, None) and len(before.episodes) == 2

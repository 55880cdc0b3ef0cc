"""Rules that find changes: by hand, in simulation over seeds, and on bad input."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.memory.adaptive import SPANS, Stretch, choose_span, fixed_share, looked_at
from driftrl.memory.forgetting import (
    Adaptive,
    Decision,
    EpisodeSummary,
    Event,
    Evidence,
    ForgettingRule,
    Hindsight,
    KeepAll,
    Since,
    decide,
    replay,
)
from driftrl.memory.nystrom import (
    Sums,
    evidence,
    quick_features,
    spectrum,
    with_differences,
)
from driftrl.records import RecordWriter, read_records
from driftrl.training.loop import run
from driftrl.types import Episode, EpisodeRecord
from factories import TINY, driven, record

NOTHING = {"least_episodes": 1, "least_transitions": 1}
adaptive = partial(Adaptive, **NOTHING)
event = partial(Event, **NOTHING)
hindsight = partial(Hindsight, **NOTHING)


def firsts(decisions: list[Decision]) -> list[int]:
    return [decision.first for decision in decisions]


def alarms(decisions: list[Decision]) -> list[int]:
    seen = (one.columns.get("change_alarm") for one in decisions)
    return [n for n, alarm in enumerate(seen, start=2) if alarm]


def test_nothing_is_forgotten_while_nothing_changes() -> None:
    for seed in range(4):
        decisions = replay(adaptive(), driven([0.5] * 14, seed=seed))
        assert firsts(decisions) == [1] * 14


@pytest.mark.parametrize("rule", [adaptive(), event()])
def test_an_abrupt_change_is_located_and_the_span_grows_again(
    rule: ForgettingRule,
) -> None:
    for seed in range(2):
        decisions = replay(rule, driven([0.9] * 8 + [0.4] * 8, seed=seed))
        # Episode 9 is the first changed one: before episode 10 it is known.
        assert firsts(decisions) == [1] * 8 + [9] * 8
        assert alarms(decisions) == [10]


@pytest.mark.parametrize("seed", range(3))
def test_what_no_model_can_learn_is_no_change(seed: int) -> None:
    """One row of the newest episode is off by 100 standard deviations of the noise."""
    episodes = driven([0.5] * 10, seed=seed)
    after = episodes[-1].next_obs.copy()
    after[3] += 1.0
    episodes[-1] = replace(episodes[-1], next_obs=after)
    assert firsts(replay(adaptive(), episodes)) == [1] * 10


def test_two_changes_are_both_located() -> None:
    gains = [0.9] * 6 + [0.4] * 6 + [1.2] * 6
    decisions = replay(adaptive(soft_resets=True), driven(gains))
    assert decisions[-1].first == 13
    over = [n for n, one in enumerate(decisions, start=2) if one.turned_over]
    assert over == alarms(decisions) == [8, 14]
    assert not any(one.turned_over for one in replay(adaptive(), driven(gains)))


def test_a_steady_drift_shortens_and_its_end_lengthens() -> None:
    drift = list(np.linspace(1.0, 0.2, 20))
    decisions = replay(adaptive(), driven(drift + [0.2] * 14))
    spans = [n - one.first for n, one in enumerate(decisions, start=2)]
    assert max(spans[12:20]) <= 10  # of up to 20
    assert spans[-1] >= 13


def test_evidence_of_two_parts_by_hand() -> None:
    """Two data sets with shared noise have the density of a block-diagonal law."""
    episodes = driven([0.5, 0.9])
    features = quick_features(episodes, 100, 100)
    parts = [features.of(episode) for episode in episodes]
    values, noises = evidence(*(spectrum(Sums.of(*part)) for part in parts), floor=0.1)
    level = 1e-2  # of the noise levels, the 18 steps of a third of a decade after 1e-8
    noise, log_det, left = float(noises[0, 18]), 0.0, 0.0
    for phi, y in parts:
        matrix = np.eye(len(y)) + phi @ phi.T / level
        log_det += np.linalg.slogdet(matrix)[1]
        left += float(y[:, 0] @ np.linalg.solve(matrix, y[:, 0]))
    assert noise == pytest.approx(left / 30 + 0.01)
    assert values[0, 18] == pytest.approx(-0.5 * (30 * np.log(noise) + log_det))


def test_weights_of_spans_by_hand() -> None:
    prior = np.array([0.25, 0.75])
    weights = fixed_share(np.array([[0.0, 1.0]]), prior, rate=2.0, share=0.1)
    likely = np.array([0.25, 0.75 * np.exp(-2.0)])
    assert weights[0] == pytest.approx(prior)
    assert weights[1] == pytest.approx(0.9 * likely / likely.sum() + 0.1 * prior)


def test_all_data_are_kept_until_they_predict_worse() -> None:
    even = [0.0] * (len(SPANS) + 1)
    assert choose_span([even] * 30, least_gain=0.1) is None
    worse = [0.5, 0.4, 0.0, 0.0, 0.6, 0.8, 0.8]  # spans 4 and 8 are the best
    assert choose_span([worse], least_gain=0.1) is None
    assert choose_span([worse] * 4, least_gain=0.1) == 8  # the longer of them
    assert choose_span([worse] * 4 + [even] * 20, least_gain=0.1) is None


def test_cost_does_not_grow_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counting(Stretch):
        def __init__(self, episodes: list[Episode], tolerance: float) -> None:
            read.append(len(episodes))
            super().__init__(episodes, tolerance)

    monkeypatch.setattr("driftrl.memory.adaptive.Stretch", Counting)
    history = [EpisodeSummary(4)] * 200
    episodes = driven([0.5] * 200, steps=4)
    decision = decide(adaptive(), 201, Evidence.of(history, episodes))
    assert read == [64] and decision.first == 1


def test_old_data_are_looked_at_too() -> None:
    assert looked_at(3, 9) == [3, 4, 5, 6, 7, 8]
    numbers = looked_at(1, 501)
    assert len(numbers) == 64 and numbers[16:] == list(range(453, 501))
    assert numbers[0] == 1 and numbers[15] == 452
    assert set(np.diff(numbers[:16])) == {30, 31}
    # Too slow to show within 64 episodes: a gain that falls to a quarter in 300.
    gains = np.linspace(1.0, 0.25, 300)
    history = [EpisodeSummary(15, last_change=1)] * 300
    decision = decide(adaptive(), 301, Evidence.of(history, driven(list(gains))))
    assert decision.first > 100


@pytest.mark.parametrize(
    "gains", [[0.9] * 8 + [0.4] * 8, list(np.linspace(1.0, 0.2, 24))]
)
def test_rows_hold_all_that_a_decision_depends_on(
    gains: list[float], tmp_path: Path
) -> None:
    """A resumed run knows its past from rows as they are read from a file."""
    episodes = driven(gains)
    decisions = replay(adaptive(), episodes)
    rows = [
        record(n, steps=15, **(decisions[n - 2].columns if n > 1 else {}))
        for n in range(1, len(gains) + 1)
    ]
    with RecordWriter(tmp_path / "episodes.jsonl") as writer:
        for row in rows:
            writer.append(row)
    read = read_records(tmp_path / "episodes.jsonl")
    history = [EpisodeSummary.of(row) for row in read]
    for n, expected in enumerate(decisions, start=2):
        known = Evidence.of(history[: n - 1], episodes[: n - 1])
        assert decide(adaptive(), n, known) == expected
    last = decisions[-1]
    assert last.columns["last_change"] > 1 or last.first > 1


def test_hindsight_is_told() -> None:
    rule = hindsight((11, 21))
    known = Evidence(lengths=(10,) * 50)
    told = [rule.first_retained(n, known) for n in (1, 11, 12, 21, 22, 30)]
    assert told == [1, 1, 11, 11, 21, 21]
    over = [n for n in range(1, 30) if decide(rule, n, known).turned_over]
    assert over == []
    soft = replace(rule, soft_resets=True)
    over = [n for n in range(1, 30) if decide(soft, n, known).turned_over]
    assert over == [12, 22]
    assert hindsight().first_retained(50, known) == 1


def test_something_is_retained_in_any_case() -> None:
    # Episodes of 10, 10, 5, 5 and 20 transitions.
    known = Evidence(lengths=(10, 10, 5, 5, 20))
    kept = {1: 5, 20: 5, 21: 4, 25: 4, 26: 3, 31: 2, 41: 1, 99: 1}
    for least, first in kept.items():
        rule = Hindsight((5,), least_episodes=1, least_transitions=least)
        assert rule.first_retained(6, known) == first
        rule = replace(rule, least_episodes=3)
        assert rule.first_retained(6, known) == min(first, 3)
    episodes = driven([0.9] * 8 + [0.4] * 8)
    for rule in (adaptive(), event()):
        alone = replay(rule, episodes)
        floor = replay(replace(rule, least_episodes=3), episodes)
        for n, (free, held) in enumerate(zip(alone, floor, strict=True), start=2):
            assert held.first == min(free.first, max(1, n - 3))
            assert held.columns == free.columns
    assert configure("pendulum", "adaptive").forgetting == adaptive()
    assert configure("pendulum-decay", "event").forgetting == Event()


def test_a_reset_by_hand_holds_for_a_rule_that_adapts() -> None:
    decisions = replay(Since(5, adaptive()), driven([0.5] * 9))
    assert firsts(decisions) == [1] * 4 + [5] * 5
    over = [n for n, one in enumerate(decisions, start=2) if one.turned_over]
    assert over == [6]
    assert decisions[-1].columns["last_change"] == 1


@pytest.mark.parametrize("rule", [adaptive(), event()])
def test_bad_input_keeps_everything(rule: ForgettingRule) -> None:
    assert decide(rule, 1, Evidence()) == Decision(1, False, {"last_change": 1})
    assert firsts(replay(rule, driven([0.5]))) == [1]
    assert firsts(replay(rule, driven([0.5] * 6, steps=1))) == [1] * 6
    still = np.ones((5, 2))
    constant = Episode(still, 0 * still[:, :1], np.zeros(5), still, False)
    assert firsts(replay(rule, [constant] * 6)) == [1] * 6
    # Rows that are not finite do not count, nor do losses that are not.
    episodes = driven([0.5] * 6)
    for number in (0, 2, 5):
        obs = np.full_like(episodes[number].obs, np.nan)
        episodes[number] = replace(episodes[number], obs=obs)
    assert firsts(replay(rule, episodes)) == [1] * 6
    lost = [replace(one, obs=np.full_like(one.obs, np.inf)) for one in episodes]
    assert firsts(replay(rule, lost)) == [1] * 6
    losses = (float("nan"),) * 7
    history = [EpisodeSummary(15, last_change=1, span_losses=losses)] * 6
    evidence = Evidence.of(history, driven([0.5] * 6))
    assert decide(rule, 7, evidence).first == 1


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="false_alarms"):
        adaptive(false_alarms=0.0)
    for wrong in (-0.1, float("nan")):
        with pytest.raises(InputError, match="least_gain"):
            adaptive(least_gain=wrong)
    with pytest.raises(InputError, match="tolerance"):
        event(tolerance=1.0)
    with pytest.raises(InputError, match="changes"):
        hindsight((0,))
    for rule in (Adaptive, Event, Hindsight):
        with pytest.raises(InputError, match="least_episodes"):
            rule(least_episodes=0)
        with pytest.raises(InputError, match="least_transitions"):
            rule(least_transitions=0)


def test_a_run_records_why_and_resumes_exactly(tmp_path: Path) -> None:
    changes = {"episodes": 6, "forgetting": {"kind": "adaptive"}}
    settings = {**TINY, **changes, "drift": {"start": 2, "theta_min": 0.2}}
    config = configure("pendulum", changes=settings)
    assert config.method == "adaptive"
    run(config, tmp_path / "whole")
    rows = read_records(tmp_path / "whole" / "episodes.jsonl")
    assert [row.last_change for row in rows] == [None, 1, 1, 1, 3, 3]
    assert rows[2].change_candidate == 2 and rows[2].change_log_odds is not None
    assert [len(row.span_losses or ()) for row in rows] == [0, 0, 7, 7, 7, 7]

    def stop(record: EpisodeRecord) -> None:
        if record.episode == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", on_episode=stop)
    run(config, tmp_path / "cut", resume=True)
    resumed = read_records(tmp_path / "cut" / "episodes.jsonl")
    assert [replace(row, wall_s=0.0) for row in resumed] == [
        replace(row, wall_s=0.0) for row in rows
    ]


def test_other_rules_record_nothing_of_changes() -> None:
    assert decide(KeepAll(), 4, Evidence()) == Decision(1)


def test_evidence_of_a_difference_by_hand() -> None:
    """A later part with weights of its own beside the shared ones is a larger model."""
    episodes = driven([0.5, 0.9])
    features = quick_features(episodes, 100, 100)
    parts = [features.of(episode) for episode in episodes]
    before, after = (Sums.of(*part) for part in parts)
    whole = spectrum(before.plus(after))
    every = np.concatenate([part[0] for part in parts])
    sizes = (0.1, 0.5)
    differ = with_differences(whole, after, 3, sizes)
    for size, found in zip(sizes, differ, strict=True):
        own = np.zeros((len(every), 3))
        own[len(parts[0][1]) :] = size * parts[1][0][:, :3]
        phi = np.concatenate([every, own], axis=1)
        larger = spectrum(Sums.of(phi, np.concatenate([part[1] for part in parts])))
        expected = evidence(larger, floor=0.1)
        assert evidence(found, floor=0.1)[0] == pytest.approx(expected[0], rel=1e-6)
        assert evidence(found, floor=0.1)[1] == pytest.approx(expected[1], rel=1e-6)

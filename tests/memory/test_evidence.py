"""What a rule is shown in a run, and that a resumed run shows the same."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from driftrl.config.run import RunConfig
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.memory.forgetting import Evidence
from driftrl.records import read_records
from driftrl.training.loop import run
from driftrl.types import EpisodeRecord
from factories import TINY


@dataclass(frozen=True)
class Watching:
    """Keeps two episodes, reads released ones, and notes all that it was shown."""

    keep: int = 2
    shown: ClassVar[dict[int, Evidence]] = {}

    def first_retained(self, n: int, evidence: Evidence) -> int:
        self.shown[n] = evidence
        assert [len(episode) for episode in evidence.episodes] == [*evidence.lengths]
        rewards = [episode.executed_return for episode in evidence.episodes]
        assert rewards == pytest.approx(evidence.returns)
        # Depends on the loss of the newest, so that other evidence is another run.
        losses = [loss for loss in evidence.predictive_loss if loss is not None]
        return max(1, n - self.keep - int(1000 * sum(losses)) % 2)


class TooLate:
    """Returns nonsense from episode 3 on."""

    def first_retained(self, n: int, evidence: Evidence) -> int:
        return 1 if n < 3 else n + 1


def config_with(rule: Watching | TooLate) -> RunConfig:
    tiny = configure("pendulum", "custom", {**TINY, "episodes": 6})
    return replace(tiny, forgetting=rule)


def test_a_resumed_run_shows_a_rule_the_same_evidence(tmp_path: Path) -> None:
    config = config_with(Watching())
    run(config, tmp_path / "whole")
    whole = {n: replace(seen, episodes=()) for n, seen in Watching.shown.items()}
    rows = read_records(tmp_path / "whole" / "episodes.jsonl")
    assert whole[6].returns == tuple(row.return_executed for row in rows[:5])
    assert whole[6].model_error == tuple(row.model_error for row in rows[:5])
    assert whole[6].coverage == tuple(row.coverage for row in rows[:5])
    assert whole[6].predictive_loss == tuple(row.predictive_loss for row in rows[:5])
    assert whole[6].predictive_loss[0] is None and whole[6].predictive_loss[4]

    def stop(record: EpisodeRecord) -> None:
        if record.episode == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", on_episode=stop)
    Watching.shown.clear()
    run(config, tmp_path / "cut", resume=True)
    again = {n: replace(seen, episodes=()) for n, seen in Watching.shown.items()}
    assert {5, 6} <= again.keys() and all(again[n] == whole[n] for n in again)
    resumed = read_records(tmp_path / "cut" / "episodes.jsonl")
    assert [replace(row, wall_s=0.0) for row in resumed] == [
        replace(row, wall_s=0.0) for row in rows
    ]


def test_a_rule_that_returns_nonsense_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="TooLate.* 4 .* episode 3"):
        run(config_with(TooLate()), tmp_path)
    # Nothing was learned from episode 2, so only the first one counts.
    assert len(read_records(tmp_path / "episodes.jsonl")) == 1

"""Hindsight on systems whose change is known."""

import numpy as np
import pytest

from driftrl.errors import InputError
from driftrl.models.hindsight import Hindsight, recommend_window
from driftrl.types import Episode


def driven(gains: list[float], steps: int = 15) -> list[Episode]:
    """Return episodes of x' = x - 0.1·x³ + gain·u, with noise of 0.01."""
    draw = np.random.default_rng(5)
    episodes = []
    for gain in gains:
        obs, actions = draw.uniform(-1, 1, (2, steps, 1))
        noise = 0.01 * draw.standard_normal((steps, 1))
        after = obs - 0.1 * obs**3 + gain * actions + noise
        episodes.append(Episode(obs, actions, np.zeros(steps), after, False))
    return episodes


def test_still_system_keeps_all() -> None:
    found, drift = recommend_window(driven([0.5] * 12))
    assert found.keep_all and found.span == 11 and found.tested == 11
    assert drift.per_episode < 0.02
    assert found.scores[-1].coverage == pytest.approx(0.95, abs=0.05)


def test_fading_system_forgets() -> None:
    found, drift = recommend_window(driven(list(np.linspace(1.0, 0.3, 16))))
    assert not found.keep_all and found.span <= 4
    assert drift.is_evident and drift.older > 1.5 * drift.newer


def test_spans_before_the_first_episode_take_what_there_is() -> None:
    told = Hindsight(driven([0.5] * 5)).foretell([2, 5], [1, 4, 9])
    assert told.error.shape == (2, 3)
    assert told.error[0, 0] == told.error[0, 2]
    assert told.error[1, 1] == told.error[1, 2] != told.error[1, 0]


def test_a_change_shows_in_old_data_alone() -> None:
    hindsight = Hindsight(driven([1.0] * 4 + [0.5] * 4))
    (newer, older), *_ = hindsight.aged([8], 3)
    # Episodes 5-7 are after the change; of 2-4, none is.
    assert newer < 0.1 < 0.3 < older


def test_too_short_a_run_is_refused() -> None:
    with pytest.raises(InputError, match="at least 4 episodes, found 3"):
        recommend_window(driven([0.5] * 3))

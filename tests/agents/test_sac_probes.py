"""Probes of soft actor-critic: each can only be solved if one thing works.

Transitions between the states −1 and 1 with random actions, γ = ½ and next to no
temperature, so that every value is known; one compiled training serves them all.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents import sac
from driftrl.agents.replay import Batch, DeviceReplay
from driftrl.agents.sac import SACState
from driftrl.config.deep import SACConfig

PROBE = SACConfig(
    hidden=(32, 32),
    batch_size=64,
    learning_rate=3e-3,
    discount=0.5,
    tau=0.1,
    initial_temperature=1e-4,
)
ROWS = 256


def probe(
    rewards: Callable[[np.ndarray, np.ndarray], Any],
    next_obs: Callable[[np.ndarray], Any],
    terminated: Callable[[np.ndarray], Any],
    log_alpha: float | None = None,
    config: SACConfig = PROBE,
) -> SACState:
    """Learn from states ±1 and random actions; the rest are functions of them."""
    generator = np.random.default_rng(0)
    obs = np.where(np.arange(ROWS) % 2, 1.0, -1.0)
    action = generator.uniform(-1.0, 1.0, ROWS)
    column = lambda values: jnp.asarray(
        np.broadcast_to(values, ROWS)[:, None], jnp.float32
    )
    data = Batch(
        obs=column(obs),
        actions=column(action),
        rewards=column(rewards(obs, action))[:, 0],
        next_obs=column(next_obs(obs)),
        terminated=column(terminated(obs))[:, 0],
    )
    start = sac.init(1, 1, config, key=jax.random.key(0))
    if log_alpha is not None:
        start = replace(start, log_temperature=jnp.float32(log_alpha))
    first, size = (jnp.asarray(number, jnp.int32) for number in (0, ROWS))
    replay = DeviceReplay(data, first, size, data.obs[:1])
    return sac.train(start, replay, 600, config, jax.random.key(7))[0]


def q_of(state: SACState, obs: float) -> np.ndarray:
    """Return both critics at ``obs`` for seven actions in [−0.9, 0.9]."""
    actions = jnp.linspace(-0.9, 0.9, 7)[:, None]
    found = sac.q_values(state.critics, jnp.full((7, 1), obs), actions)
    return np.asarray(found)


def mode_of(state: SACState, obs: float) -> float:
    return float(sac.act(state.actor, np.array([obs]), key=None)[0])


stay = lambda obs: obs
ends = lambda obs: 1.0
lasts = lambda obs: 0.0


def test_probe_value() -> None:
    state = probe(lambda obs, action: 1.0, stay, ends)
    np.testing.assert_allclose(q_of(state, 1.0), 1.0, atol=0.1)


def test_probe_future_that_never_ends() -> None:
    # 1 + γ + γ² + … = 2; every episode that was cut short looks like this.
    state = probe(lambda obs, action: 1.0, stay, lasts)
    np.testing.assert_allclose(q_of(state, 1.0), 2.0, atol=0.15)


def test_probe_reward_above_the_average() -> None:
    # 3 and 1 in turn for ever: 1 − γ + γ² − … = 1/(1 + γ) above the average, or below.
    turns = lambda obs: -obs
    centering = replace(PROBE, centering=True)
    state = probe(lambda obs, action: 2.0 + obs, turns, lasts, config=centering)
    assert float(state.average_reward) == pytest.approx(2.0, abs=0.1)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(q_of(state, 1.0), 2 / 3, atol=0.1)
    np.testing.assert_allclose(q_of(state, -1.0), -2 / 3, atol=0.1)


def test_probe_discount() -> None:
    # From −1 to 1 for nothing, then 1 and the end.
    state = probe(
        lambda obs, action: (obs > 0) * 1.0, lambda obs: -obs, lambda obs: obs > 0
    )
    np.testing.assert_allclose(q_of(state, 1.0), 1.0, atol=0.1)
    np.testing.assert_allclose(q_of(state, -1.0), 0.5, atol=0.1)


def test_probe_observation() -> None:
    state = probe(lambda obs, action: obs, stay, ends)
    np.testing.assert_allclose(q_of(state, 1.0), 1.0, atol=0.1)
    np.testing.assert_allclose(q_of(state, -1.0), -1.0, atol=0.1)


def test_probe_action() -> None:
    state = probe(lambda obs, action: -4.0 * (action - 0.5) ** 2, stay, ends)
    assert mode_of(state, 1.0) == pytest.approx(0.5, abs=0.1)
    assert mode_of(state, -1.0) == pytest.approx(0.5, abs=0.1)


def test_probe_action_that_depends_on_the_observation() -> None:
    state = probe(lambda obs, action: -4.0 * (action - 0.5 * obs) ** 2, stay, ends)
    assert mode_of(state, 1.0) == pytest.approx(0.5, abs=0.1)
    assert mode_of(state, -1.0) == pytest.approx(-0.5, abs=0.1)


def test_probe_entropy_in_the_backup() -> None:
    # Nothing is paid but the entropy, so the policy becomes uniform, with H = log 2.
    # Q = γ·(Q + α·H), so Q = α·H for γ = ½.
    state = probe(lambda obs, action: 0.0, stay, lasts, log_alpha=0.0)
    temperature = float(jnp.exp(state.log_temperature))
    np.testing.assert_allclose(q_of(state, 1.0) / temperature, np.log(2.0), atol=0.15)

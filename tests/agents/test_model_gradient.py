"""The gradient through the model: targets and gradients by hand, and what it learns."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from driftrl.agents import model_gradient, sac
from driftrl.agents.model_gradient import Drawn, World
from driftrl.agents.replay import Batch
from driftrl.agents.rollouts import Termination, never_terminates
from driftrl.agents.sac import SACState
from driftrl.config.deep import EnsembleAgentConfig, ImaginationConfig, SACConfig

STEPS = 2
CONFIG = EnsembleAgentConfig(
    policy_gradient="model",
    imagination=ImaginationConfig(horizon=STEPS, collected=True),
    sac=SACConfig(
        hidden=(8, 8),
        critics=3,
        critic="bounded",
        activation="silu",
        batch_size=3,
        discount=0.9,
        initial_temperature=0.3,
    ),
)
START = jnp.asarray([[0.4, -1.0], [2.0, 0.3], [-0.6, 0.1]], jnp.float32)
COLLECTED = Batch(
    obs=START - 0.5,
    actions=jnp.asarray([[0.3], [-0.8], [0.1]], jnp.float32),
    rewards=jnp.asarray([1.0, -2.0, 0.5], jnp.float32),
    next_obs=START,
    terminated=jnp.asarray([0.0, 1.0, 0.0], jnp.float32),
)
KEY = jax.random.key(3)
NOISE = jax.random.normal(KEY, (STEPS + 1, len(START), 1))
SHOCKS = jax.random.normal(jax.random.key(4), (STEPS, len(START), 2))
SPREAD = jnp.asarray([0.3, 0.1])
"""Of the noise of the next state."""


def predict(obs: Array, action: Array) -> tuple[Array, Array, Array]:
    """Return the next state of a known machine, reward, and the uncertainty 1 + a."""
    mean = 0.9 * obs + jnp.asarray([0.5, -0.2]) * action[0]
    reward = -jnp.sum(obs**2) - 0.1 * action[0] ** 2
    return mean, reward, 1.0 + action[0]


def world(weight: float = 0.7, ends: Termination = never_terminates) -> World:
    def step(
        obs: Array, actions: Array, number: int, shocks: Array | None
    ) -> tuple[Array, Array, Array]:
        del number
        after, rewards, bonus = jax.vmap(predict)(obs, actions)
        return (
            after if shocks is None else after + SPREAD[None] * shocks,
            rewards,
            bonus,
        )

    shift = lambda obs: (obs - 0.5) / 2.0
    return World(step, ends, None, jnp.asarray(weight, jnp.float32), shift)


def initial(config: EnsembleAgentConfig = CONFIG) -> SACState:
    return sac.init(2, 1, config.sac, key=jax.random.key(0))


def by_hand(
    state: SACState, actor: Any, ends: Termination, weight: float, shocks: Array
) -> tuple[Array, Array]:
    """Return value and target of every start state, one row and step at a time."""
    alpha, gamma = 0.3, 0.9
    made, wanted = [], []
    for row, obs in enumerate(START):
        alive, total, first = jnp.ones(()), jnp.zeros(()), jnp.zeros(())
        draw = lambda obs, k, row=row: sac.policy(actor, (obs - 0.5) / 2.0).sample(
            NOISE[k, row]
        )
        for k in range(STEPS):
            action, log_prob = draw(obs, k)
            next_obs, reward, bonus = predict(obs, action)
            next_obs = next_obs + SPREAD * shocks[k, row]
            reward = reward + weight * bonus
            if state.average_reward is not None:
                reward = reward - state.average_reward
            total = total + alive * gamma**k * (reward - alpha * log_prob)
            first = log_prob if k == 0 else first
            over = ends(obs, action, next_obs).astype(jnp.float32)
            alive, obs = alive * (1.0 - over), next_obs
        action, log_prob = draw(obs, STEPS)
        q = lambda critics, z=(obs - 0.5) / 2.0, a=action: sac.values(
            state, critics, z[None], a[None], CONFIG.sac
        )[:, 0]
        future = alive * gamma**STEPS
        made.append(
            total + future * (q(state.target_critics).mean() - alpha * log_prob)
        )
        # From the third critic on: the third and the first.
        target = q(state.target_critics)[jnp.asarray([2, 0])].min() - alpha * log_prob
        wanted.append(total + alpha * first + future * target)
    return jnp.stack(made), jnp.stack(wanted)


def far(obs: Array, action: Array, next_obs: Array) -> Array:
    del obs, action
    return jnp.abs(next_obs[0]) > 1.0


@pytest.mark.parametrize(
    ("ends", "average", "shocks"),
    [
        (never_terminates, None, None),
        (far, None, None),
        (far, 0.4, None),
        (far, None, SHOCKS),
    ],
    ids=["absent", "known", "centered", "noise"],
)
def test_loss_target_and_gradient_by_hand(
    ends: Termination,
    average: float | None,
    shocks: Array | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = initial()
    state = replace(
        state,
        critics=jax.tree.map(lambda leaf: leaf + 0.05, state.critics),
        value_range=jnp.asarray([-30.0, 10.0]),
        average_reward=None if average is None else jnp.asarray(average),
    )
    seen: dict[str, Any] = {}
    regress, improve = sac.regress, sac.improve

    def keep_target(state: SACState, obs: Any, actions: Any, target: Any, config: Any):
        seen["target"] = target
        return regress(state, obs, actions, target, config)

    def keep_gradient(state: SACState, gradient: Any, *rest: Any) -> SACState:
        seen["gradient"] = jax.tree.map(
            lambda part: part * sac.half_width(state), gradient
        )
        return improve(state, gradient, *rest)

    monkeypatch.setattr(sac, "regress", keep_target)
    monkeypatch.setattr(sac, "improve", keep_gradient)

    @jax.jit
    def both(actor: Any) -> tuple[Any, ...]:
        where, drawn = world(ends=ends), Drawn(NOISE, jnp.asarray(2), shocks)
        given = (state, where, COLLECTED, START, CONFIG, drawn)
        _, metrics, _ = model_gradient.update(*given)
        moved = 0.0 * SHOCKS if shocks is None else shocks
        hand = lambda actor: by_hand(state, actor, ends, 0.7, moved)
        slope = jax.grad(lambda actor: -hand(actor)[0].mean())(actor)
        return metrics, dict(seen), hand(actor), slope

    metrics, seen, (value, target), expected = both(state.actor)
    np.testing.assert_allclose(metrics.actor_loss, -value.mean(), rtol=1e-5)
    first = [
        sac.policy(state.actor, (obs - 0.5) / 2.0).sample(NOISE[0, row])[1]
        for row, obs in enumerate(START)
    ]
    # r + λ·(1 + a) and, unless it ended there, what follows from START.
    follows = 0.9 * np.asarray([1.0, 0.0, 1.0]) * (target - 0.3 * np.asarray(first))
    collected = np.asarray([1.0, -2.0, 0.5]) + 0.7 * np.asarray([1.3, 0.2, 1.1])
    collected = collected + follows - (average or 0.0)
    np.testing.assert_allclose(
        seen["target"], np.concatenate([target, collected]), rtol=1e-5
    )
    np.testing.assert_allclose(metrics.entropy, -np.mean(first), rtol=1e-5)
    for got, wanted in zip(
        jax.tree.leaves(seen["gradient"]), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_collected_transitions_count_where_a_rollout_follows_them() -> None:
    """A third of the rollouts begin where episodes began."""
    state, seen = initial(), []
    for imagination in (
        replace(CONFIG.imagination, collected=False),
        CONFIG.imagination,
        replace(CONFIG.imagination, from_starts=1 / 3),
    ):
        config = replace(CONFIG, imagination=imagination)
        given = (world(), COLLECTED, START, config, Drawn(NOISE, jnp.asarray(0)))
        with pytest.MonkeyPatch.context() as patch:
            keep = lambda state, obs, *rest: (state, seen.append(obs), 0.0)
            patch.setattr(sac, "regress", keep)
            model_gradient.update(state, *given)
    normal = lambda obs: (np.asarray(obs) - 0.5) / 2.0
    np.testing.assert_allclose(seen[0], normal(START), rtol=1e-6)
    for rows, first in zip(seen[1:], (0, 1), strict=True):
        wanted = np.concatenate([START, COLLECTED.obs[first:]])
        np.testing.assert_allclose(rows, normal(wanted), rtol=1e-6)


def test_the_range_of_values_follows_the_rewards() -> None:
    config = CONFIG.sac
    rewards = jnp.linspace(-1.0, 2.0, 101)
    first = sac.with_range(initial(), rewards, config)
    np.testing.assert_allclose(first.value_range, [-9.7, 19.7], rtol=1e-5)
    later = replace(first, updates=jnp.asarray(1))
    moved = sac.with_range(later, 2.0 * rewards, config)
    np.testing.assert_allclose(moved.value_range, [-9.7097, 19.7197], rtol=1e-5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_value_after_an_end_is_within_the_range(sign: float) -> None:
    rewards = sign * jnp.linspace(1.0, 2.0, 101)
    for can_end, wanted in ((True, [0.0, 19.9]), (False, [10.1, 19.9])):
        state = sac.with_range(initial(), rewards, CONFIG.sac, can_end=can_end)
        ends = sorted(sign * np.asarray(state.value_range))
        np.testing.assert_allclose(ends, wanted, rtol=1e-5)


def test_critics_learn_that_nothing_comes_after_the_end() -> None:
    """Every step earns 1 and ends the episode; going on would be worth 10."""
    ends = lambda obs, action, next_obs: jnp.ones((), bool)
    step = lambda obs, actions, k, shocks: (
        obs + actions,
        jnp.ones(len(obs)),
        0.0 * obs[:, 0],
    )
    where = world(0.0, ends)._replace(step=step)
    quick = replace(
        CONFIG,
        sac=replace(CONFIG.sac, learning_rate=3e-3),
        imagination=ImaginationConfig(horizon=STEPS, termination="known"),
    )
    drawn = Drawn(NOISE, jnp.asarray(0))
    learn = jax.jit(
        lambda state: model_gradient.update(
            state, where, COLLECTED, START, quick, drawn
        )[0]
    )
    state = replace(initial(), log_temperature=jnp.asarray(-9.0))
    for _ in range(300):
        state = learn(state)
    q = sac.values(state, state.critics, START, 0.0 * START[:, :1], CONFIG.sac)
    np.testing.assert_allclose(jnp.mean(q), 1.0, atol=0.3)


def test_what_follows_the_end_has_no_part_in_the_range() -> None:
    """All rollouts end at once, and only then there is a huge reward."""

    def step(
        obs: Array, actions: Array, number: int, _: None
    ) -> tuple[Array, Array, Array]:
        reward = jnp.full(len(obs), 1e6 if number else 1.0)
        return obs + 0.0 * actions, reward, jnp.zeros(len(obs))

    ends = lambda obs, action, next_obs: jnp.ones((), bool)
    where = world(0.0, ends)._replace(step=step)
    drawn = Drawn(NOISE, jnp.asarray(0))
    given = (initial(), where, COLLECTED, START, CONFIG, drawn)
    state, _, _ = model_gradient.update(*given)
    assert np.abs(state.value_range).max() < 100.0


def test_values_outside_the_range_are_not_believed() -> None:
    state = replace(initial(), value_range=jnp.asarray([-3.0, 5.0]))
    quick = replace(CONFIG.sac, learning_rate=3e-3)
    fit = jax.jit(partial(sac.regress, config=quick))
    obs, actions = START, START[:, :1]
    for _ in range(300):
        state, _, _ = fit(state, obs, actions, jnp.full(len(obs), 100.0))
    values = sac.values(state, state.critics, obs, actions, CONFIG.sac)
    np.testing.assert_allclose(values, 5.0, atol=0.1)


def learned_action(weight: float) -> np.ndarray:
    """Return what is done in START after learning to stay at zero."""
    settings = replace(CONFIG.sac, learning_rate=3e-3, initial_temperature=1e-3)
    config = replace(CONFIG, sac=settings)
    imagined = replace(config.imagination, collected=False)
    config = replace(config, imagination=imagined)
    given = (world(weight), COLLECTED, START, config)
    step = lambda state, drawn: (model_gradient.update(state, *given, drawn)[0], None)
    noise = jax.random.normal(KEY, (400, *NOISE.shape))
    drawn = Drawn(noise, jnp.arange(400) % 3)
    state, _ = jax.lax.scan(step, initial(config), drawn)
    normalised = jax.vmap(world().normalise)(START)
    return np.asarray(jax.vmap(partial(sac.act, state.actor, key=None))(normalised))


def test_learns_to_steer_and_is_drawn_to_uncertainty() -> None:
    greedy, curious = learned_action(0.0), learned_action(20.0)
    # u = 0.5·a acts on the first coordinate, which is to become small.
    assert greedy[1] < -0.5
    assert greedy[2] > 0.2
    assert curious.min() > 0.8

"""Updates of model-based SAC: what they learn from, and what they leave alone."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import unwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from driftrl.agents import model_based, model_gradient, sac
from driftrl.agents import replay as replays
from driftrl.agents.base import LearnContext
from driftrl.agents.model_based import (
    ModelBasedAgent,
    ModelBasedState,
    Settings,
    current_weight,
    mean_bonus,
)
from driftrl.agents.model_free import train_steps
from driftrl.agents.optimism import norm
from driftrl.agents.replay import DeviceReplay, device_replay, statistics_of
from driftrl.agents.rollouts import TaskFunctions
from driftrl.config import deep
from driftrl.errors import InputError
from driftrl.models import ensemble
from driftrl.models.ensemble import EnsemblePrediction, Statistics
from driftrl.types import Data
from factories import same

SIZES = (2, 1)
CONFIG = deep.EnsembleAgentConfig(
    policy_gradient="critic",
    model=deep.EnsembleConfig(members=3, hidden=(8, 8), learning_rate=0.01),
    imagination=deep.ImaginationConfig(horizon=2),
    optimism=deep.DeepOptimismConfig(),
    sac=deep.SACConfig(hidden=(8, 8), batch_size=4, learning_rate=0.01),
    learning=deep.LearningConfig(model_updates=1, policy_updates=3, learning_starts=4),
    soft_reset=deep.SoftResetConfig(),
)
TUNED = replace(
    CONFIG,
    model=replace(CONFIG.model, separate_batches=True),
    optimism=deep.DeepOptimismConfig(rule="tuned", weight=2.0, learning_rate=0.1),
)
THROUGH_MODEL = replace(
    CONFIG,
    policy_gradient="model",
    model=replace(CONFIG.model, loss="homoscedastic"),
    sac=replace(CONFIG.sac, critic="bounded", critics=3, activation="silu"),
)
KEY = jax.random.key(5)
ROWS = 9


def transitions(rows: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(rows, 2))
    actions = rng.uniform(-1, 1, size=(rows, 1))
    next_obs = obs + 0.1 * actions + rng.normal(size=(rows, 2))
    return Data(obs, actions, rng.normal(size=rows), next_obs, np.zeros(rows, bool))


@functools.cache
def replay_of(rows: int) -> DeviceReplay:
    """Return a replay of one capacity for all tests: another would compile again."""
    return device_replay(transitions(rows), ROWS)


def turned(replay: DeviceReplay, start: int) -> DeviceReplay:
    """Return the same transitions in a ring that starts elsewhere, padded by NaN."""
    padding = jnp.arange(replay.capacity) >= replay.size
    rows = jax.tree.map(
        lambda column: jnp.roll(
            jnp.where(padding.reshape(-1, *[1] * (column.ndim - 1)), jnp.nan, column),
            start,
            axis=0,
        ),
        replay.rows,
    )
    return replay._replace(rows=rows, start=jnp.asarray(start, jnp.int32))


def agent(config: deep.EnsembleAgentConfig = CONFIG) -> ModelBasedAgent:
    return ModelBasedAgent(SIZES, config, capacity=ROWS, steps=ROWS)


def fresh(config: deep.EnsembleAgentConfig = CONFIG) -> ModelBasedState:
    return agent(config).initial_state(key=jax.random.key(0))


def trained(
    config: deep.EnsembleAgentConfig = CONFIG,
    replay: DeviceReplay | None = None,
    updates: int = 5,
    functions: TaskFunctions = TaskFunctions(),  # noqa: B008 - immutable
) -> ModelBasedState:
    replay = replay_of(6) if replay is None else replay
    count = jnp.asarray(updates, jnp.int32)
    state = agent(config).refresh(fresh(config), replay)
    settings = Settings(config, functions)
    return train_steps(model_based.update, settings, state, replay, count, KEY)


def value_of(state: ModelBasedState) -> float:
    rows = replay_of(6).rows
    return float(sac.q_values(state.policy.critics, rows.obs, rows.actions).mean())


@pytest.mark.parametrize("loss", ["mse", "homoscedastic", "likelihood"])
def test_other_statistics_change_no_function(loss: Any) -> None:
    config = replace(THROUGH_MODEL, model=replace(CONFIG.model, loss=loss))
    new = fresh(config)
    before = agent(config).refresh(new, replay_of(6))
    # What has learned nothing yet was drawn for normalised inputs, and stays.
    assert same(before.policy, new.policy)
    assert same(before.model.members, new.model.members)
    model = replace(before.model, updates=jnp.asarray(1, jnp.int32))
    before = replace(before, model=model)
    other = jax.tree.map(lambda rows: 3.0 * rows + 2.0, replay_of(6).rows)
    after = agent(config).refresh(before, replay_of(6)._replace(rows=other))
    assert float(after.model.statistics.input_std[0]) > 2.0
    obs, actions = replay_of(6).rows.obs[:6], replay_of(6).rows.actions[:6]

    def functions(state: ModelBasedState) -> Any:
        predicted = ensemble.predict_batch(state.model, obs, actions)
        normal = jax.vmap(state.model.statistics.normalised_obs)(obs)
        values = sac.q_values(state.policy.critics, normal, actions)
        policy = replace(agent(config).policy(state).deterministic(), trained=True)
        acted = [policy.act(row, None, key=KEY)[0] for row in np.asarray(obs)]
        # Scale and noise are of the statistics, or softly bounded in their units.
        kept = predicted._replace(scale=values, aleatoric_std=values)
        return *kept, np.stack(acted)

    for old, new in zip(functions(before), functions(after), strict=True):
        np.testing.assert_allclose(old, new, rtol=1e-3, atol=3e-5)


def test_a_batch_is_predicted_as_its_rows_are() -> None:
    model = agent(THROUGH_MODEL).refresh(fresh(THROUGH_MODEL), replay_of(6)).model
    obs, actions = replay_of(6).rows.obs[:6], replay_of(6).rows.actions[:6]
    batch = ensemble.predict_batch(model, obs, actions)
    rows = jax.vmap(lambda *row: ensemble.predict(model, *row), out_axes=ensemble.ROWS)(
        obs, actions
    )
    for found, expected in zip(batch, rows, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # Three members, two rows each; at turn 1 the last member has the first rows.
    for turn, members in ((0, [0, 0, 1, 1, 2, 2]), (1, [2, 2, 0, 0, 1, 1])):
        alone = ensemble.predict_in_turn(model, obs, actions, turn)
        wanted = np.asarray(batch.member_means)[members, np.arange(6)]
        np.testing.assert_allclose(alone[0], wanted, rtol=1e-5, atol=1e-6)
        paired = ensemble.predict_by_pairs(model, obs, actions, turn)
        for found, expected in zip((paired.mean, paired.reward), alone, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_pairs_of_members_differ_as_all_do() -> None:
    """Over three turns every row is predicted by all three pairs: σ² is their mean."""
    model = agent(THROUGH_MODEL).refresh(fresh(THROUGH_MODEL), replay_of(6)).model
    obs, actions = replay_of(6).rows.obs[:6], replay_of(6).rows.actions[:6]
    pairs = [ensemble.predict_by_pairs(model, obs, actions, turn) for turn in range(3)]
    variance = np.mean([np.asarray(pair.epistemic_std) ** 2 for pair in pairs], axis=0)
    expected = ensemble.predict_batch(model, obs, actions)
    np.testing.assert_allclose(variance, expected.epistemic_std**2, rtol=1e-4)
    np.testing.assert_allclose(pairs[0].scale, expected.scale)
    shape = expected.aleatoric_std.shape
    noise = np.broadcast_to(pairs[0].aleatoric_std, shape)
    np.testing.assert_allclose(noise, expected.aleatoric_std, rtol=1e-5)


def test_what_is_known_is_imagined_exactly() -> None:
    """The second observation is the last action; it has no uncertainty either."""
    known = lambda obs, action, made: made.at[1].set(action[0])
    obs, actions = replay_of(6).rows.obs[:6], replay_of(6).rows.actions[:6]
    for optimism in (
        deep.DeepOptimismConfig(weight=0.0),
        deep.DeepOptimismConfig(weight=1.0),
    ):
        imagination = replace(THROUGH_MODEL.imagination, dynamics="member")
        config = replace(THROUGH_MODEL, optimism=optimism, imagination=imagination)
        model = agent(config).refresh(fresh(config), replay_of(6)).model
        step = model_gradient.world_step(model, config, known)
        after, _, bonus = step(obs, actions, 1, None)
        plain = ensemble.predict_by_pairs(model, obs, actions, 1)
        np.testing.assert_allclose(after[:, 1], actions[:, 0])
        np.testing.assert_allclose(after[:, 0], plain.mean[:, 0], rtol=1e-6)
        relative = np.asarray(plain.epistemic_std / plain.scale)[:, [0, 2]]
        expected = np.linalg.norm(relative, axis=1) * (optimism.weight > 0)
        np.testing.assert_allclose(bonus, expected, rtol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_imagined_states_have_the_noise_that_the_model_states(weight: float) -> None:
    """But for what is known, the second observation."""
    known = lambda obs, action, made: made.at[1].set(action[0])
    imagination = replace(THROUGH_MODEL.imagination, dynamics="member", noise=True)
    optimism = deep.DeepOptimismConfig(weight=weight)
    config = replace(THROUGH_MODEL, imagination=imagination, optimism=optimism)
    model = agent(config).refresh(fresh(config), replay_of(6)).model
    obs, actions = replay_of(6).rows.obs[:6], replay_of(6).rows.actions[:6]
    step = model_gradient.world_step(model, config, known)
    shocks = jnp.asarray([[1.5, -2.0]])
    moved = step(obs, actions, 0, shocks)[0] - step(obs, actions, 0, None)[0]
    stated = ensemble.predict_batch(model, obs, actions).aleatoric_std
    np.testing.assert_allclose(moved[:, 0], 1.5 * stated[..., 0].ravel(), rtol=1e-4)
    np.testing.assert_allclose(moved[:, 1], 0.0)
    for instead in ({"policy_gradient": "critic"}, {"model": CONFIG.model}):
        with pytest.raises(InputError, match="homoscedastic"):
            replace(config, **instead)


# ---- updates -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [CONFIG, TUNED, THROUGH_MODEL],
    ids=["shared", "separate", "through the model"],
)
def test_neither_padding_nor_the_start_of_the_ring_matters(
    config: deep.EnsembleAgentConfig,
) -> None:
    replay = replay_of(8)
    expected = trained(config, replay)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(expected))
    for start in (0, 5, 8):
        assert same(trained(config, turned(replay, start)), expected)


def test_optimism_reaches_the_critics() -> None:
    config = replace(CONFIG, imagination=deep.ImaginationConfig(horizon=2))
    greedy = trained(replace(config, optimism=deep.DeepOptimismConfig(weight=0.0)))
    # A bonus is never negative, so it raises the values.
    assert value_of(trained(config)) > value_of(greedy)


def huge(prediction: EnsemblePrediction) -> Array:
    return 1e3 + jnp.sum(prediction.epistemic_std)


def test_a_users_bonus_is_paid() -> None:
    imagination = deep.ImaginationConfig(horizon=2, bonus=f"{__name__}:huge")
    found = trained(replace(CONFIG, imagination=imagination))
    assert float(found.metrics.bonus) > 1e3
    assert value_of(found) > value_of(trained()) + 0.1


def always(obs: Array, action: Array, next_obs: Array) -> Array:
    return jnp.ones((), bool)


def rich(obs: Array, action: Array, next_obs: Array) -> Array:
    return 1e3 + 0.0 * next_obs[0]


def test_known_termination_cuts_the_future() -> None:
    """With every step the last, values are rewards: the discount does not matter."""
    data = replace(transitions(6), terminated=np.ones(6, bool))
    replay = device_replay(data, ROWS)
    near, far = (
        trained(
            replace(CONFIG, sac=replace(CONFIG.sac, discount=discount)),
            replay,
            functions=TaskFunctions(termination=always),
        )
        for discount in (0.0, 0.99)
    )
    assert same(near.policy, far.policy)
    assert not same(trained(CONFIG, replay).policy, far.policy)


def test_a_known_reward_replaces_the_learned_one() -> None:
    found = trained(functions=TaskFunctions(reward=rich))
    assert value_of(found) > value_of(trained()) + 0.1
    assert same(trained().model, found.model)


def test_tuned_weight_moves_and_constant_does_not() -> None:
    found = trained(TUNED)
    assert float(current_weight(fresh(TUNED), TUNED)) == pytest.approx(2.0)
    assert float(current_weight(found, TUNED)) != pytest.approx(2.0)
    assert float(current_weight(trained(), CONFIG)) == 1.0
    # π̄ follows the actor only where it is used.
    assert not same(found.average_actor, fresh(TUNED).average_actor)
    assert same(trained().average_actor, fresh().average_actor)


@pytest.mark.parametrize("config", [CONFIG, THROUGH_MODEL], ids=["critic", "model"])
def test_the_best_candidate_acts(
    config: deep.EnsembleAgentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, learning=replace(config.learning, candidates=3))
    actors: list[Any] = []
    nan = float("nan")
    scores = iter(
        [1.0, 3.0, 2.0, 2.0, 1.0, nan, 0.0, nan, nan, nan, nan, 1.0, 2.0, 0.0]
    )

    def score(*given: Any) -> float:
        actors.append(given[4])
        return next(scores)

    monkeypatch.setattr(model_based, "_score", score)
    learner, data = agent(config), transitions(6)
    obs = np.ones(2)

    def learn(state: ModelBasedState) -> ModelBasedState:
        return learner.learn(state, data, LearnContext(2, 6, collected=7), key=KEY)

    def action(actor: Any) -> float:
        return float(sac.act(actor, obs.astype(np.float32), key=None)[0])

    # First the three new ones; then what acted before, too, which is still the best.
    state = learn(fresh(config))
    assert int(state.policy.updates) == 6 * config.learning.policy_updates
    assert action(learner.policy(state).actor) == action(actors[1])
    assert len({action(actor) for actor in actors}) == 3
    state = learn(state)
    assert len(actors) == 7
    assert int(state.policy.updates) == 13 * config.learning.policy_updates
    assert action(learner.policy(state).actor) == action(actors[1]) == action(actors[3])
    # Where no score is a number, what acted before goes on.
    state = learn(state)
    assert action(learner.policy(state).actor) == action(actors[7]) == action(actors[1])
    # After a soft reset only new ones count.
    monkeypatch.setattr(learner, "_reset_due", lambda context: True)
    state = learn(state)
    assert len(actors) == 14
    assert action(learner.policy(state).actor) == action(actors[12])


def test_a_candidate_is_scored_from_where_episodes_begin() -> None:
    config = replace(CONFIG, imagination=deep.ImaginationConfig(horizon=1))
    state, replay = trained(config), replay_of(6)
    settings, actor = Settings(config), state.policy.actor
    score = float(model_based._score(settings, 2, state, replay, actor, KEY))
    weight, totals = config.optimism.weight, []
    for obs in replay.starts:
        total = 0.0
        for _ in range(2):
            made = ensemble.predict(state.model, obs, sac.policy(actor, obs).mode())
            total += float(made.reward + weight * norm(made))
            obs = made.mean
        totals.append(total)
    assert score == pytest.approx(np.mean(totals), rel=1e-4)


def test_mean_bonus_by_hand() -> None:
    def bonus_of(obs: Array, action: Array) -> Array:
        return jnp.abs(action[0]) * jnp.sqrt(4.0 + obs[0] ** 2)

    obs = jnp.array([[0.0, 9.0], [1.0, 9.0], [1.5, 9.0]])
    draw = lambda obs, key: jax.random.uniform(key, (1,))
    found = mean_bonus(bonus_of, draw, obs, KEY)
    # |u|·√(2² + x₀²), for x₀ = 0, 1, 1.5.
    drawn = [jax.random.uniform(key, (1,))[0] for key in jax.random.split(KEY, 3)]
    expected = np.mean(np.array(drawn) * [2.0, math.sqrt(5.0), 2.5])
    assert float(found) == pytest.approx(expected, rel=1e-5)


# ---- soft resets -------------------------------------------------------------------


def resetting(model: float, policy: float) -> deep.EnsembleAgentConfig:
    return replace(CONFIG, soft_reset=deep.SoftResetConfig(model=model, policy=policy))


def test_soft_reset_of_nothing_and_of_everything() -> None:
    learned = trained()
    assert same(agent(resetting(0.0, 0.0)).soft_reset(learned, KEY), learned)
    found = agent(resetting(1.0, 1.0)).soft_reset(learned, KEY)
    model_key, policy_key = jax.random.split(KEY)
    actor = sac.init(*SIZES, CONFIG.sac, key=policy_key).actor
    model = ensemble.initial_state(*SIZES, CONFIG.model, key=model_key)
    assert same(found.policy.actor, actor) and same(found.average_actor, actor)
    assert same(found.model.members, model.members)
    assert same(found.model.optimiser, model.optimiser)
    # The normalisation belongs to the data.
    assert same(found.model.statistics, learned.model.statistics)


def test_soft_reset_rates_are_separate() -> None:
    learned = trained()
    found = agent(resetting(0.5, 0.0)).soft_reset(learned, KEY)
    assert same(found.policy, learned.policy)
    assert not same(found.model, learned.model)
    found = agent(resetting(0.0, 0.5)).soft_reset(learned, KEY)
    assert same(found.model, learned.model)
    assert not same(found.policy.actor, learned.policy.actor)


# ---- normalisation -----------------------------------------------------------------

Measure = Callable[[DeviceReplay], Statistics]


@pytest.fixture(params=["at once", "in blocks"])
def measure(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Measure]:
    """Return statistics of a short ring, computed at once or in blocks of 8 rows."""
    compiled = statistics_of
    if request.param == "in blocks":
        monkeypatch.setattr(replays, "_MEASURED_AT_ONCE", 0)
        monkeypatch.setattr(replays, "_BLOCK", 8)
        compiled = jax.jit(lambda *given: unwrap(statistics_of)(*given))
    yield compiled


# 24 rows are three blocks, 17 are two and a row; 30 rows in all are almost four.
@pytest.mark.parametrize("size", [7, 17, 24, 30])
def test_statistics_against_numpy(measure: Measure, size: int) -> None:
    rng = np.random.default_rng(size)
    obs = rng.normal(np.array([300.0, -5.0]), size=(size, 2)).astype(np.float32)
    actions = np.full((size, 1), 0.3, np.float32)
    changes = rng.normal(size=(size, 2)).astype(np.float32)
    rewards, next_obs = rng.normal(size=size), obs + changes
    data = Data(obs, actions, rewards, next_obs, np.zeros(size, bool))
    found = measure(device_replay(data, 30))
    inputs = np.concatenate([obs, actions], axis=1)
    outputs = np.concatenate([next_obs - obs, rewards[:, None]], axis=1)
    expected = (
        *(inputs.mean(axis=0), inputs.std(axis=0).clip(min=1e-3)),
        *(outputs.mean(axis=0), outputs.std(axis=0)),
    )
    for part, other in zip(jax.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-4, atol=1e-5)
    for start in (13, 29):
        assert same(measure(turned(device_replay(data, 30), start)), found)


def test_statistics_of_nothing(measure: Measure) -> None:
    found = measure(device_replay(transitions(0), 30))
    assert found.input_mean.tolist() == [0.0] * 3
    assert found.output_std.tolist() == [1.0] * 3


def test_the_policy_waits_for_the_model() -> None:
    """Five updates, a step of the model each: after three steps the policy learns."""
    learning = replace(THROUGH_MODEL.learning, model_first=3, policy_updates=1)
    config = replace(THROUGH_MODEL, learning=learning)
    begun, waiting, after = fresh(config), trained(config, updates=2), trained(config)
    assert same(waiting.policy, begun.policy) and int(waiting.policy.updates) == 0
    assert not same(waiting.model.members, begun.model.members)
    assert (int(after.model.updates), int(after.policy.updates)) == (5, 3)


def test_the_temperature_has_its_own_step_size() -> None:
    """Adam's first step is the step size itself, whatever the gradient."""
    for rate in (1.0, 0.25):
        config = replace(CONFIG.sac, temperature_rate=rate, learning_rate=0.01)
        state = sac.init(*SIZES, config, key=KEY)
        zero = jax.tree.map(jnp.zeros_like, state.actor)
        moved = sac.improve(state, zero, jnp.asarray(2.0), SIZES[1], config)
        change = float(state.log_temperature - moved.log_temperature)
        assert change == pytest.approx(0.01 * rate, rel=1e-4)

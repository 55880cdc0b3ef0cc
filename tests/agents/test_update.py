"""Units of practice: what they draw from, what they learn, what they leave alone."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from driftrl.agents import update as practice
from driftrl.agents.replay import Replay, make_replay
from driftrl.agents.rollouts import TaskFunctions
from driftrl.agents.sac import Batch
from driftrl.agents.update import (
    DeepState,
    current_weight,
    measured,
    practise,
)
from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACAgentConfig,
    SACConfig,
    SoftResetConfig,
)
from driftrl.types import Data

SIZES = (2, 1)
SMALL: dict[str, Any] = {
    "sac": SACConfig(hidden=(8, 8), batch_size=4, learning_rate=0.01),
    "learning": LearningConfig(model_updates=1, policy_updates=3, learning_starts=4),
}
CONFIG = EnsembleAgentConfig(
    model=EnsembleConfig(members=3, hidden=(8, 8), learning_rate=0.01),
    imagination=ImaginationConfig(horizon=2),
    **SMALL,
)
SEPARATE = replace(CONFIG, model=replace(CONFIG.model, separate_batches=True))
MODEL_FREE = SACAgentConfig(**SMALL)
KEY = jax.random.key(5)
ROWS = 9


def same(found: Any, expected: Any) -> bool:
    """Return whether two pytrees are equal bit for bit."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def transitions(rows: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(rows, 2))
    actions = rng.uniform(-1, 1, size=(rows, 1))
    next_obs = obs + 0.1 * actions + rng.normal(size=(rows, 2))
    return Data(obs, actions, rng.normal(size=rows), next_obs, np.zeros(rows, bool))


def fresh(config: practice.Config) -> DeepState:
    return practice.initial_state(SIZES, config, key=jax.random.key(0))


def replay_of(data: Data) -> Replay:
    """Return a replay of one size for all tests: another would compile again."""
    return make_replay(data, ROWS)


def practised(
    config: practice.Config,
    replay: Replay,
    units: int = 5,
    known: TaskFunctions = TaskFunctions(),  # noqa: B008 - nothing known, and never changed
) -> DeepState:
    count = jnp.asarray(units, jnp.int32)
    state = measured(fresh(config), replay)
    return practise(state, replay, count, config, known, KEY)


@pytest.mark.parametrize("config", [CONFIG, MODEL_FREE], ids=["ensemble", "sac"])
def test_padding_is_never_learned_from(config: practice.Config) -> None:
    replay = replay_of(transitions(6))
    poisoned = jax.tree.map(lambda column: column.at[6:].set(jnp.nan), replay.data)
    found = practised(config, replay._replace(data=poisoned))
    assert same(found, practised(config, replay))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize("config", [CONFIG, MODEL_FREE, SEPARATE])
def test_where_a_ring_begins_does_not_matter(config: practice.Config) -> None:
    """Bit for bit: the sums of the statistics too are taken in the order of rows."""
    replay = replay_of(transitions(8))
    expected = practised(config, replay)
    for start in (1, 5, 8):
        columns = [jnp.roll(column, start, axis=0) for column in replay.data]
        turned = Replay(Batch(*columns), jnp.asarray(start, jnp.int32), replay.size)
        assert same(practised(config, turned), expected)


@pytest.mark.parametrize("config", [CONFIG, MODEL_FREE], ids=["ensemble", "sac"])
def test_updates_are_counted(config: practice.Config) -> None:
    found = practised(config, replay_of(transitions(6)), units=4)
    assert int(found.policy.updates) == 4 * 3
    if found.model is not None:
        assert int(found.model.updates) == 4


def test_no_units_change_no_network() -> None:
    start = fresh(CONFIG)
    found = practised(CONFIG, replay_of(transitions(6)), units=0)
    assert same(found.policy, start.policy) and same(found.notes, start.notes)
    assert found.model is not None and start.model is not None
    assert same(found.model.members, start.model.members)


def test_statistics_are_those_of_the_retained_rows() -> None:
    data = transitions(7)
    found = practised(CONFIG, replay_of(data), units=1).model
    assert found is not None
    inputs = np.concatenate([data.obs, data.actions], axis=1)
    changes = np.concatenate([data.next_obs - data.obs, data.rewards[:, None]], axis=1)
    known = found.statistics
    np.testing.assert_allclose(known.input_mean, inputs.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(known.input_std, inputs.std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(known.output_mean, changes.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(known.output_std, changes.std(axis=0), rtol=1e-5)


@pytest.mark.slow
def test_without_optimism_the_bonus_does_not_matter() -> None:
    greedy = replace(CONFIG, optimism=DeepOptimismConfig(weight=0.0))
    other = replace(
        greedy, imagination=ImaginationConfig(horizon=2, bonus="information_gain")
    )
    replay = replay_of(transitions(6))
    first, second = practised(greedy, replay), practised(other, replay)
    assert same(first.policy, second.policy)
    assert float(first.notes.bonus) != float(second.notes.bonus)


@pytest.mark.parametrize(
    "placement", ["reward", pytest.param("losses", marks=pytest.mark.slow)]
)
def test_optimism_reaches_critics_and_actor(placement: Any) -> None:
    imagination = ImaginationConfig(horizon=2, placement=placement)
    weights = (0.0, 5.0)
    replay = replay_of(transitions(6))
    greedy, keen = (
        practised(
            replace(
                CONFIG,
                imagination=imagination,
                optimism=DeepOptimismConfig(weight=weight),
            ),
            replay,
        )
        for weight in weights
    )
    assert not same(greedy.policy.critics, keen.policy.critics)
    # A bonus is never negative, so what is added to the reward raises the values.
    obs, actions = replay.data.obs, replay.data.actions
    values = [
        practice.sac.q_values(state.policy.critics, obs, actions).mean()
        for state in (greedy, keen)
    ]
    assert values[1] > values[0]


def test_known_end_cuts_the_future() -> None:
    """With every step the last, values are rewards: the discount cannot matter."""

    def always(obs: Array, action: Array, next_obs: Array) -> Array:
        return jnp.ones((), bool)

    data = transitions(6)
    data = replace(data, terminated=np.ones(6, bool))
    replay = replay_of(data)
    near, far = (
        practised(
            replace(
                CONFIG,
                imagination=ImaginationConfig(horizon=2, termination="known"),
                sac=replace(CONFIG.sac, discount=discount),
            ),
            replay,
            known=TaskFunctions(termination=always),
        )
        for discount in (0.0, 0.99)
    )
    assert same(near.policy, far.policy)
    never = practised(CONFIG, replay)
    assert not same(never.policy, far.policy)


def test_a_known_reward_stands_in_for_the_learned_one() -> None:
    """Only imagined rewards change: where all are collected ones, nothing does."""

    def rich(obs: Array, action: Array, next_obs: Array) -> Array:
        return 1e3 + 0.0 * next_obs[0]

    replay = replay_of(transitions(6))
    obs, actions = replay.data.obs, replay.data.actions
    learned, known = (
        practised(CONFIG, replay, known=TaskFunctions(reward=reward))
        for reward in (None, rich)
    )
    values = [
        practice.sac.q_values(state.policy.critics, obs, actions).mean()
        for state in (learned, known)
    ]
    assert values[1] > values[0] + 0.1
    assert same(learned.model, known.model)


@pytest.mark.slow
def test_member_dynamics_differ_from_the_mean() -> None:
    sampled = replace(
        CONFIG, imagination=ImaginationConfig(horizon=2, dynamics="member")
    )
    replay = replay_of(transitions(6))
    assert not same(practised(sampled, replay).policy, practised(CONFIG, replay).policy)


def test_separate_batches_reach_the_members() -> None:
    replay = replay_of(transitions(6))
    assert not same(practised(SEPARATE, replay).model, practised(CONFIG, replay).model)


def test_notes_are_means_over_units() -> None:
    """Two units in one call note the mean of what each notes alone."""
    replay = replay_of(transitions(6))
    together = practised(CONFIG, replay, units=2)
    unit = practice.imagining_unit(CONFIG, TaskFunctions())
    start = practised(CONFIG, replay, units=0)
    first, noted = jax.jit(unit)(start, replay, jax.random.fold_in(KEY, 0))
    _, also = jax.jit(unit)(first, replay, jax.random.fold_in(KEY, 1))
    for name, mean in together.notes._asdict().items():
        expected = 0.5 * (getattr(noted, name) + getattr(also, name))
        np.testing.assert_allclose(mean, expected, rtol=1e-4, err_msg=name)


def test_tuned_weight_moves_and_constant_does_not() -> None:
    replay = replay_of(transitions(6))
    tuned = replace(
        CONFIG, optimism=DeepOptimismConfig(rule="tuned", weight=2.0, learning_rate=0.1)
    )
    assert float(current_weight(fresh(tuned), tuned)) == pytest.approx(2.0)
    assert float(current_weight(practised(tuned, replay), tuned)) != pytest.approx(2.0)
    assert float(current_weight(practised(CONFIG, replay), CONFIG)) == 1.0
    # π̄ follows the actor only where somebody looks at it.
    start = fresh(tuned).average_actor
    assert not same(practised(tuned, replay).average_actor, start)
    assert same(practised(CONFIG, replay).average_actor, fresh(CONFIG).average_actor)


def test_soft_reset_of_nothing_and_of_everything() -> None:
    learned = practised(CONFIG, replay_of(transitions(6)))
    none = replace(CONFIG, soft_reset=SoftResetConfig(model=0.0, policy=0.0))
    assert same(practice.renewed(learned, SIZES, none, key=KEY), learned)
    everything = replace(CONFIG, soft_reset=SoftResetConfig(model=1.0, policy=1.0))
    found = practice.renewed(learned, SIZES, everything, key=KEY)
    model_key, policy_key = jax.random.split(KEY)
    actor = practice.sac.init(*SIZES, CONFIG.sac, key=policy_key).actor
    model = practice.ensemble.initial_state(*SIZES, CONFIG.model, key=model_key)
    assert same(found.policy.actor, actor) and same(found.average_actor, actor)
    assert found.model is not None and learned.model is not None
    assert same(found.model.members, model.members)
    assert same(found.model.optimiser, model.optimiser)
    # What belongs to the data stays with the data.
    assert same(found.model.statistics, learned.model.statistics)


def test_soft_reset_rates_are_apart() -> None:
    learned = practised(CONFIG, replay_of(transitions(6)))
    model_only = replace(CONFIG, soft_reset=SoftResetConfig(model=0.5, policy=0.0))
    found = practice.renewed(learned, SIZES, model_only, key=KEY)
    assert same(found.policy, learned.policy)
    assert not same(found.model, learned.model)
    policy_only = replace(CONFIG, soft_reset=SoftResetConfig(model=0.0, policy=0.5))
    found = practice.renewed(learned, SIZES, policy_only, key=KEY)
    assert same(found.model, learned.model)
    assert not same(found.policy.actor, learned.policy.actor)

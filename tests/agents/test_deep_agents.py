"""Both deep agents: when they learn, how they act, what they refuse and record."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.base import Agent, LearnContext, Policy
from driftrl.agents.model_based import ModelBasedAgent
from driftrl.agents.model_free import SACAgent
from driftrl.agents.replay import DeviceReplay
from driftrl.agents.rollouts import TaskFunctions
from driftrl.config import deep
from driftrl.errors import EnvironmentFault, InputError
from driftrl.models import ensemble
from driftrl.types import Data, Episode, Transition
from factories import same

CONFIG = deep.EnsembleAgentConfig(
    policy_gradient="model",
    model=deep.EnsembleConfig(members=2, hidden=(8,), learning_rate=0.01),
    imagination=deep.ImaginationConfig(horizon=1),
    optimism=deep.DeepOptimismConfig(),
    sac=deep.SACConfig(hidden=(8, 8), batch_size=4, learning_rate=0.01),
    learning=deep.LearningConfig(model_updates=2, policy_updates=3, learning_starts=6),
    soft_reset=deep.SoftResetConfig(),
)
MODEL_FREE = deep.SACAgentConfig(CONFIG.sac, CONFIG.learning)
STEPWISE = replace(CONFIG, learning=replace(CONFIG.learning, when="step"))
KEY = jax.random.key(1)
STEPS = 5
Config = deep.EnsembleAgentConfig | deep.SACAgentConfig
each_agent = pytest.mark.parametrize("config", [CONFIG, MODEL_FREE], ids=["mb", "sac"])


def agent(config: Config = CONFIG, capacity: int = 20, steps: int = STEPS) -> Any:
    if isinstance(config, deep.SACAgentConfig):
        return SACAgent((2, 1), config, capacity=capacity, steps=steps)
    return ModelBasedAgent((2, 1), config, capacity=capacity, steps=steps)


def data(rows: int, ended: bool = False) -> Data:
    rng = np.random.default_rng(rows)
    obs, actions = rng.normal(size=(rows, 2)), rng.uniform(-1, 1, size=(rows, 1))
    ends = np.zeros(rows, bool)
    ends[-1] = ended
    return Data(obs, actions, rng.normal(size=rows), obs + 0.1 * actions, ends)


def episode(rows: int) -> Episode:
    made = data(rows)
    return Episode(made.obs, made.actions, made.rewards, made.next_obs, False)


def start(config: Config = CONFIG) -> Any:
    return agent(config).initial_state(key=jax.random.key(0))


def learned(rows: int = 10, config: Config = CONFIG, **changes: Any) -> Any:
    context = {"episode": 3, "steps": STEPS, "collected": STEPS, **changes}
    return agent(config).learn(
        start(config), data(rows), LearnContext(**context), key=KEY
    )


# ---- learning and acting -----------------------------------------------------------


@each_agent
def test_updates_follow_the_transitions_collected(config: Config) -> None:
    assert isinstance(agent(config), Agent)
    assert isinstance(agent(config).policy(start(config)), Policy)
    # All 10 transitions when learning begins, then the new ones.
    found = learned(config=config, collected=4)
    assert int(found.policy.updates) == 2 * 10 * 3
    assert same(found, learned(config=config, collected=4))
    context = LearnContext(4, STEPS, collected=4)
    later = agent(config).learn(found, data(10), context, key=KEY)
    assert int(later.policy.updates) == 2 * (10 + 4) * 3
    assert int(learned(config=config, updates=7).policy.updates) == 7 * 3
    few = learned(rows=5, config=config)
    assert same(few.policy, start(config).policy)


def test_training_for_a_time_ends() -> None:
    found = learned(seconds=0.05)
    assert int(found.model.updates) % 20 == 0 and int(found.model.updates) > 0
    assert int(learned(seconds=0.0).policy.updates) == 0


def test_actions_are_uniform_before_the_first_update() -> None:
    policy = agent().policy(start())
    draws = [
        policy.act(np.zeros(2), None, key=jax.random.fold_in(KEY, i))[0][0]
        for i in range(200)
    ]
    # Mean 0 and variance 1/3, within four standard errors of 200 draws.
    assert abs(np.mean(draws)) < 4 * math.sqrt(1 / 3 / 200)
    assert np.var(draws) == pytest.approx(1 / 3, abs=4 * math.sqrt(4 / 45 / 200))


def test_the_deterministic_policy_takes_the_mode() -> None:
    state = learned()
    policy, obs = agent().policy(state), np.array([0.3, -0.2])
    seen = state.model.statistics.normalised_obs(jnp.asarray(obs, jnp.float32))
    outputs = state.average_actor(seen)
    action, _ = policy.deterministic().act(obs, None, key=KEY)
    np.testing.assert_allclose(action, np.tanh(outputs[:1]), rtol=1e-5)
    assert action.dtype == np.float64
    drawn = {float(policy.act(obs, None, key=jax.random.key(i))[0][0]) for i in (1, 2)}
    assert len(drawn) == 2


@pytest.mark.parametrize(
    ("period", "number", "turned_over", "due"),
    [
        (None, 5, True, True),
        (None, 5, False, False),
        (4, 5, False, True),
        (4, 1, False, False),
        (4, 6, True, False),
    ],
)
@each_agent
def test_soft_resets_follow_the_rule_or_a_period(
    config: Config, period: int | None, number: int, turned_over: bool, due: bool
) -> None:
    config = replace(config, soft_reset=deep.SoftResetConfig(0.5, 0.5, period))
    # Too little data to learn from: only the reset changes anything.
    found = learned(2, config, episode=number, turned_over=turned_over)
    assert same(found.policy.actor, start(config).policy.actor) != due
    assert agent(config).policy(found).metrics == {"soft_reset": due}
    none = replace(config, soft_reset=deep.SoftResetConfig(0.0, 0.0, period))
    assert not learned(2, none, episode=number, turned_over=True).softly_reset


# ---- learning at every step --------------------------------------------------------

ROW = Transition(np.zeros(2), np.zeros(1), 1.0, np.ones(2), False, False)


def test_steps_learn_as_much_as_an_episode() -> None:
    stepwise, state = agent(STEPWISE), start(STEPWISE)
    assert agent().begin_online(lambda: data(8)) is None
    online = stepwise.begin_online(lambda: data(8))
    for step in range(STEPS):
        key = jax.random.fold_in(KEY, step)
        state, online = stepwise.observe(state, online, ROW, key=key)
    assert int(state.policy.updates) == 2 * 5 * 3
    context = LearnContext(3, STEPS, collected=STEPS)
    after = stepwise.learn(state, data(13), context, key=KEY)
    assert same(after.policy, state.policy)


def test_the_normalisation_is_refreshed_at_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the first update, then after a twentieth or a batch of 4."""
    sizes: list[int] = []

    def refresh(self: Any, state: Any, replay: DeviceReplay) -> Any:
        sizes.append(int(replay.size))
        return state

    monkeypatch.setattr(ModelBasedAgent, "refresh", refresh)
    monkeypatch.setattr(ModelBasedAgent, "_train", lambda self, state, *rest: state)
    for retained, expected in ((3, [6, 10, 14]), (98, [99, 103, 108])):
        stepwise, state = agent(STEPWISE, 120, 12), start(STEPWISE)
        online = stepwise.begin_online(lambda rows=retained: data(rows))
        for _ in range(12):
            state, online = stepwise.observe(state, online, ROW, key=KEY)
        assert sizes == expected
        sizes.clear()


# ---- what is refused ---------------------------------------------------------------


def test_a_termination_that_was_declared_absent_is_refused() -> None:
    context = LearnContext(3, STEPS, collected=STEPS)
    with pytest.raises(EnvironmentFault, match="absent"):
        agent().learn(start(), data(8, ended=True), context, key=KEY)
    found = agent(MODEL_FREE).learn(
        start(MODEL_FREE), data(8, ended=True), context, key=KEY
    )
    assert int(found.policy.updates) > 0


def vector(prediction: Any) -> Any:
    return prediction.epistemic_std


@pytest.mark.parametrize(
    "wrong", [{"termination": "known"}, {"reward": "known"}, {"bonus": "vector"}]
)
def test_missing_functions_and_wrong_bonuses_are_refused(wrong: Any) -> None:
    if "bonus" in wrong:
        wrong = {"bonus": f"{__name__}:vector"}
    (value,) = wrong.values()
    with pytest.raises(InputError, match=value):
        agent(replace(CONFIG, imagination=deep.ImaginationConfig(**wrong)))


# ---- what is recorded --------------------------------------------------------------


def predictions(state: Any, rows: Data) -> list[Any]:
    return [
        ensemble.predict(
            state.model, jnp.asarray(obs, jnp.float32), jnp.asarray(action, jnp.float32)
        )
        for obs, action in zip(rows.obs, rows.actions, strict=True)
    ]


@pytest.mark.parametrize(
    "functions",
    [
        {"reward": lambda obs, action, next_obs: float(obs[0])},
        {"reward": lambda obs, action, next_obs: jnp.argmax(obs)},
        {"reward": lambda obs, action, next_obs: jnp.sqrt(obs[0] - obs[0])},
        {"termination": lambda obs, action, next_obs: bool(obs[0] > 0)},
    ],
    ids=["not traceable", "an integer", "infinite slope", "termination"],
)
def test_functions_without_a_gradient_are_refused(functions: Any) -> None:
    [known] = functions
    settings: Any = {known: "known"}
    config = replace(CONFIG, imagination=deep.ImaginationConfig(**settings))
    given = TaskFunctions(**functions)
    with pytest.raises(InputError, match=known):
        ModelBasedAgent((2, 1), config, capacity=8, steps=4, functions=given)


def test_metrics_are_columns_of_the_record() -> None:
    names = {"soft_reset", "temperature", "entropy", "q", "critic_loss"}
    assert set(agent().policy(start()).metrics) == {"soft_reset"}
    state = learned()
    metrics = agent().policy(state).metrics
    assert set(metrics) == names | {"model_loss", "bonus"}
    assert metrics["soft_reset"] is False
    assert metrics["q"] == float(state.metrics.policy.q)
    policy = agent(MODEL_FREE).policy(learned(config=MODEL_FREE))
    assert set(policy.metrics) == names and policy.weight == 0.0


def test_model_metrics_of_a_short_episode_by_hand() -> None:
    state, rows = learned(), data(3)
    found = agent().policy(state).model_metrics(episode(3))
    made = predictions(state, rows)
    spread = (rows.next_obs - rows.obs).std(axis=0)
    error = rows.next_obs - np.array([each.mean for each in made])
    std = np.array([each.epistemic_std[:2] for each in made])
    expected = np.sqrt(np.mean((error / spread) ** 2))
    assert found.model_error == pytest.approx(expected, rel=1e-4)
    norms = np.linalg.norm(std / spread, axis=1)
    assert found.epistemic_std == pytest.approx(norms.mean(), rel=1e-4)
    known = TaskFunctions(next_obs=lambda obs, action, made: made.at[1].set(action[0]))
    told = ModelBasedAgent((2, 1), CONFIG, capacity=20, steps=STEPS, functions=known)
    alone = told.policy(state).model_metrics(episode(3))
    expected = np.sqrt(np.mean((error[:, 0] / spread[0]) ** 2))
    assert alone.model_error == pytest.approx(expected, rel=1e-4)
    assert agent().policy(start()).model_metrics(episode(3)).model_error is None
    policy = agent(MODEL_FREE).policy(learned(config=MODEL_FREE))
    assert policy.model_metrics(episode(3)).model_error is None

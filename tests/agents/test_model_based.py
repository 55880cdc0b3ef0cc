"""The deep agent: when it learns, how it acts, what it refuses, what it notes."""

import math
from dataclasses import replace
from inspect import unwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents import model_based as deep_agent
from driftrl.agents import sac
from driftrl.agents import update as practice
from driftrl.agents.base import Agent, LearnContext, Policy
from driftrl.agents.model_based import DeepAgent
from driftrl.agents.replay import Replay, make_replay
from driftrl.agents.update import DeepState
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
from driftrl.errors import EnvironmentFault, InputError
from driftrl.memory.episodes import EpisodeMemory
from driftrl.models import ensemble
from driftrl.types import Data, Episode, Transition

CONFIG = EnsembleAgentConfig(
    model=EnsembleConfig(members=2, hidden=(8,), learning_rate=0.01),
    imagination=ImaginationConfig(horizon=1),
    sac=SACConfig(hidden=(8, 8), batch_size=4, learning_rate=0.01),
    learning=LearningConfig(model_updates=2, policy_updates=3, learning_starts=6),
)
KEY = jax.random.key(1)
STEPS = 5


def agent(config: practice.Config = CONFIG) -> DeepAgent:
    return DeepAgent((2, 1), config, capacity=20, steps=STEPS)


def data(rows: int, ended: bool = False) -> Data:
    rng = np.random.default_rng(rows)
    obs, actions = rng.normal(size=(rows, 2)), rng.uniform(-1, 1, size=(rows, 1))
    ends = np.zeros(rows, bool)
    ends[-1] = ended
    return Data(obs, actions, rng.normal(size=rows), obs + 0.1 * actions, ends)


def same(found: Any, expected: Any) -> bool:
    """Return whether two pytrees are equal bit for bit."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def start(config: practice.Config = CONFIG) -> DeepState:
    return agent(config).initial_state(key=jax.random.key(0))


def learned(
    rows: int = 10, config: practice.Config = CONFIG, **context: Any
) -> DeepState:
    told = LearnContext(**{"episode": 3, "steps": STEPS, "collected": STEPS, **context})
    return agent(config).learn(start(config), data(rows), told, key=KEY)


def test_it_is_an_agent_and_has_policies() -> None:
    assert isinstance(agent(), Agent)
    assert isinstance(agent().policy(start()), Policy)


def test_updates_go_with_the_transitions_collected() -> None:
    found = learned(collected=4)
    assert found.model is not None
    assert int(found.model.updates) == 2 * 4
    assert int(found.policy.updates) == 2 * 4 * 3


def test_below_the_least_data_nothing_is_learned() -> None:
    assert same(learned(rows=5).policy, start().policy)
    assert int(learned(rows=6).policy.updates) > 0


def test_actions_are_uniform_until_something_is_learned() -> None:
    policy = agent().policy(start())
    draws = [
        policy.act(np.zeros(2), None, key=jax.random.fold_in(KEY, i))[0][0]
        for i in range(200)
    ]
    # Mean 0 and variance 1/3, within four standard errors of 200 draws.
    assert abs(np.mean(draws)) < 4 * math.sqrt(1 / 3 / 200)
    assert np.var(draws) == pytest.approx(1 / 3, abs=4 * math.sqrt(4 / 45 / 200))


def test_without_noise_it_takes_the_mode() -> None:
    state = learned()
    policy, obs = agent().policy(state), np.array([0.3, -0.2])
    outputs = state.policy.actor(jnp.asarray(obs, jnp.float32))
    action, _ = policy.deterministic().act(obs, None, key=KEY)
    np.testing.assert_allclose(action, np.tanh(outputs[:1]), rtol=1e-5)
    assert action.dtype == np.float64
    drawn = {float(policy.act(obs, None, key=jax.random.key(i))[0][0]) for i in (1, 2)}
    assert len(drawn) == 2


# ---- soft resets ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "episode", "turned_over", "due"),
    [
        (None, 5, True, True),
        (None, 5, False, False),
        (4, 5, False, True),
        (4, 1, False, False),
        (4, 6, True, False),
    ],
)
def test_soft_resets_keep_the_clock_of_the_rule_or_their_own(
    period: int | None, episode: int, turned_over: bool, due: bool
) -> None:
    config = replace(CONFIG, soft_reset=SoftResetConfig(0.5, 0.5, period))
    told = {"episode": episode, "turned_over": turned_over}
    # Too little data to learn from: what changes is the reset alone.
    found = learned(rows=2, config=config, **told)
    assert bool(found.softly_reset) == due
    assert same(found.policy.actor, start().policy.actor) != due
    assert agent(config).policy(found).metrics["soft_reset"] == due


def test_a_reset_that_changes_nothing_is_none() -> None:
    config = replace(CONFIG, soft_reset=SoftResetConfig(0.0, 0.0))
    found = learned(rows=2, config=config, episode=5, turned_over=True)
    assert not bool(found.softly_reset)


# ---- learning at every step ----------------------------------------------------------


def test_steps_learn_as_much_as_an_episode() -> None:
    config = replace(CONFIG, learning=replace(CONFIG.learning, when="step"))
    stepwise, state = agent(config), start(config)
    assert agent().begin_online(lambda: data(8)) is None
    online = stepwise.begin_online(lambda: data(8))
    assert online is not None
    row = Transition(np.zeros(2), np.zeros(1), 1.0, np.ones(2), False, False)
    for step in range(STEPS):
        key = jax.random.fold_in(KEY, step)
        state, online = stepwise.observe(state, online, row, key=key)
    assert online.size == 8 + STEPS
    assert int(state.policy.updates) == int(learned().policy.updates) == 2 * 5 * 3
    told = LearnContext(3, STEPS, collected=STEPS)
    after = stepwise.learn(state, data(13), told, key=KEY)
    assert same(after.policy, state.policy)


def test_the_normalisation_follows_the_data_at_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the first practice of an episode, then after a twentieth or a batch of 4."""
    sizes: list[int] = []

    def noted(state: DeepState, replay: Replay) -> DeepState:
        sizes.append(int(replay.size))
        return practice.measured(state, replay)

    monkeypatch.setattr(deep_agent, "measured", noted)
    monkeypatch.setattr(deep_agent, "practise", lambda state, *_: state)
    config = replace(CONFIG, learning=replace(CONFIG.learning, when="step"))
    row = Transition(np.zeros(2), np.zeros(1), 1.0, np.ones(2), False, False)
    for retained, expected in ((3, [6, 10, 14]), (98, [99, 103, 108])):
        one = DeepAgent((2, 1), config, capacity=120, steps=12)
        state, online = start(config), one.begin_online(lambda n=retained: data(n))
        assert online is not None
        for _ in range(12):
            state, online = one.observe(state, online, row, key=KEY)
        assert sizes == expected
        sizes.clear()


# ---- what is kept between episodes ---------------------------------------------------


def lived(lengths: list[int]) -> list[Episode]:
    rows = [data(length) for length in lengths]
    return [Episode(r.obs, r.actions, r.rewards, r.next_obs, False) for r in rows]


@pytest.mark.parametrize(
    ("when", "rule", "kept"),
    [
        ("episode", "constant", 2),
        ("episode", "constant", 9),  # in the end more than there is room for
        pytest.param("episode", "theory", 3, marks=pytest.mark.slow),
        ("step", "constant", 2),
        pytest.param("step", "theory", 3, marks=pytest.mark.slow),
    ],
)
def test_learning_does_not_depend_on_what_is_kept(
    when: Any, rule: Any, kept: int
) -> None:
    """One agent for all episodes, and a fresh one each: equal bit for bit.

    Of a capacity of 20 rows and episodes of 5, so that a ring comes round.
    """
    config = replace(
        CONFIG,
        learning=replace(CONFIG.learning, when=when),
        optimism=DeepOptimismConfig(rule=rule),
    )
    old, memory = agent(config), EpisodeMemory(2, 1, np.float32)
    state = fresh = start(config)
    for number, episode in enumerate(lived([5, 4, 5, 5, 3, 5, 5]), start=1):
        state, fresh = (
            taught(one, before, memory, episode, max(1, number - kept))
            for one, before in ((old, state), (agent(config), fresh))
        )
        memory.append(episode)
        first = max(1, number + 1 - kept)
        told = LearnContext(number + 1, STEPS, collected=len(episode))
        state, fresh = (
            one.learn(before, memory.since(first), told, key=KEY)
            for one, before in ((old, state), (agent(config), fresh))
        )
        memory.release(before=first)
        assert same(state, fresh), number
    assert int(state.policy.updates) > 0


def taught(
    one: DeepAgent, state: DeepState, memory: EpisodeMemory, episode: Episode, m: int
) -> DeepState:
    """Live through an episode, having learned from those since m."""
    online = one.begin_online(lambda: memory.since(m))
    for step in range(len(episode)):
        if online is None:
            break
        seen = Transition(
            episode.obs[step],
            episode.actions[step],
            float(episode.rewards[step]),
            episode.next_obs[step],
            False,
            False,
        )
        key = jax.random.fold_in(KEY, step)
        state, online = one.observe(state, online, seen, key=key)
    return state


def test_information_of_many_rows_is_judged_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = learned()
    assert state.model is not None
    replay = make_replay(data(50), 60)
    whole = deep_agent._information(state.model, replay)
    monkeypatch.setattr(deep_agent, "_AT_ONCE", 16)
    again = jax.jit(lambda *given: unwrap(deep_agent._information)(*given))
    blocks = again(state.model, replay)
    np.testing.assert_allclose(blocks, whole, rtol=1e-5)


# ---- the end of a task ---------------------------------------------------------------


def test_an_end_that_was_declared_absent_is_refused() -> None:
    told = LearnContext(3, STEPS, collected=STEPS)
    with pytest.raises(EnvironmentFault, match=r"termination = 'absent'.*'learned'"):
        agent().learn(start(), data(8, ended=True), told, key=KEY)
    model_free = SACAgentConfig(CONFIG.sac, CONFIG.learning)
    found = agent(model_free).learn(
        start(model_free), data(8, ended=True), told, key=KEY
    )
    assert int(found.policy.updates) > 0


def test_a_known_end_must_be_given() -> None:
    known = replace(CONFIG, imagination=ImaginationConfig(termination="known"))
    with pytest.raises(InputError, match="offers none. Choose 'learned'"):
        agent(known)


# ---- λ of the theory -----------------------------------------------------------------


def test_theory_weight_by_hand() -> None:
    config = replace(CONFIG, optimism=DeepOptimismConfig(rule="theory"))
    state = learned(rows=10, config=config, sliding=True)
    assert state.model is not None
    rows, gain = data(10), 0.0
    for obs, action in zip(rows.obs, rows.actions, strict=True):
        belief = ensemble.predict(
            state.model, jnp.asarray(obs, jnp.float32), jnp.asarray(action, jnp.float32)
        )
        relative = np.asarray(belief.epistemic_std / belief.scale)[:2]
        gain += 0.5 * np.log1p((relative / 1e-3) ** 2).sum()
    # β = B + σ√(2(γ + d·log(nT/δ))), λ = R_max·T·β/σ with σ = 1e-3, B = R_max = 1.
    width = 1.0 + 1e-3 * math.sqrt(2.0 * (gain + 2 * math.log(3 * STEPS / 0.1)))
    expected = STEPS * width / 1e-3
    assert agent(config).policy(state).weight == pytest.approx(expected, rel=1e-3)


# ---- what is noted and diagnosed -----------------------------------------------------


def test_notes_name_columns_of_the_record() -> None:
    names = {"temperature", "entropy", "q", "critic_loss", "model_loss", "bonus"}
    assert set(agent().policy(learned()).metrics) == {*names, "soft_reset"}
    assert set(agent().policy(start()).metrics) == {"soft_reset"}
    model_free = SACAgentConfig(CONFIG.sac, CONFIG.learning)
    notes = agent(model_free).policy(learned(config=model_free)).metrics
    assert set(notes) == {"soft_reset", *names} - {"model_loss", "bonus"}


def test_diagnosis_of_a_short_episode_by_hand() -> None:
    state = learned()
    assert state.model is not None
    rows = data(3)
    episode = Episode(rows.obs, rows.actions, rows.rewards, rows.next_obs, False)
    found = agent().policy(state).model_metrics(episode)
    beliefs = [
        ensemble.predict(
            state.model, jnp.asarray(obs, jnp.float32), jnp.asarray(action, jnp.float32)
        )
        for obs, action in zip(rows.obs, rows.actions, strict=True)
    ]
    spread = (rows.next_obs - rows.obs).std(axis=0)
    error = rows.next_obs - np.array([belief.mean for belief in beliefs])
    std = np.array([belief.epistemic_std[:2] for belief in beliefs])
    noise = np.array([belief.aleatoric_std[:2] for belief in beliefs])
    within = np.abs(error) <= 2 * np.sqrt(std**2 + noise**2)
    expected = np.sqrt(np.mean((error / spread) ** 2))
    assert found.model_error == pytest.approx(expected, rel=1e-4)
    assert found.coverage == pytest.approx(within.mean())
    norms = np.linalg.norm(std / spread, axis=1)
    assert found.epistemic_std == pytest.approx(norms.mean(), rel=1e-4)
    assert agent().policy(start()).model_metrics(episode).model_error is None


def test_more_data_than_was_planned_for_still_fits() -> None:
    assert int(learned(rows=50).policy.updates) > 0


def test_same_key_same_agent_other_key_another() -> None:
    told = LearnContext(3, STEPS, collected=STEPS)
    first, again = (agent().learn(start(), data(10), told, key=KEY) for _ in range(2))
    assert same(first, again)
    other = agent().learn(start(), data(10), told, key=jax.random.key(2))
    assert not same(other.policy, first.policy)


def test_zero_actions_in_the_actor_are_refused_by_sac() -> None:
    with pytest.raises(InputError, match="at least one state and one action"):
        sac.init(2, 0, CONFIG.sac, key=KEY)

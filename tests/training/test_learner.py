"""Ask and tell: the order of the calls, and what each refuses."""

import jax
import numpy as np
import pytest

from driftrl.agents.gp_mpc import GPPolicy
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.envs.drifting import make_env
from driftrl.errors import EnvironmentFault, InputError
from driftrl.training.assembly import make_learner
from driftrl.training.learner import Learner
from driftrl.training.loop import collect
from driftrl.training.streams import Purpose, integer_for, key_for

OBS = np.array([-1.0, 0.0, 0.0])


@pytest.fixture
def learner(tiny: RunConfig) -> Learner:
    return make_learner(tiny)


def test_an_episode_is_what_was_asked_and_told(learner: Learner) -> None:
    assert learner.begin_episode() == 1
    told = [OBS + 0.1, OBS + 0.2]
    asked = []
    for step, after in enumerate(told):
        asked.append(learner.act(OBS if step == 0 else told[step - 1]))
        learner.observe(after, -float(step), False, step == 1)
    episode = learner.end_episode()
    np.testing.assert_array_equal(episode.obs, [OBS, told[0]])
    np.testing.assert_array_equal(episode.next_obs, told)
    np.testing.assert_array_equal(episode.actions, asked)
    np.testing.assert_array_equal(episode.rewards, [0.0, -1.0])
    assert not episode.terminated  # truncation is not termination
    assert learner.number == 1
    learner.learn(episode)
    assert learner.number == 2 and learner.memory.lengths == (2,)


def test_an_episode_begun_anew_leaves_no_trace(learner: Learner) -> None:
    learner.begin_episode()
    first = learner.act(OBS)
    learner.observe(OBS, 0.0, False, False)
    assert learner.begin_episode() == 1
    np.testing.assert_array_equal(learner.act(OBS), first)


def test_termination_is_kept(learner: Learner) -> None:
    learner.begin_episode()
    learner.act(OBS)
    learner.observe(OBS, 0.0, True, False)
    assert learner.end_episode().terminated


def test_wrong_order_is_a_sentence(learner: Learner) -> None:
    with pytest.raises(InputError, match=r"act\(\) needs a running episode"):
        learner.act(OBS)
    learner.begin_episode()
    with pytest.raises(InputError, match="without act"):
        learner.observe(OBS, 0.0, False, False)
    with pytest.raises(InputError, match="Episode 1 has no transition"):
        learner.end_episode()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_numbers_are_faults_of_the_environment(
    learner: Learner, bad: float
) -> None:
    learner.begin_episode()
    with pytest.raises(EnvironmentFault, match="episode 1, step 0"):
        learner.act(np.array([0.0, bad, 0.0]))
    learner.act(OBS)
    with pytest.raises(EnvironmentFault, match="reward.*episode 1, step 0"):
        learner.observe(OBS, bad, False, False)
    with pytest.raises(EnvironmentFault, match="observation.*episode 1, step 0"):
        learner.observe(np.array([bad, 0.0, 0.0]), 0.0, False, False)


@pytest.mark.parametrize("text", [False, True])
def test_the_texts_reset_leaves_an_episode_without_data(
    tiny: RunConfig, text: bool
) -> None:
    """With n₀ of the text the policy after a reset has no model, and still acts."""
    rule = {"kind": "reset", "period": 2, "index": "text" if text else "algorithm"}
    config = overridden(tiny, {"forgetting": rule})
    learner = make_learner(config)
    env = make_env(config.task, config.environment, config.drift)
    models = []
    for _ in range(4):
        policy = learner.policy
        assert isinstance(policy, GPPolicy)
        models.append(policy.posterior is not None)
        collect(learner, env, seed=0)
        learner.learn(learner.end_episode())
    # Episode 3 is the first after a reset: m(3) = 3 in the text, 2 in the algorithm.
    assert models == [False, True, not text, True]


def test_theory_weight_depends_on_data_and_rule(tiny: RunConfig) -> None:
    theory = {
        "agent": {"optimism": {"rule": "theory"}, "model": {"learn_noise": False}}
    }
    weights = {}
    for kind in ("keep_all", "window"):
        config = overridden(tiny, {**theory, "forgetting": {"kind": kind}})
        learner = make_learner(config)
        env = make_env(config.task, config.environment, config.drift)
        collect(learner, env, seed=0)
        learner.learn(learner.end_episode())
        weights[kind] = learner.policy.weight
    # β ≥ B = 1, so λ = R_max·T·β/σ ≥ 1·8/0.01; the window's β has log(nT/δ).
    assert weights["window"] > weights["keep_all"] > 800.0


def test_streams_differ_by_seed_purpose_and_place() -> None:
    keys = {
        tuple(np.asarray(jax.random.key_data(key)))
        for key in (
            key_for(0, Purpose.ACTING, 1, 0),
            key_for(1, Purpose.ACTING, 1, 0),
            key_for(0, Purpose.EVALUATION, 1, 0),
            key_for(0, Purpose.ACTING, 2, 0),
            key_for(0, Purpose.ACTING, 1, 1),
        )
    }
    assert len(keys) == 5
    numbers = {
        integer_for(seed, purpose, n)
        for seed in range(3)
        for purpose in Purpose
        for n in range(50)
    }
    assert len(numbers) == 3 * 4 * 50
    assert integer_for(3, Purpose.ENVIRONMENT, 7) == integer_for(
        3, Purpose.ENVIRONMENT, 7
    )

"""A machine whose motor is rewired: who forgets recovers, who keeps all does later."""

import jax
import numpy as np
import pytest

from driftrl.agents.model_based import ModelBasedAgent
from driftrl.config import deep
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import ForgettingRule, KeepAll, Window
from driftrl.training.learner import Learner

STEPS, FLIP, EPISODES = 10, 10, 24
CONFIG = deep.EnsembleAgentConfig(
    policy_gradient="critic",
    model=deep.EnsembleConfig(members=3, hidden=(16, 16), learning_rate=3e-3),
    imagination=deep.ImaginationConfig(horizon=2),
    optimism=deep.DeepOptimismConfig(weight=0.3),
    sac=deep.SACConfig(
        hidden=(16, 16), batch_size=16, learning_rate=3e-3, discount=0.9
    ),
    learning=deep.LearningConfig(model_updates=5, policy_updates=5, learning_starts=16),
    soft_reset=deep.SoftResetConfig(0.0, 0.0),
)


def live(rule: ForgettingRule, seed: int) -> list[float]:
    """Return the return of every episode: x' = x ± 0.4 u must be brought to 0."""
    agent = ModelBasedAgent((1, 1), CONFIG, capacity=EPISODES * STEPS, steps=STEPS)
    learner = Learner(
        agent,
        rule,
        EpisodeMemory(1, 1),
        steps=STEPS,
        seed=seed,
        state=agent.initial_state(key=jax.random.key(seed)),
    )
    returns = []
    for number in range(1, EPISODES + 1):
        gain = 0.4 if number <= FLIP else -0.4
        learner.begin_episode()
        x = np.array([1.0 if number % 2 else -1.0])
        for step in range(STEPS):
            x = np.clip(x + gain * learner.act(x), -2.0, 2.0)
            learner.observe(x, -float(x[0] ** 2), False, step == STEPS - 1)
        episode = learner.end_episode()
        learner.learn()
        returns.append(episode.executed_return)
    return returns


def recovered_after(returns: list[float]) -> int:
    """Return the episodes until two in a row are good again; all if they never are."""
    good = np.array(returns[FLIP:]) > -4.0
    pairs = np.flatnonzero(good[1:] & good[:-1])
    return int(pairs[0]) if len(pairs) else len(good)


@pytest.mark.slow
def test_who_forgets_recovers_and_who_keeps_all_does_later() -> None:
    kept, forgotten = live(KeepAll(), seed=0), live(Window(window=3), seed=0)
    # Doing nothing at all returns −10; what can be done is about −0.5.
    for returns in (kept, forgotten):
        assert np.mean(returns[FLIP - 3 : FLIP]) > -2.0
        assert returns[FLIP] < -20.0  # pushing the wrong way is worse than nothing
    assert recovered_after(forgotten) <= 9
    assert recovered_after(kept) >= recovered_after(forgotten) + 3

"""Rollouts of a fixed policy on a frozen system."""

import gymnasium
import numpy as np

from driftrl.agents.interface import Policy
from driftrl.training.streams import Purpose, integer_for, key_for

Env = gymnasium.Env[np.ndarray, np.ndarray]


def evaluate(
    policy: Policy, env: Env, *, episodes: int, seed: int, number: int
) -> float | None:
    """Return the mean return of π_n over ``episodes`` rollouts, None for no rollouts.

    Draws from the evaluation streams only: training does not notice.
    """
    if episodes == 0:
        return None
    policy = policy.without_noise()
    returns = [
        _rollout(policy, env, seed=seed, place=(number, rollout))
        for rollout in range(episodes)
    ]
    return float(np.mean(returns))


def _rollout(policy: Policy, env: Env, *, seed: int, place: tuple[int, int]) -> float:
    obs, _ = env.reset(seed=integer_for(seed, Purpose.EVALUATION, *place))
    carry, total, step, over = policy.begin(), 0.0, 0, False
    while not over:
        key = key_for(seed, Purpose.EVALUATION, *place, step)
        action, carry = policy.act(obs, carry, key=key)
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        over = terminated or truncated
        step += 1
    return total

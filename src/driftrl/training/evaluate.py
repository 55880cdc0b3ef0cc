"""Rollouts of a fixed policy on a frozen system."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import gymnasium
import numpy as np

from driftrl.agents.base import Policy
from driftrl.training.streams import Purpose, integer_for, key_for

Env = gymnasium.Env[np.ndarray, np.ndarray]
Seen = Callable[[float], None]
"""Is told the reward of every decision of an episode."""
Watch = Callable[[Env, int], AbstractContextManager[Seen]]
"""Opens an onlooker of episode n, which has just been reset; closed when it ends."""


def unwatched(env: Env, number: int) -> AbstractContextManager[Seen]:
    """Watch nothing."""
    del env, number
    return nullcontext(lambda reward: None)


def evaluate(
    policy: Policy,
    env: Env,
    *,
    episodes: int,
    seed: int,
    place: dict[str, int],
    watch: Watch = unwatched,
) -> float | None:
    """Return the mean return of π_n over ``episodes`` rollouts, None for no rollouts.

    ``place`` is where n is on the clocks of a drifting environment, which every reset
    sets anew.  Draws from the evaluation streams only: training does not notice.
    """
    if episodes == 0:
        return None
    policy = policy.deterministic()
    returns = [
        _rollout(policy, env, rollout, seed=seed, place=place, watch=watch)
        for rollout in range(episodes)
    ]
    return float(np.mean(returns))


def _rollout(
    policy: Policy,
    env: Env,
    rollout: int,
    *,
    seed: int,
    place: dict[str, int],
    watch: Watch,
) -> float:
    stream = (seed, Purpose.EVALUATION, place["episode"], rollout)
    obs, _ = env.reset(seed=integer_for(*stream), options=place)
    carry, total, step, over = policy.begin(), 0.0, 0, False
    with watch(env, place["episode"]) as seen:
        while not over:
            key = key_for(*stream, step)
            action, carry = policy.act(obs, carry, key=key)
            obs, reward, terminated, truncated, _ = env.step(action)
            seen(float(reward))
            total += float(reward)
            over = terminated or truncated
            step += 1
    return total

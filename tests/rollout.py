"""Rollouts of environments, and their comparison bit for bit."""

import gymnasium
import numpy as np

Rows = list[tuple[np.ndarray, float, bool, bool]]


def moves(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, (count, size))


def play(
    env: gymnasium.Env, actions: np.ndarray, seed: int = 7, **options: int
) -> Rows:
    """Return observations, rewards and flags of an episode, the start first."""
    obs, _ = env.reset(seed=seed, options=options or None)
    rows: Rows = [(obs, 0.0, False, False)]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((obs, float(reward), terminated, truncated))
        if terminated or truncated:
            break
    return rows


def same(first: Rows, second: Rows) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(a[0], b[0]) and a[1:] == b[1:]
        for a, b in zip(first, second, strict=True)
    )

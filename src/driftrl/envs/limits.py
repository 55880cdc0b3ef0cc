"""A system whose actions are limited, and whose states have limits to stay within.

An action of −1 to 1 chooses between the least and the largest one that the limits
allow now, so that they hold exactly, whatever the learner does.  Where that depends on
the action before, it is observed: its next value is known.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces

from driftrl.config.limits import LimitsConfig
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.errors import EpisodeAborted


class LimitedPlant(Plant):
    """A plant, or a robot, with limits."""

    def __init__(self, env: gymnasium.Env[Any, Any], limits: LimitsConfig) -> None:
        """Wrap what acts on [−1, 1]."""
        assert env.observation_space.shape and env.action_space.shape
        observed, actions = env.observation_space.shape[0], env.action_space.shape[0]
        limits.check_sizes(observed, actions)
        self._inner, self._limits = env, limits
        observed += actions * limits.observes_action
        self.observation_space = spaces.Box(-np.inf, np.inf, (observed,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (actions,), np.float64)
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self._before = limits.before(actions)

    @property
    def theta(self) -> float | None:
        """θ of a robot's running episode."""
        return self._inner.get_wrapper_attr("theta")

    @property
    def ignores_place(self) -> bool:
        """Whether the system goes by no number of the episode."""
        return getattr(self._inner, "ignores_place", False)

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set parameters of the system."""
        if isinstance(self._inner, Plant):
            self._inner.set_parameters(values)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode from rest."""
        super().reset(seed=seed)
        obs, info = self._inner.reset(seed=seed, options=options)
        self._before = self._limits.before(len(self._before))
        return self._seen(obs), info

    def step(self, action: np.ndarray) -> StepResult:
        """Apply the action that was chosen among those that may follow now."""
        limits, before = self._limits, self._before
        action = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        wanted = limits.applied(before, action) if limits.limits_actions else action
        try:
            obs, reward, terminated, truncated, info = self._inner.step(wanted)
        except EpisodeAborted as aborted:
            if limits.penalty is None or aborted.end is None:
                raise
            obs, reward = aborted.end
            terminated, truncated, info = False, False, {}
            outside = True
        else:
            reward, outside = float(reward), bool(limits.outside(obs))
        reported = info.get("applied")
        self._before = wanted if reported is None else np.asarray(reported)
        if reported is not None and limits.limits_actions:
            info = {**info, "applied": limits.choice(before, self._before)}
        if outside and limits.penalty is not None:
            reward, terminated, truncated = reward - limits.penalty, True, False
        return self._seen(obs), reward, terminated, truncated, info

    def _seen(self, obs: np.ndarray) -> np.ndarray:
        obs = np.asarray(obs, np.float64)
        return np.append(obs, self._before) if self._limits.observes_action else obs

    def get_state(self) -> dict[str, np.ndarray] | None:
        """Return the system's, and the action before; None if it has none."""
        state = self._inner.get_state() if isinstance(self._inner, Plant) else None
        return None if state is None else {**state, "before": self._before}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        assert isinstance(self._inner, Plant)
        state = dict(state)
        self._before = np.array(state.pop("before"))
        self._inner.set_state(state)

    def reseed(self, seed: int) -> None:
        """Draw the system's noise from here on from another seed."""
        assert isinstance(self._inner, Plant)
        self._inner.reseed(seed)


E = TypeVar("E", bound=gymnasium.Env[Any, Any])


def with_limits(env: E, limits: LimitsConfig) -> E | LimitedPlant:
    """Return what acts on [−1, 1] with its limits; itself if it has none."""
    return env if limits == LimitsConfig() else LimitedPlant(env, limits)

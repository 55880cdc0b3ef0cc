"""An agent that starts from a controller of the user's, and departs from it gently.

At first the controller drives alone.  Then the mode of the learned policy is followed,
but no farther from the controller than a reach, around which exploration stays close.
The reach grows, and at most doubles from one episode to the next, while every member of
the model predicts that the result earns more than the controller, from the starts of
the newest episodes, by a margin and by more than such predictions were wrong so far.
It is 0 again where nothing is predicted to be better, after an episode that was worse
than all that the controller drove, and where returns have degraded.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.agents import base
from driftrl.agents.model_based import ModelBasedAgent
from driftrl.agents.replay import starts_of
from driftrl.config.limits import InitialConfig
from driftrl.types import Data, Episode, Transition

Control = Callable[[Float[np.ndarray, " S"]], Any]
"""Observation ↦ action of −1 to 1."""
# Starts from which returns are predicted, and steps: errors add up.
_STARTS, _STEPS = 16, 200
FREE = 2.0
"""The reach at which the controller has no say any more."""
_NEWEST = 0.5  # weight of the newest episode in the error of predicted returns


@dataclass(frozen=True)
class GuidedState:
    """What the agent has learned, and how far from the controller it may act."""

    learned: base.State
    episode: int = 1
    """Number of the episode to come."""
    reach: float = 0.0
    error: float = 0.0
    """Mean absolute error of predicted returns, the newest ones weigh more."""
    worst: float = math.inf
    """Worst return of an episode in which the controller was followed."""


class GuidedAgent(base.Agent):
    """An agent behind a controller; all but the reach is the agent's."""

    def __init__(
        self, agent: ModelBasedAgent, control: Control, settings: InitialConfig
    ) -> None:
        self._agent, self._control, self._settings = agent, control, settings
        self.precision = agent.precision

    def initial_state(self, *, key: Key[Array, ""]) -> GuidedState:
        """Return the state before the first episode."""
        return GuidedState(self._agent.initial_state(key=key))

    def learn(
        self,
        state: GuidedState,
        data: Data,
        context: base.LearnContext,
        *,
        key: Key[Array, ""],
    ) -> GuidedState:
        """Learn, then decide how far the episode to come may be from the controller."""
        learned = self._agent.learn(state.learned, data, context, key=key)
        reach, error, worst = 0.0, state.error, state.worst
        steps = min(context.steps, _STEPS)
        if 0 < (count := context.collected) <= len(data):
            rewards = data.rewards[-count:]
            returns = self._predicted(state.learned, data.obs[-count][None], steps)
            if returns is not None:
                missed = abs(np.mean(returns(state.reach)) - rewards[:steps].sum())
                error += _NEWEST * (float(missed) - error)
            if state.reach == 0:
                worst = min(worst, float(rewards.sum()))
            alone = context.episode <= self._settings.episodes
            if not (alone or context.degraded or rewards.sum() < worst):
                reach = self._best_reach(learned, data, steps, state.reach, error)
        return GuidedState(learned, context.episode, reach, error, worst)

    def _best_reach(
        self, learned: base.State, data: Data, steps: int, reach: float, error: float
    ) -> float:
        """Return the reach with which the model predicts most, or 0."""
        returns = self._predicted(learned, starts_of(data), steps)
        if returns is None:
            return 0.0
        alone = returns(0.0)
        margin = max(self._settings.margin * float(np.mean(np.abs(alone))), error)
        reach = max(reach, 0.5 * self._settings.reach)
        gains = {
            tried: float(np.min(np.mean(returns(tried) - alone, axis=1)))
            for tried in (0.5 * reach, reach, min(2.0 * reach, FREE))
        }
        best = max(gains, key=lambda tried: np.nan_to_num(gains[tried], nan=-np.inf))
        return best if gains[best] > margin * best / FREE else 0.0

    def _predicted(
        self, learned: base.State, starts: Float[np.ndarray, "M S"], steps: int
    ) -> Callable[[float], Float[np.ndarray, "E B"]] | None:
        """Return what predicts returns by reach, or None before there is a model."""
        agent, members = self._agent, self._agent.members
        policy = agent.policy(learned)
        if not policy.trained:
            return None
        rows = np.resize(starts[-_STARTS:], (_STARTS, starts.shape[1]))
        start = np.tile(rows.astype(np.float64), (members, 1))

        def returns(reach: float) -> Float[np.ndarray, "E B"]:
            obs, total, alive = start, np.zeros(len(start)), np.ones(len(start), bool)
            for _ in range(steps):
                actions = np.stack([self._control(row) for row in obs])
                if reach > 0:
                    low, high = actions - reach, actions + reach
                    actions = np.clip(policy.modes(obs), low, high)
                actions = np.clip(actions, -1.0, 1.0)
                obs, rewards, ended = agent.step_members(learned, obs, actions)
                total += np.where(alive, rewards, 0.0)
                alive &= ~ended
            return total.reshape(members, -1)

        return returns

    def policy(self, state: GuidedState) -> "GuidedPolicy":
        """Return the policy of a state."""
        alone = state.episode <= self._settings.episodes
        explored = 0.0 if alone else self._settings.reach
        policy = self._agent.policy(state.learned)
        return GuidedPolicy(policy, self._control, state.reach, explored)

    def warm_up(self, points: int, steps: int) -> None:
        """Compile everything for episodes of ``steps`` and up to ``points`` rows."""
        self._agent.warm_up(points, steps)

    def begin_online(self, retained: Callable[[], Data]) -> base.OnlineState | None:
        """Return what learning within an episode needs; None if it does not learn."""
        return self._agent.begin_online(retained)

    def observe(
        self,
        state: GuidedState,
        online: base.OnlineState,
        transition: Transition,
        *,
        key: Key[Array, ""],
    ) -> tuple[GuidedState, base.OnlineState]:
        """Learn from one transition."""
        made = self._agent.observe(state.learned, online, transition, key=key)
        return replace(state, learned=made[0]), made[1]


@dataclass(frozen=True)
class GuidedPolicy:
    """Acts within a reach of the controller, and explores within another of that."""

    policy: base.Policy
    control: Control
    reach: float
    explored: float

    @property
    def weight(self) -> float:
        """The weight λ of optimism in its objective."""
        return self.policy.weight

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Training metrics to record, by column of EpisodeRecord."""
        return {**self.policy.metrics, "reach": self.reach}

    def begin(self) -> base.Carry:
        """Return the carry for the first decision of an episode."""
        return self.policy.begin()

    def act(
        self, obs: Float[np.ndarray, " S"], carry: base.Carry, *, key: Key[Array, ""]
    ) -> tuple[base.Action, base.Carry]:
        """Return the action for ``obs``, in [−1, 1], and the next carry."""
        action, after, quiet = self.control(obs), carry, self.policy.deterministic()
        if self.reach == self.explored == 0:
            return action, carry
        mode, after = quiet.act(obs, carry, key=key)
        if self.reach > 0:
            action = np.clip(mode, action - self.reach, action + self.reach)
        if self.explored > 0:
            drawn, after = self.policy.act(obs, carry, key=key)
            action = action + np.clip(drawn - mode, -self.explored, self.explored)
        return np.clip(action, -1.0, 1.0), after

    def deterministic(self) -> "GuidedPolicy":
        """Return the policy without exploration."""
        return replace(self, explored=0.0)

    def model_metrics(self, episode: Episode, scale: float = 1.0) -> base.ModelMetrics:
        """Evaluate the model on an episode that it has not been trained on."""
        return self.policy.model_metrics(episode, scale)

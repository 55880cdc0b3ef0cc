"""The paper's agent on Gaussian-process dynamics: fit, then plan optimistically.

Between episodes the model is fitted on the retained data; within an episode every
decision maximises J + λ·Σ under the mean dynamics (eq:optimistic_objective) by iCEM.
Which data is retained is not decided here: the agent learns what it is given.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.agents import icem
from driftrl.agents.base import (
    LearnContext,
    ModelMetrics,
    OnlineState,
    prediction_metrics,
)
from driftrl.agents.planning_objective import Reward, optimistic_return
from driftrl.agents.theory_weight import theory_weight
from driftrl.config.gp import GPAgentConfig, ICEMConfig
from driftrl.errors import require
from driftrl.models import gp
from driftrl.models.gp import GPState, Posterior
from driftrl.theory.confidence import information_gain
from driftrl.types import Data, Episode, Precision, Transition

Action = Float[np.ndarray, " A"]
Decide = Callable[[Posterior, Array, icem.Plan, Array, Array], icem.Plan]


@dataclass(frozen=True)
class GPAgentState:
    """What the agent knows between two episodes; all of it is in a checkpoint."""

    model: GPState
    optimism: float
    """λ of the policy that this state drives."""


class GPAgent:
    """Optimistic planning on a Gaussian process, for a known reward function."""

    precision: Precision = np.float64

    def __init__(
        self,
        sizes: tuple[int, int],
        reward: Reward,
        config: GPAgentConfig,
    ) -> None:
        """Make an agent for ``sizes`` = (states, actions) and r(x, u, x')."""
        self._sizes = sizes
        self._model = config.model
        self._planner = config.planner
        self._optimism = config.optimism
        self._decide = _compiled_decision(reward, config.planner)

    def initial_state(self, *, key: Key[Array, ""]) -> GPAgentState:
        """Return the agent before its first episode."""
        del key  # nothing is drawn: a Gaussian process starts from its prior
        model = gp.initial_state(*self._sizes, self._model)
        return GPAgentState(model, self._optimism.weight)

    def learn(
        self,
        state: GPAgentState,
        data: Data,
        context: LearnContext,
        *,
        key: Key[Array, ""],
    ) -> GPAgentState:
        """Return the agent fitted on exactly ``data``."""
        del key  # fitting draws nothing
        require(
            context.updates is None and context.seconds is None,
            "agent.kind = 'gp' is fitted in one go: learn() takes neither updates nor "
            "seconds.",
        )
        model = gp.fit(state.model, data, self._model)
        return GPAgentState(model, self._weight(model, context))

    def policy(self, state: GPAgentState) -> "GPPolicy":
        """Return the policy that a learned state drives."""
        with jax.enable_x64(True):
            known = (
                gp.posterior(state.model, self._model) if len(state.model.x) else None
            )
        return self._policy_on(known, state.optimism)

    def warm_up(self, points: int, steps: int) -> None:
        """Compile what episodes of ``steps`` on up to ``points`` transitions need."""
        obs, key = np.zeros(self._sizes[0]), jax.random.key(0)
        blank = [np.zeros((steps, size)) for size in self._sizes]
        with jax.enable_x64(True):
            blanks = gp.blank_posteriors(*self._sizes, points, self._model)
        for posterior in blanks:
            policy = self._policy_on(posterior, 0.0)
            policy.act(obs, policy.begin(), key=key)
            with jax.enable_x64(True):
                gp.predict_all(posterior, *blank)

    def begin_online(self, retained: Callable[[], Data]) -> None:
        """Return None: it learns when the episode has ended."""
        del retained

    def observe(
        self,
        state: GPAgentState,
        online: OnlineState,
        transition: Transition,
        *,
        key: Key[Array, ""],
    ) -> tuple[GPAgentState, OnlineState]:
        """Learn nothing: there is no online within an episode."""
        del transition, key
        return state, online

    def _policy_on(self, known: Posterior | None, weight: float) -> "GPPolicy":
        return GPPolicy(known, weight, self._planner, self._sizes[1], self._decide)

    def _weight(self, model: GPState, context: LearnContext) -> float:
        """Return λ: the constant, or the paper's λ_{n,m} for this data."""
        settings = self._optimism
        if settings.rule == "constant" or len(model.x) == 0:
            return settings.weight
        noise = model.hyper.noise_std
        gain = information_gain(model.factor, noise)
        return theory_weight(gain, noise, self._sizes[0], context, settings.theory)


@dataclass(frozen=True)
class GPPolicy:
    """Plans anew at every decision; what it carries from one to the next is a plan.

    With no data the mean says that nothing ever changes and the uncertainty is the same
    everywhere, so all plans tie: then actions are drawn uniformly.
    """

    posterior: Posterior | None
    weight: float
    planner: ICEMConfig
    action_size: int
    decide: Decide

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Nothing more to record."""
        return {}

    def begin(self) -> icem.Plan:
        """Return the plan to carry into the first decision of an episode."""
        with jax.enable_x64(True):
            return icem.initial_plan(self.planner, self.action_size)

    def act(
        self, obs: Float[np.ndarray, " S"], carry: icem.Plan, *, key: Key[Array, ""]
    ) -> tuple[Action, icem.Plan]:
        """Return the action for ``obs``, in [−1, 1], and the plan to carry on."""
        with jax.enable_x64(True):
            if self.posterior is None:
                drawn = jax.random.uniform(key, (self.action_size,), minval=-1.0)
                return np.asarray(drawn), carry
            state, weight = jnp.asarray(obs), jnp.asarray(self.weight)
            plan = self.decide(self.posterior, weight, carry, state, key)
            return np.asarray(plan.mean[0]), plan

    def deterministic(self) -> "GPPolicy":
        """Return itself: a planner's draws are how it plans, not how it explores."""
        return self

    def model_metrics(self, episode: Episode) -> ModelMetrics:
        """Judge the model on an episode it has not seen; blank if it has no data."""
        if self.posterior is None:
            return ModelMetrics()
        with jax.enable_x64(True):
            found = gp.predict_all(self.posterior, episode.obs, episode.actions)
        beliefs = (found.mean, found.epistemic_std, found.aleatoric_std)
        return prediction_metrics(episode, *(np.asarray(belief) for belief in beliefs))


@functools.cache
def _compiled_decision(reward: Reward, planner: ICEMConfig) -> Decide:
    """Return the compiled planner: posterior, λ, last plan, state, key → new plan.

    Cached, so that agents of one process that plan alike compile once.
    """

    @eqx.filter_jit
    def decide(
        posterior: Posterior,
        weight: Float[Array, ""],
        last: icem.Plan,
        obs: Float[Array, " S"],
        key: Key[Array, ""],
    ) -> icem.Plan:
        def objective(actions: Float[Array, "H A"]) -> Float[Array, ""]:
            return optimistic_return(posterior.predict, reward, weight, obs, actions)

        return icem.plan(objective, icem.shift(last), planner, key=key)

    return decide

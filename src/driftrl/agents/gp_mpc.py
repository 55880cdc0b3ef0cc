"""The paper's agent on Gaussian-process dynamics: fit, then plan optimistically.

Between episodes the model is fitted on the retained data; within an episode every
decision maximises J + λ·Σ under the mean dynamics (eq:optimistic_objective) by iCEM.
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

from driftrl.agents import base, icem
from driftrl.agents.optimism import Bonus, bonus_named, check_bonus, theory_weight
from driftrl.agents.rollouts import NextObs, Reward, known_part, limit_price
from driftrl.config.gp import GPAgentConfig, ICEMConfig
from driftrl.config.limits import LimitsConfig
from driftrl.errors import require
from driftrl.models import gp
from driftrl.models.gp import GPState, Posterior, Prediction
from driftrl.theory.confidence import information_gain
from driftrl.types import Data, Episode, Precision

Decide = Callable[[Posterior, Array, icem.Plan, Array, Array], icem.Plan]


def optimistic_return(
    predict: Callable[[Array, Array], Prediction],
    reward: Reward,
    bonus: Bonus,
    weight: Float[Array, ""],
    obs: Float[Array, " S"],
    actions: Float[Array, "H A"],
    limits: LimitsConfig | None = None,
) -> Float[Array, ""]:
    """Return J(π, μ) + λ·Σ(π, μ) of an action sequence (eq:optimistic_objective).

    States follow the mean dynamics x' = μ(x, u); every step earns the known reward
    r(x, u, x') and λ = ``weight`` times the bonus, and pays the price of limits.
    """

    def step(state: Array, action: Array) -> tuple[Array, Array]:
        prediction = predict(state, action)
        earned = reward(state, action, prediction.mean)
        if limits is not None and limits.priced:
            std = jnp.hypot(prediction.epistemic_std, prediction.aleatoric_std)
            earned -= limit_price(limits, prediction.mean, std, prediction.scale)
        return prediction.mean, earned + weight * bonus(prediction)

    _, rewards = jax.lax.scan(step, obs, actions)
    return jnp.sum(rewards)


def _predict(
    posterior: Posterior, known: NextObs | None
) -> Callable[[Array, Array], Prediction]:
    """Return the prediction of one transition, exact where it is known."""
    if known is None:
        return posterior.predict

    def predict(obs: Array, action: Array) -> Prediction:
        made, sure = posterior.predict(obs, action), known_part(known, obs, action)
        std = jnp.where(sure, 0.0, made.epistemic_std)
        return made._replace(mean=known(obs, action, made.mean), epistemic_std=std)

    return predict


@dataclass(frozen=True)
class GPAgentState:
    """Everything that the agent learns."""

    model: GPState
    optimism: float  # λ of the policy of this state


class GPAgent(base.Agent):
    """Optimistic planning on a Gaussian process, for a known reward function."""

    precision: Precision = np.float64

    def __init__(
        self,
        sizes: tuple[int, int],
        reward: Reward,
        config: GPAgentConfig,
        known: NextObs | None = None,
        limits: LimitsConfig | None = None,
    ) -> None:
        """Make an agent for ``sizes`` = (states, actions) and r(x, u, x').

        ``known`` is what is known of the next observation.
        """
        self._sizes = sizes
        self._model = config.model
        self._planner = config.planner
        self._optimism = config.optimism
        with jax.enable_x64(True):
            states = jax.ShapeDtypeStruct((sizes[0],), jnp.float64)
            example = Prediction(*([states] * 4))  # pyright: ignore[reportArgumentType]
            check_bonus(config.optimism.bonus, example)
        self._decide = _compiled_decision(
            reward, config.planner, config.optimism.bonus, known, limits
        )

    def initial_state(self, *, key: Key[Array, ""]) -> GPAgentState:
        """Return the state before the first episode, the prior."""
        del key
        model = gp.initial_state(*self._sizes, self._model)
        return GPAgentState(model, self._optimism.weight)

    def learn(
        self,
        state: GPAgentState,
        data: Data,
        context: base.LearnContext,
        *,
        key: Key[Array, ""],
    ) -> GPAgentState:
        """Return the state fitted on exactly ``data``."""
        del key
        require(
            context.updates is None and context.seconds is None,
            "agent.kind = 'gp' is fitted in one go: learn() takes neither updates nor "
            "seconds.",
        )
        model = gp.fit(state.model, data, self._model)
        return GPAgentState(model, self._weight(model, context))

    def policy(self, state: GPAgentState) -> "GPPolicy":
        """Return the policy of a state."""
        posterior = None
        if len(state.model.x):
            with jax.enable_x64(True):
                posterior = gp.posterior(state.model, self._model)
        return self._policy_on(posterior, state.optimism)

    def warm_up(self, points: int, steps: int) -> None:
        """Compile everything for episodes of ``steps`` and up to ``points`` rows."""
        obs, key = np.zeros(self._sizes[0]), jax.random.key(0)
        blank = [np.zeros((steps, size)) for size in self._sizes]
        with jax.enable_x64(True):
            posteriors = gp.blank_posteriors(*self._sizes, points, self._model)
        for posterior in posteriors:
            policy = self._policy_on(posterior, 0.0)
            policy.act(obs, policy.begin(), key=key)
            with jax.enable_x64(True):
                gp.predict_all(posterior, *blank)

    def _policy_on(self, posterior: Posterior | None, weight: float) -> "GPPolicy":
        return GPPolicy(posterior, weight, self._planner, self._sizes[1], self._decide)

    def _weight(self, model: GPState, context: base.LearnContext) -> float:
        """Return λ: the constant, or the paper's λ_{n,m} for this data."""
        settings = self._optimism
        if settings.rule == "constant" or len(model.x) == 0:
            return settings.weight
        noise = model.hyper.noise_std
        gain = information_gain(model.factor, noise)
        return theory_weight(gain, noise, self._sizes[0], context, settings.theory)


@dataclass(frozen=True)
class GPPolicy:
    """Plans again at every decision; the carry is a plan.

    Without data all plans have the same value: then actions are drawn uniformly.
    """

    posterior: Posterior | None
    weight: float
    planner: ICEMConfig
    action_size: int
    decide: Decide

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Return nothing: fitting has no metrics to record."""
        return {}

    def begin(self) -> icem.Plan:
        """Return the plan for the first decision of an episode."""
        with jax.enable_x64(True):
            return icem.initial_plan(self.planner, self.action_size)

    def act(
        self, obs: Float[np.ndarray, " S"], carry: icem.Plan, *, key: Key[Array, ""]
    ) -> tuple[base.Action, icem.Plan]:
        """Return the action for ``obs``, in [−1, 1], and the next plan."""
        with jax.enable_x64(True):
            if self.posterior is None:
                drawn = jax.random.uniform(key, (self.action_size,), minval=-1.0)
                return np.asarray(drawn), carry
            state, weight = jnp.asarray(obs), jnp.asarray(self.weight)
            plan = self.decide(self.posterior, weight, carry, state, key)
            return np.asarray(plan.mean[0]), plan

    def deterministic(self) -> "GPPolicy":
        """Return itself: the planner's randomness is not exploration."""
        return self

    def model_metrics(self, episode: Episode, scale: float = 1.0) -> base.ModelMetrics:
        """Evaluate the model on an episode that it has not been trained on."""
        if self.posterior is None:
            return base.ModelMetrics()
        with jax.enable_x64(True):
            made = gp.predict_all(self.posterior, episode.obs, episode.actions)
        parts = (made.mean, made.epistemic_std, made.aleatoric_std)
        return base.prediction_metrics(
            episode, *(np.asarray(part) for part in parts), scale=scale
        )


@functools.cache
def _compiled_decision(
    reward: Reward,
    planner: ICEMConfig,
    bonus: str,
    known: NextObs | None,
    limits: LimitsConfig | None,
) -> Decide:
    """Return the compiled planner: posterior, λ, last plan, state, key → new plan.

    Cached, so that equal agents in one process compile once.
    """
    bonus_function = bonus_named(bonus)

    @eqx.filter_jit
    def decide(
        posterior: Posterior,
        weight: Float[Array, ""],
        last: icem.Plan,
        obs: Float[Array, " S"],
        key: Key[Array, ""],
    ) -> icem.Plan:
        def objective(actions: Float[Array, "H A"]) -> Float[Array, ""]:
            predict, bonus = _predict(posterior, known), bonus_function
            given = (weight, obs, actions, limits)
            return optimistic_return(predict, reward, bonus, *given)

        return icem.plan(objective, icem.shift(last), planner, key=key)

    return decide

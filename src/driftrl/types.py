"""The data types that all of driftrl shares: frozen, and NumPy on the host side.

Axis letters, used in every shape of the code base::

    S  state (observation) dimensions     A  action dimensions
    T  steps of an episode                N  data points (transitions)
    H  planning horizon                   B  batch                 E  ensemble members

Episodes are numbered from 1, as in the paper; steps from 0.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

Vector = Float[np.ndarray, " D"]
Precision = type[np.float32] | type[np.float64]
"""Of the numbers that transitions are stored in."""


@dataclass(frozen=True)
class Transition:
    """One step: in ``obs`` the agent did ``action``, and this came of it.

    ``terminated`` says that the task ended in ``next_obs``; ``truncated`` that only the
    clock ran out.  They are never merged: a truncated state still has a future.
    """

    obs: Float[np.ndarray, " S"]
    action: Float[np.ndarray, " A"]
    reward: float
    next_obs: Float[np.ndarray, " S"]
    terminated: bool
    truncated: bool


@dataclass(frozen=True)
class Episode:
    """One finished episode, the unit in which driftrl remembers and forgets."""

    obs: Float[np.ndarray, "T S"]
    actions: Float[np.ndarray, "T A"]
    rewards: Float[np.ndarray, " T"]
    next_obs: Float[np.ndarray, "T S"]
    terminated: bool
    thetas: Float[np.ndarray, " T"] | None = None
    """θ of every step, where it drifts within the episode and is known."""

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self.rewards)

    @property
    def executed_return(self) -> float:
        """Sum of the rewards that were received."""
        return float(self.rewards.sum())


@dataclass(frozen=True)
class Data:
    """Transitions of several episodes, joined: what a model is fitted on."""

    obs: Float[np.ndarray, "N S"]
    actions: Float[np.ndarray, "N A"]
    rewards: Float[np.ndarray, " N"]
    next_obs: Float[np.ndarray, "N S"]
    terminated: Bool[np.ndarray, " N"]
    """Whether the task ended in ``next_obs``."""
    offset: int = 0
    """Transitions ever recorded before the first of these."""
    origin: object = None
    """Whose transitions these are: of one origin, those of one number are the same."""

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self.rewards)


@dataclass(frozen=True)
class EpisodeRecord:
    """One row of ``episodes.jsonl``: what was done, how it went, what the model knew.

    The model's columns (``model_error``, ``coverage``, ``epistemic_std`` and
    ``predictive_loss``) judge the model that acted in the episode on that episode,
    before it learned from it; they are None while there is no model yet.
    """

    episode: int
    """Number n of the episode, from 1."""
    theta: float
    """Drifting parameter, its mean if it drifts within the episode; NaN if unknown."""
    steps: int
    """Decisions taken, which is also the number of transitions."""
    return_executed: float
    """Sum of rewards of the episode that was learned from."""
    return_eval: float | None
    """Mean return of the same policy on the frozen system, None if not evaluated."""
    terminated: bool
    """Whether the task ended before its time."""
    first_retained: int
    """m(n): oldest episode that the policy of this episode was learned from."""
    transitions: int
    """Number of transitions in episodes m(n) … n-1."""
    optimism: float
    """λ, the weight of the epistemic uncertainty in the planning objective."""
    model_error: float | None
    """Root mean square one-step error, in units of the spread of the true changes."""
    coverage: float | None
    """Share of one-step predictions within μ ± 2σ, σ with the noise and as stated."""
    epistemic_std: float | None
    """Mean of ‖σ‖₂ along the episode, in the same units as ``model_error``."""
    wall_s: float
    """Seconds spent on the episode: acting, evaluating, learning."""
    soft_reset: bool = False
    """Whether parameters were softly reset before this policy was learned."""
    temperature: float | None = None
    """α of SAC; None where the agent has no such thing, as in the columns below."""
    entropy: float | None = None
    """Mean −log π over the updates that made this policy."""
    q: float | None = None
    """Mean value of the critics over those updates."""
    critic_loss: float | None = None
    """Mean loss of the critics over those updates."""
    model_loss: float | None = None
    """Mean loss of the ensemble over those updates, in normalised units."""
    bonus: float | None = None
    """Mean intrinsic reward that they saw, before its weight λ."""
    predictive_loss: float | None = None
    """Mean negative log likelihood of a transition, in nats, summed over outputs."""
    error_quantile: float | None = None
    """95 % quantile of ``|error|/σ``, over steps and outputs, before σ is scaled."""
    interval_scale: float | None = None
    """Factor of the stated σ, by which μ ± 2σ held 95 % of the last episodes."""
    noise_free_error: float | None = None
    """``model_error`` without what the model takes for noise; 0 if that explains it."""
    last_change: int | None = None
    """First episode after the last change that the forgetting rule has located, 1 if
    none; None where it looks for none, as in the columns below."""
    change_alarm: bool = False
    """Whether it located that change before this episode."""
    change_candidate: int | None = None
    """Most likely first episode after a change since then, before any alarm."""
    change_log_odds: float | None = None
    """Log posterior odds that there was one, x: its probability is 1/(1 + e^−x)."""
    span_losses: tuple[float, ...] | None = None
    """Loss with which the last 1, 2, 4, …, 32 episodes, and at the end all since the
    last change, predict the episode before this one: nats a number, less is better."""
    violations: int | None = None
    """Steps that ended outside of a limit of states; None where there is none.  This
    column and the next are left out of rows that have nothing to say in them."""
    reach: float | None = None
    """How far from the initial controller the policy could act; None where there is
    none, 2 where it had no say."""

"""The paper's λ_{n,m}, for whichever model has an information gain and a noise."""

from driftrl.agents.base import LearnContext
from driftrl.config.gp import TheoryConfig
from driftrl.theory.confidence import confidence_width, exploration_weight


def theory_weight(
    gain: float,
    noise_std: float,
    outputs: int,
    context: LearnContext,
    settings: TheoryConfig,
) -> float:
    """Return λ = R_max·T·β/σ, with β from the information gain of the data."""
    width = confidence_width(
        gain,
        rkhs_bound=settings.rkhs_bound,
        noise_std=noise_std,
        outputs=outputs,
        failure_probability=settings.failure_probability,
        horizon_steps=context.episode * context.steps if context.sliding else 1,
    )
    weight = exploration_weight(
        width,
        reward_max=settings.reward_max,
        steps=context.steps,
        noise_std=noise_std,
    )
    return float(weight)

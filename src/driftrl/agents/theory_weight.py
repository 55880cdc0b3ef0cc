"""The paper's λ_{n,m}, for whichever model has an information gain and a noise."""

from driftrl.agents.interface import Occasion
from driftrl.config_gp import TheoryConfig
from driftrl.theory.confidence import confidence_width, exploration_weight


def theory_weight(
    gain: float,
    noise_std: float,
    outputs: int,
    occasion: Occasion,
    settings: TheoryConfig,
) -> float:
    """Return λ = R_max·T·β/σ, with β from the information gain of the data."""
    width = confidence_width(
        gain,
        rkhs_bound=settings.rkhs_bound,
        noise_std=noise_std,
        outputs=outputs,
        failure_probability=settings.failure_probability,
        horizon_steps=occasion.episode * occasion.steps if occasion.sliding else 1,
    )
    weight = exploration_weight(
        width,
        reward_max=settings.reward_max,
        steps=occasion.steps,
        noise_std=noise_std,
    )
    return float(weight)

"""What an oracle answers.  No JAX here: an answer that is known is read at once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimum:
    """The best expected return of an episode at one θ, and how it was found."""

    theta: float
    value: float
    """J*(θ): the best return that was achieved."""
    error: float
    """Most by which ``value`` is believed to differ from the true optimum."""
    spread: float
    """Standard deviation of the return of one episode, over starts and noise."""
    method: str
    """The method that achieved ``value``."""
    grid: str
    """The effort: the finest grid of dynamic programming, or the trainings of SAC."""
    found: dict[str, float]
    """What each method found; what is said to be a value is not an achieved return."""

"""A study of calibration as data: random functions instead of a task.

experiment = "calibration"  # what tells it from a study of runs
name = "calibration_under_drift"
title = "…"
summary = "what one will see"
draws = 300
seed = 0

[draw]                      # of every draw, see CalibrationSettings
episodes = 10
window = 4
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from driftrl.config.toml import from_dict, read_toml
from driftrl.errors import InputError, at_least, require
from driftrl.memory.forgetting import KeepAll, Reset, Window
from driftrl.models.kernels import gram, kernel_named
from driftrl.theory.drifting_functions import progress_of
from driftrl.theory.setting import Scheme, Setting


@dataclass(frozen=True)
class CalibrationSettings:
    """What is drawn, learned and checked."""

    kernel: Literal["se", "matern32", "matern52"] = "se"
    """Kernel of the functions and of the Gaussian process."""
    length_scale: float = 0.5
    """Its length scale; inputs lie in [−1, 1]^d."""
    dimension: int = 2
    """d, the number of inputs."""
    outputs: int = 2
    """d_x, the number of outputs; at most d."""
    centres: int = 40
    """Centres of the kernel expansions."""
    episodes: int = 10
    """N."""
    steps: int = 12
    """T, noisy values of each episode."""
    reset_period: int = 4
    """H."""
    window: int = 4
    """w, in episodes."""
    noise_std: float = 0.1
    """σ."""
    rkhs_bound: float = 2.0
    """B."""
    variation: float = 4.0
    """P_N, spread evenly over the outputs."""
    shape: Literal["steady", "abrupt"] = "steady"
    """Whether the drift is spread over all episodes or comes at once."""
    failure_probability: float = 0.1
    """δ."""
    test_points: int = 16
    """Points of the test grid along each input."""

    def __post_init__(self) -> None:
        for name in ("dimension", "outputs", "centres", "steps", "test_points"):
            at_least(f"draw.{name}", getattr(self, name), 1)
        require(
            self.outputs <= self.dimension,
            "The learned functions map a state and an action to a state: draw.outputs "
            f"= {self.outputs} must not exceed draw.dimension = {self.dimension}.",
        )
        for name in ("reset_period", "window"):
            at_least(f"draw.{name}", getattr(self, name), 1)
        _ = self.setting, progress_of(self.shape, self.episodes)

    @property
    def setting(self) -> Setting:
        """Return what the bounds are told, all of it true."""
        return Setting(
            rkhs_bound=self.rkhs_bound,
            noise_std=self.noise_std,
            kernel_bound=1.0,
            outputs=self.outputs,
            failure_probability=self.failure_probability,
            steps=self.steps,
        )

    @property
    def rules(self) -> Mapping[Scheme, KeepAll | Reset | Window]:
        """Return the forgetting rule of each scheme."""
        return {
            "keep_all": KeepAll(),
            "reset": Reset(period=self.reset_period),
            "window": Window(window=self.window),
        }

    def span(self, scheme: Scheme) -> int:
        """Return H, w, or N."""
        spans = {"reset": self.reset_period, "window": self.window}
        return spans.get(scheme, self.episodes)

    def kernel_matrix(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return k(X, Z)."""
        scaled = x / self.length_scale, z / self.length_scale
        return gram(kernel_named(self.kernel), *scaled, np)

    def grid(self, along: int) -> Float[np.ndarray, "Z D"]:
        """Return a grid over [−1, 1]^d with so many points along each input."""
        axis = np.linspace(-1.0, 1.0, along)
        return np.stack(np.meshgrid(*[axis] * self.dimension), -1).reshape(
            -1, self.dimension
        )


@dataclass(frozen=True)
class CalibrationStudy:
    """Many draws of the same kind, looked at together."""

    name: str
    title: str
    summary: str
    experiment: Literal["calibration"] = "calibration"
    draws: int = 300
    """Number of draws; each is made with drift and without."""
    seed: int = 0
    """Of all draws, together with their number."""
    draw: CalibrationSettings = field(default_factory=CalibrationSettings)

    def __post_init__(self) -> None:
        at_least("draws", self.draws, 1)
        at_least("seed", self.seed, 0)


def is_calibration_study(table: Mapping[str, Any]) -> bool:
    """Whether a study's table asks for this experiment and not for runs."""
    if "experiment" not in table:
        return False
    if table["experiment"] != "calibration":
        raise InputError(
            f"Unknown experiment {table['experiment']!r}. Known: calibration; a study "
            "of runs has no key 'experiment'."
        )
    return True


def read_calibration_study(path: Path) -> CalibrationStudy:
    """Read a study's file; errors name it."""
    try:
        return from_dict(CalibrationStudy, read_toml(path))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None

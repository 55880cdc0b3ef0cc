"""Measure γ_n and P_N where the answer is known, and draw both beside it.

::

    python benchmarks/theory_quantities.py --out quantities.png

Left: γ_n, greedily, over 2,000 of 4,000 points in two dimensions with σ = 0.1, for the
squared exponential and the linear kernel, with what is fitted from 100 points on.
Right: P_N of the pendulum of the first figure, asked of its frozen systems at more and
more points, beside the closed form of the linear kernel.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.linalg import cho_factor, cho_solve

from driftrl.analysis.plots import printed_style
from driftrl.analysis.style import INK, MUTED, PAGE_INCHES
from driftrl.drift.schedules import Exponential
from driftrl.envs.pendulum import DT, LENGTH, MASS, PendulumState, step
from driftrl.kernels import gram, kernel_named
from driftrl.theory.information import greedy_information_gain, growth_rate

FROM, MOST, CANDIDATES, NOISE = 100, 2000, 4000, 0.1
COLOURS = {"se": "#0072B2", "linear": "#D55E00"}
NAMES = {"se": "squared exponential", "linear": "linear"}
NUGGET = 1e-10  # of the mean variance: what rounding asks for, no more

KernelFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""k(X, Z): the matrix [k(x_i, z_j)] of two sets of rows."""


def kernel_matrix(name: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return k(z, z') of all pairs; the linear kernel is z·z'."""
    if name == "linear":
        return first @ second.T
    return gram(kernel_named(name), first, second, np)


def draw_gain(axes: Axes) -> None:
    """Draw γ_n of both kernels and what is fitted to it."""
    points = np.random.default_rng(0).uniform(-1, 1, (CANDIDATES, 2))
    counts = np.arange(1, MOST + 1)
    late = counts >= FROM
    for name, colour in COLOURS.items():
        # A linear kernel is bounded on the unit circle alone.
        radius = np.linalg.norm(points, axis=1, keepdims=True)
        scaled = points / 0.5 if name == "se" else points / radius
        matrix = kernel_matrix(name, scaled, scaled)
        curve = greedy_information_gain(matrix, MOST, NOISE)
        rate = np.array([growth_rate(name, int(n), 2) for n in counts[late]])
        # γ_n ≈ c·rate(n)^b; the rate is an upper bound, so b is at most 1.
        power, offset = np.polyfit(np.log(rate), np.log(curve[late]), 1)
        slope = np.polyfit(np.log(counts[late]), curve[late], 1)[0]
        said = f"slope {slope:.3f} in $\\log n$" if name == "linear" else ""
        said = said or f"rate$^{{{power:.2f}}}$"
        axes.plot(counts, curve, color=colour, label=f"{NAMES[name]}: {said}")
        fitted = np.exp(offset) * rate**power
        axes.plot(counts[late], fitted, "--", color=INK, linewidth=0.7)
        print(f"{name}: γ_100, γ_500, γ_2000 =", curve[[99, 499, 1999]].round(2))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("points $n$")
    axes.set_ylabel(r"information gain $\gamma_n$")
    axes.legend(fontsize=7)


def norm_from_values(
    kernel: KernelFunction,
    points: Float[np.ndarray, "N D"],
    values: Float[np.ndarray, "N S"],
) -> Float[np.ndarray, " S"]:
    """Return √(dᵀK⁻¹d), the smallest norm of a function with the values d.

    No function through these values has a smaller norm, so this is a lower bound on
    ‖g‖ for the difference g = f_{n+1} − f_n of two systems that were asked at the same
    points.  It never falls when points are added, and for points that fill the domain
    it converges to ‖g‖ if g is in the RKHS, and grows without bound if not.
    """
    matrix = kernel(points, points)
    nugget = NUGGET * float(np.mean(np.diag(matrix)))
    factor = cho_factor(matrix + nugget * np.eye(len(points)), lower=True)
    squares = np.sum(values * cho_solve(factor, values), axis=0)
    return np.sqrt(np.maximum(squares, 0.0))


def variation_of_systems(
    kernel: KernelFunction,
    points: Float[np.ndarray, "N D"],
    values: Sequence[Float[np.ndarray, "N S"]],
) -> float:
    """Estimate P_N from what consecutive frozen systems answer at the same points.

    It is a lower bound for the RKHS of this kernel.
    """
    increments = [later - former for former, later in pairwise(values)]
    return sum(float(norm_from_values(kernel, points, g).sum()) for g in increments)


def pendulum_variation(
    thetas: Sequence[float] | np.ndarray, mass: float, length: float, time_step: float
) -> float:
    """Return P_N of the pendulum with torque limit θ for the linear kernel z·z'.

    Its dynamics are f + θ·g as long as its speed is not clipped, with g linear in the
    action a alone: 3·dt/(m·l²)·a for the speed, and dt times that for the angle.  These
    slopes are the norms of g, and P_N is their sum times Σ_n |θ_{n+1} − θ_n|.
    """
    slope = 3.0 * time_step / (mass * length**2)
    return float((slope * time_step + slope) * np.abs(np.diff(thetas)).sum())


def answers_of(theta: float, inputs: np.ndarray) -> np.ndarray:
    """Return (angle', speed') of the pendulum with motor θ, from (angle, speed, a)."""
    with jax.enable_x64(True):
        angle, speed, action = map(jnp.asarray, inputs.T)
        after, _ = jax.vmap(step, (0, 0, None))(
            PendulumState(angle, speed), action, jnp.asarray(theta)
        )
        return np.stack([np.asarray(after.angle), np.asarray(after.speed)], axis=1)


def draw_variation(axes: Axes) -> None:
    """Draw the estimate of P_N over the number of points, for two kernels."""
    schedule = Exponential(theta_max=2.0, theta_min=1.0, rate=1.0, start=10)
    thetas = np.array([schedule(n) for n in range(1, 31)])
    closed = pendulum_variation(thetas, MASS, LENGTH, DT)
    draw = np.random.default_rng(1)
    # Angle, speed and action; too slow for the speed to be clipped.
    inputs = draw.uniform([-3, -6, -1], [3, 6, 1], (160, 3))
    answers = [answers_of(theta, inputs) for theta in thetas]
    counts = [2, 5, 10, 20, 40, 80, 160]
    for name, colour in COLOURS.items():
        found = []
        for count in counts:
            kernel = partial(kernel_matrix, name)
            some = [answer[:count] for answer in answers]
            found.append(variation_of_systems(kernel, inputs[:count], some))
        axes.plot(counts, found, "o-", color=colour, markersize=3, label=NAMES[name])
        print(f"{name}: P_N =", np.round(found, 4))
    axes.axhline(closed, color=MUTED, linewidth=0.8, label="closed form, linear")
    print(f"closed form: {closed:.4f}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("points that the systems are asked at")
    axes.set_ylabel("variation $P_N$")
    axes.legend(fontsize=7)


def main() -> None:
    """Print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("quantities.png"))
    out = parser.parse_args().out
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_gain(left)
        draw_variation(right)
        figure.savefig(out, dpi=300)
    print(f"Drawn in {out}")


if __name__ == "__main__":
    main()

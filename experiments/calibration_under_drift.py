"""Do the confidence bounds of Lemma 1 hold while the dynamics drift?

Random functions f_1 … f_N of known RKHS norm drift within a known budget.  A Gaussian
process with the true kernel and noise sees T noisy values of each, and before episode n
it predicts f_n from the episodes that a forgetting scheme retains.  A bound covers a
draw if it holds at all episodes, at all test points and for all outputs.

    python experiments/calibration_under_drift.py --out runs/calibration

makes 300 draws with drift and 300 without (about three minutes on two cores), prints
the coverage of every bound and writes calibration.png.  Finished draws are kept in
files, so the command continues after an interruption.  ``--draws 0`` evaluates the
draws in ``--out`` only.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.linalg import cho_solve
from scipy.stats import binomtest

from driftrl.errors import require
from driftrl.io import write_atomically
from driftrl.kernels import factorise, gram, kernel_named
from driftrl.memory.forgetting import Evidence, KeepAll, Reset, Window
from driftrl.theory.confidence import (
    Scheme,
    Setting,
    drift_coefficient,
    information_gain,
    stale_data_bias,
    width_of,
)
from driftrl.theory.information import greedy_information_gain

SCHEMES: tuple[Scheme, ...] = ("keep_all", "reset", "window")
BOUNDS = (
    "two_sigma",
    "stationary_printed",
    "stationary_corrected",
    "drift_printed",
    "drift_corrected",
    "drift_sharp",
)
DRAWS_PER_FILE = 5
CANDIDATES = 1024  # of the greedy search for γ


@dataclass(frozen=True)
class Settings:
    """What is drawn and learned; inputs lie in [−1, 1]^d."""

    seed: int = 0
    kernel: str = "se"
    length_scale: float = 0.5
    dimension: int = 2
    outputs: int = 2
    centres: int = 40
    """Centres of the kernel expansions."""
    episodes: int = 10
    steps: int = 12
    reset_period: int = 4
    window: int = 4
    noise_std: float = 0.1
    rkhs_bound: float = 2.0
    variation: float = 4.0
    """P_N, in equal shares for the outputs."""
    shape: str = "steady"
    """Drift in equal steps ("steady"), or all at once half-way ("abrupt")."""
    failure_probability: float = 0.1
    test_points: int = 16
    """Points of the test grid along each input."""

    @property
    def setting(self) -> Setting:
        """The true constants, for the bounds."""
        return Setting(
            rkhs_bound=self.rkhs_bound,
            noise_std=self.noise_std,
            outputs=self.outputs,
            failure_probability=self.failure_probability,
            steps=self.steps,
        )

    def span(self, scheme: Scheme) -> int:
        """Return H, w, or N."""
        spans = {"reset": self.reset_period, "window": self.window}
        return spans.get(scheme, self.episodes)

    def first_retained(self, scheme: Scheme, n: int) -> int:
        """Return m(n) of a scheme."""
        rules = {
            "keep_all": KeepAll(),
            "reset": Reset(period=self.reset_period),
            "window": Window(window=self.window),
        }
        return rules[scheme].first_retained(n, Evidence())

    def kernel_matrix(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return k(X, Z)."""
        scaled = x / self.length_scale, z / self.length_scale
        return gram(kernel_named(self.kernel), *scaled, np)

    def grid(self, along: int) -> np.ndarray:
        """Return a grid over the domain with that many points along each input."""
        axis = np.linspace(-1.0, 1.0, along)
        axes = np.meshgrid(*[axis] * self.dimension)
        return np.stack(axes, -1).reshape(-1, self.dimension)


@dataclass(frozen=True)
class Expansion:
    """Functions f_j = Σ_i α_ij k(c_i, ·), one column of α an output."""

    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """k(X, Z): the matrix [k(x_i, z_j)] of two sets of rows."""
    centres: np.ndarray
    coefficients: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return f at the rows of ``points``."""
        return self.kernel(points, self.centres) @ self.coefficients

    def norms(self) -> np.ndarray:
        """Return ‖f_j‖ = √(αᵀKα) of every output."""
        matrix = self.kernel(self.centres, self.centres)
        squares = np.sum(self.coefficients * (matrix @ self.coefficients), axis=0)
        return np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True)
class Draw:
    """Functions f_n = f_1 + τ_n·g, and noisy data of them."""

    start: Expansion
    direction: Expansion
    progress: np.ndarray
    """τ_1 = 0 … τ_N = 1; all 0 without drift."""
    inputs: np.ndarray
    targets: np.ndarray

    def function(self, n: int) -> Expansion:
        """Return f_n; episodes count from 1."""
        moved = self.progress[n - 1] * self.direction.coefficients
        return replace(self.start, coefficients=self.start.coefficients + moved)

    def increments(self) -> np.ndarray:
        """Return ‖f_{n+1,j} − f_{n,j}‖ for n = 1 … N−1, a column an output."""
        return np.diff(self.progress)[:, None] * self.direction.norms()

    def retained(self, first: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets of the episodes ``first`` … n−1."""
        x, y = self.inputs[first - 1 : n - 1], self.targets[first - 1 : n - 1]
        return x.reshape(-1, x.shape[2]), y.reshape(-1, y.shape[2])


def make_draw(settings: Settings, number: int, drifting: bool) -> Draw:
    """Draw functions, inputs and noise.

    The path runs from c·a − g/2 to c·a + g/2 with ‖g_j‖ = P/d_x, and c solves
    c²‖a‖² + c|⟨a, g⟩| + ‖g‖²/4 = B²: the end of larger norm has norm B.
    """
    rng = np.random.default_rng([settings.seed, number])
    centres = rng.uniform(-1, 1, (settings.centres, settings.dimension))
    matrix = settings.kernel_matrix(centres, centres)
    shape = (len(centres), settings.outputs)
    middle, direction = rng.standard_normal(shape), rng.standard_normal(shape)

    def products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.sum(left * (matrix @ right), axis=0)

    share = settings.variation / settings.outputs
    direction *= share / np.sqrt(products(direction, direction))
    square, cross = products(middle, middle), np.abs(products(middle, direction))
    rest = settings.rkhs_bound**2 - share**2 / 4
    scale = (np.sqrt(cross**2 + 4 * square * rest) - cross) / (2 * square)
    episodes = settings.episodes
    progress = np.linspace(0.0, 1.0, episodes)
    if settings.shape == "abrupt":
        progress = (np.arange(episodes) >= episodes // 2).astype(np.float64)
    size = (episodes, settings.steps)
    inputs = rng.uniform(-1, 1, (*size, settings.dimension))
    noise = settings.noise_std * rng.standard_normal((*size, settings.outputs))
    kernel = settings.kernel_matrix
    draw = Draw(
        Expansion(kernel, centres, scale * middle - direction / 2),
        Expansion(kernel, centres, direction),
        progress if drifting else np.zeros_like(progress),
        inputs,
        noise,
    )
    values = [draw.function(n + 1)(inputs[n]) for n in range(episodes)]
    return replace(draw, targets=np.stack(values) + noise)


@cache
def maximum_gain(settings: Settings) -> np.ndarray:
    """Return γ of 0, 1, … N·T points, greedily over a grid of the domain."""
    count = settings.episodes * settings.steps
    along = round(CANDIDATES ** (1 / settings.dimension))
    points = settings.grid(max(along, 1 + int(count ** (1 / settings.dimension))))
    kernel = settings.kernel_matrix(points, points)
    greedy = greedy_information_gain(kernel, count, settings.noise_std)
    return np.concatenate([[0.0], greedy])


def predict_with_bounds(
    settings: Settings, draw: Draw, scheme: Scheme, n: int, points: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return μ before episode n at the points, and every bound on |f_n − μ|.

    The printed bounds take γ, the greedy maximum; the corrected ones the gain of the
    data, which is all that their proof needs.
    """
    first = settings.first_retained(scheme, n)
    inputs, targets = draw.retained(first, n)
    increments = draw.increments()[first - 1 : n - 1]
    kernel = settings.kernel_matrix(inputs, inputs)
    factor = factorise(kernel + settings.noise_std**2 * np.eye(len(kernel)))
    cross = settings.kernel_matrix(inputs, points)
    weights = cho_solve((factor, True), cross) if len(inputs) else cross
    variance = np.maximum(1.0 - np.sum(cross * weights, axis=0), 0.0)
    std = np.repeat(np.sqrt(variance)[:, None], settings.outputs, axis=1)
    gains = {
        "printed": float(maximum_gain(settings)[len(inputs)]),
        "corrected": information_gain(factor, settings.noise_std),
    }
    setting, drift = settings.setting, increments.sum(axis=0)
    bounds = {"two_sigma": 2.0 * std}
    for version in ("printed", "corrected"):
        width = width_of(
            setting,
            gains[version],
            scheme=scheme,
            span=settings.span(scheme),
            episode=n,
            episodes=settings.episodes,
            version=version,
        )
        coefficient = drift_coefficient(setting, gains[version], n - first, version)
        bounds[f"stationary_{version}"] = np.asarray(width * std)
        bounds[f"drift_{version}"] = width * std + coefficient * drift
    ends = settings.steps * np.arange(1, n - first + 1)
    bias = stale_data_bias(kernel, weights, ends, increments)
    bounds["drift_sharp"] = bounds["stationary_corrected"] + bias
    return weights.T @ targets, bounds


def evaluate_draw(settings: Settings, number: int, drifting: bool) -> list[dict]:
    """Return a row for each scheme and bound: whether it held, and its width."""
    draw = make_draw(settings, number, drifting)
    points = settings.grid(settings.test_points)
    rows = []
    for scheme in SCHEMES:
        held: dict[str, list[np.ndarray]] = {bound: [] for bound in BOUNDS}
        widths: dict[str, list[float]] = {bound: [] for bound in BOUNDS}
        for n in range(1, settings.episodes + 1):
            mean, bounds = predict_with_bounds(settings, draw, scheme, n, points)
            error = np.abs(draw.function(n)(points) - mean)
            for name in BOUNDS:
                held[name].append(error <= bounds[name])
                widths[name].append(float(bounds[name].mean()))
        for name in BOUNDS:
            everywhere = np.stack(held[name])
            failed = np.flatnonzero(~everywhere.reshape(len(everywhere), -1).all(1))
            rows.append(
                {
                    "draw": number,
                    "drifting": drifting,
                    "scheme": scheme,
                    "bound": name,
                    "covered": len(failed) == 0,
                    "share": float(everywhere.mean()),
                    "half_width": float(np.mean(widths[name])),
                    "first_failure": int(failed[0]) + 1 if len(failed) else None,
                }
            )
    return rows


def evaluate_file(settings: Settings, path: Path, numbers: Sequence[int]) -> None:
    """Evaluate some draws with and without drift, and write them to a file."""
    rows = [
        row
        for number, drifting in product(numbers, (True, False))
        for row in evaluate_draw(settings, number, drifting)
    ]
    write_atomically(path, json.dumps(rows).encode())


def example(settings: Settings) -> dict[str, Any]:
    """Return the first draw in one dimension before its last episode, to look at."""
    settings = replace(
        settings,
        dimension=1,
        outputs=1,
        variation=settings.variation / settings.outputs,
    )
    draw, n = make_draw(settings, 0, True), settings.episodes
    points = settings.grid(201)
    shown: dict[str, Any] = {
        "episode": n,
        "points": points[:, 0].tolist(),
        "truth": draw.function(n)(points)[:, 0].tolist(),
        "first_truth": draw.function(1)(points)[:, 0].tolist(),
        "inputs": draw.inputs[: n - 1, :, 0].tolist(),
        "targets": draw.targets[: n - 1, :, 0].tolist(),
    }
    bands: tuple[tuple[Scheme, str], ...] = (
        ("keep_all", "stationary_corrected"),
        ("window", "drift_sharp"),
    )
    for scheme, name in bands:
        mean, bounds = predict_with_bounds(settings, draw, scheme, n, points)
        half_width = bounds[name][:, 0].tolist()
        shown[scheme] = {"mean": mean[:, 0].tolist(), "half_width": half_width}
    return shown


def run(settings: Settings, out: Path, draws: int, workers: int) -> None:
    """Make the draws that ``out`` does not have yet."""
    (out / "draws").mkdir(parents=True, exist_ok=True)
    path = out / "settings.json"
    if path.is_file():
        stored = json.loads(path.read_text())
        require(stored == asdict(settings), f"{out} holds draws of other settings.")
    else:
        write_atomically(path, json.dumps(asdict(settings)).encode())
        write_atomically(out / "example.json", json.dumps(example(settings)).encode())
    jobs = []
    for first in range(0, draws, DRAWS_PER_FILE):
        numbers = range(first, min(first + DRAWS_PER_FILE, draws))
        file = out / "draws" / f"{first:05d}-{numbers[-1]:05d}.json"
        if not file.is_file():
            jobs.append((settings, file, numbers))
    with ProcessPoolExecutor(workers) as pool:
        pending = [pool.submit(evaluate_file, *job) for job in jobs]
        for done, future in enumerate(pending, start=1):
            future.result()
            print(f"{done} of {len(jobs)} files", flush=True)


def coverage_table(out: Path) -> list[dict[str, Any]]:
    """Return the coverage of each bound under each scheme, with and without drift."""
    rows = [
        row
        for path in sorted((out / "draws").glob("*.json"))
        for row in json.loads(path.read_text())
    ]
    keys = ("draw", "drifting", "scheme", "bound")
    # A study that grew has the draws of its last, shorter file twice.
    rows = list({tuple(row[key] for key in keys): row for row in rows}.values())
    table = []
    for drifting, scheme, bound in product((True, False), SCHEMES, BOUNDS):
        wanted = (drifting, scheme, bound)
        group = [row for row in rows if tuple(row[key] for key in keys[1:]) == wanted]
        if not group:
            continue
        covered = sum(row["covered"] for row in group)
        interval = binomtest(covered, len(group)).proportion_ci(method="wilson")
        table.append(
            {
                "drifting": drifting,
                "scheme": scheme,
                "bound": bound,
                "draws": len(group),
                "coverage": covered / len(group),
                "low": float(interval.low),
                "high": float(interval.high),
                "share": sum(row["share"] for row in group) / len(group),
                "half_width": sum(row["half_width"] for row in group) / len(group),
            }
        )
    require(bool(table), f"There are no draws in {out}.")
    return table


COLOURS = {"keep_all": "#D55E00", "reset": "#0072B2", "window": "#009E73"}


def figure_of(table: Sequence[Mapping[str, Any]], shown: Mapping[str, Any]) -> Figure:
    """Draw one example and the coverage of every bound."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    _draw_example(figure.add_subplot(grid[0, :]), shown)
    drift = figure.add_subplot(grid[1, :2])
    still = figure.add_subplot(grid[1, 2], sharey=drift)
    _draw_coverage(drift, table, BOUNDS, drifting=True)
    _draw_coverage(still, table, BOUNDS[:3], drifting=False)
    drift.set(title="With drift", ylabel="Share of draws covered")
    still.set(title="Without drift")
    drift.legend(fontsize=7)
    return figure


def _draw_example(axes: Axes, shown: Mapping[str, Any]) -> None:
    points = np.array(shown["points"])
    for scheme in ("keep_all", "window"):
        mean = np.array(shown[scheme]["mean"])
        half = np.array(shown[scheme]["half_width"])
        colour = COLOURS[scheme]
        axes.fill_between(points, mean - half, mean + half, color=colour, alpha=0.2)
        axes.plot(points, mean, color=colour, label=scheme)
    axes.plot(points, shown["truth"], color="black", label="$f_n$")
    axes.plot(points, shown["first_truth"], ":", color="gray", label="$f_1$")
    axes.scatter(np.ravel(shown["inputs"]), np.ravel(shown["targets"]), s=4, c="gray")
    axes.set(title=f"One draw, before episode {shown['episode']}", xlabel="$z$")
    axes.legend(fontsize=7, ncols=4)


def _draw_coverage(
    axes: Axes,
    table: Sequence[Mapping[str, Any]],
    bounds: Sequence[str],
    *,
    drifting: bool,
) -> None:
    for offset, scheme in zip((-0.24, 0.0, 0.24), SCHEMES, strict=True):
        rows = {
            row["bound"]: row
            for row in table
            if row["scheme"] == scheme and row["drifting"] == drifting
        }
        shown = [rows[bound] for bound in bounds]
        rates = np.array([row["coverage"] for row in shown])
        ends = np.array([[row["low"], row["high"]] for row in shown]).T
        errors = np.maximum(np.abs(ends - rates), 0.0)
        axes.errorbar(
            np.arange(len(bounds)) + offset,
            rates,
            errors,
            fmt="o",
            markersize=4,
            capsize=2,
            color=COLOURS[scheme],
            label=scheme,
        )
    labels = [bound.replace("_", "\n") for bound in bounds]
    axes.set_xticks(range(len(bounds)), labels, fontsize=6.5)
    axes.set_ylim(-0.04, 1.04)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, make the draws, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--episodes", type=int, default=Settings.episodes)
    parser.add_argument("--test-points", type=int, default=Settings.test_points)
    options = parser.parse_args(arguments)
    settings = Settings(episodes=options.episodes, test_points=options.test_points)
    if options.draws:
        run(settings, options.out, options.draws, options.workers)
    table = coverage_table(options.out)
    print("drift  scheme    bound                 coverage [95 %]         half-width")
    for row in table:
        print(
            f"{'yes' if row['drifting'] else 'no':<6} {row['scheme']:<9} "
            f"{row['bound']:<21} {row['coverage']:.3f} "
            f"[{row['low']:.3f}, {row['high']:.3f}]    {row['half_width']:.3g}"
        )
    shown = json.loads((options.out / "example.json").read_text())
    figure_of(table, shown).savefig(options.out / "calibration.png", dpi=200)


if __name__ == "__main__":
    main()

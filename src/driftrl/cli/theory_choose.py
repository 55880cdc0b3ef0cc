"""``driftrl theory choose``: H and w from the regret bound."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.run_data import episodes_of, single_run
from driftrl.errors import at_least, require

if TYPE_CHECKING:
    from driftrl.figures.tradeoff import MeasuredSweep
    from driftrl.theory.choice import Tradeoff
    from driftrl.theory.regret_bound import GainOfSpan
    from driftrl.theory.setting import Setting

_BAR = 48
_SPANS = ("H", "w")  # settings that are spans of memory
_SHOWN = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320)


@dataclass(frozen=True)
class Arguments:
    """The problem, as the bound sees it; a run measures what is not given."""

    episodes: int | None = None
    """N, the length of the run (with --run: what it has so far)."""
    variation: float | None = None
    """P_N, how far the dynamics move in the RKHS norm, outputs added. Without it the
    answer is the paper's H ∝ γ^(1/4)·√N, which needs none."""
    kernel: str = "se"
    """Kernel, which sets how γ grows: se, matern32, matern52 or linear."""
    dimension: int | None = None
    """Inputs d of the dynamics: numbers observed and commanded."""
    steps: int | None = None
    """Transitions T of an episode."""
    outputs: int | None = None
    """Numbers d_x that are observed (default: all inputs but one)."""
    gain: float | None = None
    """γ_N where it is known (default: greedily, over inputs of spread 1)."""
    length_scale: float = 1.0
    """Length scale of the kernel, in spreads of the inputs."""
    noise: float | None = None
    """σ of the noise (default: 0.1)."""
    delta: float = 0.1
    """δ, the probability with which the bound may fail."""
    rkhs_bound: float | None = None
    """B, a bound on the norm of the dynamics (default: 1)."""
    reward_max: float | None = None
    """R_max, the largest reward of a step (default: 1)."""
    run: Path | None = None
    """Directory of a run from whose data N, T, d, γ_N, P_N, B, σ and R_max are
    measured."""
    out: Path | None = None
    """PNG file for the drawn trade-off."""
    sweep: Path | None = None
    """Directory of a study that swept H or w, to draw its regret beside the bound."""
    json: bool = False
    """Print one JSON document instead."""


def main(argv: list[str]) -> int:
    """Print what the bound says about the span."""
    summary = (
        "Choose the reset period H and the window w from the paper's regret bound, "
        "and draw its trade-off."
    )
    arguments = parse(Arguments, argv, "theory choose", summary)
    require(
        arguments.sweep is None or arguments.out is not None,
        "--sweep is drawn beside the bound, so it needs a file to draw into (--out).",
    )
    from driftrl.theory.choice import choose

    problem = _problem(arguments)
    found = choose(
        problem.setting,
        episodes=problem.episodes,
        variation=problem.variation,
        gain_of_span=problem.gain_of_span,
    )
    if arguments.out is not None:
        _draw(found, arguments.out, _swept(arguments.sweep))
    if arguments.json:
        print_json(_choice_document(found, problem))
    else:
        _print_choice(found, problem)
        if arguments.out is not None:
            print(f"\nThe trade-off is drawn in {arguments.out}")
    return 0


@dataclass(frozen=True)
class _Problem:
    """What the bound needs to know."""

    setting: "Setting"
    episodes: int
    variation: float | None
    gain_of_span: "GainOfSpan"
    measured: dict[str, Any] | None
    """What a run said, by the names of the options."""


def _problem(arguments: Arguments) -> _Problem:
    from driftrl.theory.information import growth_rate
    from driftrl.theory.setting import Setting, require_episodes

    growth_rate(arguments.kernel, 2, 1)  # a kernel without a known rate ends here
    measured = _measured(arguments.run) if arguments.run else {}
    options = vars(arguments).items()
    values = measured | {name: value for name, value in options if value is not None}
    needed = ("episodes", "dimension", "steps")
    missing = [f"--{name}" for name in needed if name not in values]
    require(
        not missing,
        f"theory choose needs {', '.join(missing)}, or a run to measure on (--run).",
    )
    require_episodes(values["episodes"])
    at_least("--dimension", values["dimension"], 1)
    setting = Setting(
        rkhs_bound=values.get("rkhs_bound", 1.0),
        noise_std=values.get("noise", 0.1),
        outputs=values.get("outputs", max(1, values["dimension"] - 1)),
        failure_probability=arguments.delta,
        steps=values["steps"],
        reward_max=values.get("reward_max", 1.0),
    )
    variation = arguments.variation
    if measured and variation is None:
        # As far again in as many episodes again.
        pace = measured["variation"] / (measured["episodes"] - 1)
        variation = pace * (values["episodes"] - 1)
    return _Problem(
        setting,
        values["episodes"],
        variation,
        _gain_of_span(arguments, values, setting, measured.get("episodes")),
        measured or None,
    )


def _gain_of_span(
    arguments: Arguments,
    values: dict[str, Any],
    setting: "Setting",
    lived: int | None,
) -> "GainOfSpan":
    """Return γ_p: greedy where that is quick, else the known rate through one γ."""
    from driftrl.theory.information import scaled_rate

    curve = None
    if arguments.gain is not None:
        at_least("--gain", arguments.gain, 0)
        anchor = (values["episodes"] * setting.steps, arguments.gain)
    elif lived is not None:
        anchor = (lived * setting.steps, values["gain"])
    else:
        from driftrl.models.measurement import gain_curve

        curve = gain_curve(
            arguments.kernel,
            values["dimension"],
            arguments.length_scale,
            setting.noise_std,
            values["episodes"] * setting.steps,
        )
        anchor = (len(curve), float(curve[-1]))

    points = setting.steps * np.arange(1, values["episodes"] + 1)
    # A single point has no rate; two are the fewest with one.
    rate_at = np.maximum(2, points)
    gains = scaled_rate(arguments.kernel, rate_at, values["dimension"], anchor)
    if curve is not None:
        near = points <= len(curve)
        gains = np.concatenate([curve[points[near] - 1], gains[~near]])
    return lambda span: float(gains[span - 1])


def _measured(directory: Path) -> dict[str, Any]:
    """Measure a run: the constants of the bound, by the names of the options."""
    from driftrl.models.measurement import measure

    run = single_run(directory)
    require(
        len(run.records) >= 2,
        f"{directory} holds {len(run.records)} episodes; 2 are the fewest to measure "
        "how the dynamics move.",
    )
    episodes = episodes_of(run, len(run.records))
    thetas = np.array([record.theta for record in run.records])
    found = measure(episodes, thetas if np.isfinite(thetas).all() else None)
    rewards = np.concatenate([episode.rewards for episode in episodes])
    outputs, commands = episodes[0].obs.shape[1], episodes[0].actions.shape[1]
    return {
        "episodes": len(episodes),
        "steps": round(sum(map(len, episodes)) / len(episodes)),
        "outputs": outputs,
        "dimension": outputs + commands,
        "gain": found.gain,
        "variation": found.variation,
        "rkhs_bound": found.rkhs_bound,
        "noise": found.noise_std,
        # The bound counts rewards from 0.
        "reward_max": float(np.ptp(rewards)),
    }


def _print_choice(found: "Tradeoff", problem: _Problem) -> None:
    setting = problem.setting
    known = "unknown" if found.variation is None else f"{found.variation:.3g}"
    source = "measured on the run" if problem.measured else "given"
    print(
        f"N = {found.episodes}, T = {setting.steps}, P_N = {known}, "
        f"γ_N = {found.gain:.3g}, B = {setting.rkhs_bound:.3g}, "
        f"σ = {setting.noise_std:.2g} ({source})\n"
    )
    print_table(["reading of the bound", "H", "w", "what to think of it"], _rows(found))
    print(f"\nRecommended: H = w = {found.span}.")
    if found.terms is None:
        print("With --variation, or a run, the bound can weigh drift against data.")
        return
    print(f"\nThe order with γ_N over p:  {'█'} learning  {'░'} drift\n")
    for line in bars(found):
        print(line)


def _rows(found: "Tradeoff") -> list[list[Any]]:
    rows: list[list[Any]] = []
    if found.reset and found.window:
        size = f"{found.reset.bound:.0e} against at most {found.reset.trivial:.0e}"
        thought = (
            f"{size}: says nothing about the regret"
            if found.reset.is_vacuous
            else f"{size}: a guarantee"
        )
        rows.append(
            ["with all constants", found.reset.span, found.window.span, thought]
        )
        rows.append(
            [
                "its order, γ_p",
                found.order,
                found.order,
                "γ_p grows with p and hides what more data are worth",
            ]
        )
        closed = (
            "without variation nothing is too old"
            if found.informed is None
            else f"γ_N^(1/4)·√(N/(3·P_N)) = {found.informed:.3g}: the paper's reading, "
            "P_N known"
        )
        rows.append(["its order, γ_N", found.span, found.span, closed])
    without = min(found.episodes, max(1, round(found.tuned)))
    rows.append(
        [
            "without P_N",
            without,
            without,
            f"γ_N^(1/4)·√N = {found.tuned:.3g}: for a variation that hardly grows",
        ]
    )
    return rows


def bars(found: "Tradeoff", width: int = _BAR) -> list[str]:
    """Return a bar for each of a few spans: learning, drift, and their sum."""
    assert found.terms is not None
    shown = sorted({p for p in _SHOWN if p <= found.episodes} | {found.span})
    least = float(found.terms.total[found.span - 1])
    # Four times the minimum fills the width; what is longer is cut.
    scale = width / (4.0 * least) if least > 0 else 0.0
    lines = []
    for span in shown:
        learning = float(found.terms.learning[span - 1])
        drift = float(found.terms.drift[span - 1])
        first, whole = round(scale * learning), round(scale * (learning + drift))
        bar = ("█" * first + "░" * (whole - first))[:width]
        bar += "…" if whole > width else ""
        ratio = (learning + drift) / least if least > 0 else 1.0
        mark = "  ← smallest" if span == found.span else ""
        lines.append(f"{span:>5}  {bar} {ratio:.2f}{mark}")
    return lines


def _swept(directory: Path | None) -> "list[MeasuredSweep]":
    """Return the final regret of each method over the spans that a study swept."""
    if directory is None:
        return []
    from driftrl.analysis.plots import sweeps_of
    from driftrl.cli.recorded import compare
    from driftrl.figures.tradeoff import MeasuredSweep

    found = [
        MeasuredSweep(
            method,
            np.array([*points]),
            np.array([finals[name].mean for name in points.values()]),
            np.array([float(finals[name].stderr) for name in points.values()]),
        )
        for study in compare(directory).studies
        for finals in [{one.method: one.final for one in study.methods}]
        for (method, setting), points in sweeps_of(finals).items()
        if setting in _SPANS
    ]
    require(
        bool(found),
        f"{directory} has no sweep of H or w: no variants named H=… or w=….",
    )
    return found


def _draw(found: "Tradeoff", out: Path, sweeps: "list[MeasuredSweep]") -> None:
    require(
        found.terms is not None,
        "There is a trade-off to draw only with --variation or --run.",
    )
    require(
        out.suffix == ".png", f"--out must be a file ending in .png, received {out}."
    )
    from driftrl.analysis.style import render
    from driftrl.figures.tradeoff import tradeoff_figure
    from driftrl.io import write_atomically

    assert found.terms is not None
    spans = np.arange(1, found.episodes + 1)
    terms = found.terms
    figure = tradeoff_figure(spans, terms.learning, terms.drift, found.span, sweeps)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, render(figure, "png"))


def _choice_document(found: "Tradeoff", problem: _Problem) -> dict[str, Any]:
    terms = found.terms
    curve = None
    if terms is not None:
        curve = {"learning": terms.learning.tolist(), "drift": terms.drift.tolist()}
    with_constants = None
    if found.reset and found.window:
        with_constants = {
            "H": found.reset.span,
            "w": found.window.span,
            "bound": found.reset.bound,
            "most": found.reset.trivial,
        }
    return {
        "H": found.span,
        "w": found.span,
        "episodes": found.episodes,
        "variation": found.variation,
        "gain": found.gain,
        "setting": asdict(problem.setting),
        "measured": problem.measured,
        "with_constants": with_constants,
        "order": found.order,
        "order_with_gain_of_all": found.informed,
        "without_variation": found.tuned,
        "curve": curve,
    }

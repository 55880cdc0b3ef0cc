"""``driftrl theory``: a window from the bound or from data, and an audit of σ."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.errors import InputError, at_least, require, unknown_name
from driftrl.records import CONFIG_FILE, load_runs
from driftrl.theory.audit import Audit, PredictedEpisode, audit
from driftrl.theory.run_data import load_episodes, load_single_run, observation_size
from driftrl.theory.window_selection import Problem, Sweep, Tradeoff, choose_window

if TYPE_CHECKING:
    from driftrl.theory.backtest import Recommendation

_BLOCKS = 12  # rows in the table of an audit


def main(argv: list[str]) -> int:
    """Run one of the subcommands."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        rows = [f"  {name:<10} {help}" for name, (_, help) in SUBCOMMANDS.items()]
        print("\n".join(["usage: driftrl theory SUBCOMMAND …", "", *rows, ""]))
        print("See driftrl theory SUBCOMMAND --help.")
        return 0
    if argv[0] not in SUBCOMMANDS:
        raise unknown_name("subcommand of driftrl theory", argv[0], SUBCOMMANDS)
    SUBCOMMANDS[argv[0]][0](argv[1:])
    return 0


# ---- choose --------------------------------------------------------------------------


@dataclass(frozen=True)
class ChooseArguments(Problem):
    """The problem, as the bound sees it; a run estimates what is not given."""

    run: Path | None = None
    """Directory of a run from whose data the constants are estimated."""
    out: Path | None = None
    """PNG file for a figure of the trade-off."""
    sweep: Path | None = None
    """Directory of a study with variants H=… or w=…, drawn beside the bound."""
    json: bool = False
    """Print one JSON document instead."""


def _choose(argv: list[str]) -> None:
    summary = "Choose the reset period H and the window w from the paper's bound."
    arguments = parse(ChooseArguments, argv, "theory choose", summary)
    out = arguments.out
    require(
        arguments.sweep is None or out is not None, "--sweep needs a figure (--out)."
    )
    require(
        out is None or out.suffix == ".png", f"--out must end in .png, received {out}."
    )
    if arguments.run is None:
        tradeoff = choose_window(arguments)
    else:
        run = load_single_run(arguments.run)
        thetas = np.array([record.theta for record in run.records])
        tradeoff = choose_window(arguments, load_episodes(run), thetas)
    if out is not None:
        _draw(tradeoff, out, arguments.sweep)
    if arguments.json:
        print_json(tradeoff.document())
        return
    _print_tradeoff(tradeoff)
    if out is not None:
        print(f"Figure: {out}")


def _print_tradeoff(found: Tradeoff) -> None:
    setting = found.setting
    variation = "unknown" if found.variation is None else f"{found.variation:.3g}"
    source = "estimated from the run" if found.estimated else "given"
    print(
        f"N = {found.episodes}, T = {setting.steps}, P_N = {variation}, "
        f"γ_N = {found.gain:.3g}, B = {setting.rkhs_bound:.3g}, "
        f"σ = {setting.noise_std:.2g} ({source})\n"
    )
    rows: list[list[Any]] = []
    if found.reset and found.window:
        size = f"{found.reset.bound:.0e}, largest regret {found.reset.trivial:.0e}"
        informed = "no drift" if found.informed is None else f"{found.informed:.3g}"
        rows = [
            ["with all constants", found.reset.span, found.window.span, size],
            ["order with γ_p", found.order, found.order, "γ_p hides the worth of data"],
            ["order with γ_N", found.span, found.span, f"γ^¼·√(N/3P) = {informed}"],
        ]
    tuned = f"γ^¼·√N = {found.tuned:.3g}"
    rows.append(["without P_N", found.tuned_span, found.tuned_span, tuned])
    print_table(["reading of the bound", "H", "w", ""], rows)
    print(f"\nRecommended: H = w = {found.span}.")


def _draw(tradeoff: Tradeoff, out: Path, sweep: Path | None) -> None:
    from driftrl.theory.window_selection import plot_tradeoff

    figure = plot_tradeoff(tradeoff, _sweeps(sweep) if sweep else ())
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=200)


def _sweeps(directory: Path) -> list[Sweep]:
    """Return the regret of each method over the spans that a study swept."""
    import driftrl
    from driftrl.analysis.names import sweep_point

    points: dict[str, list[tuple[float, float, float]]] = {}
    for row in driftrl.regret(driftrl.load(directory)).iter_rows(named=True):
        point = sweep_point(row["method"])
        if point and point.setting in ("H", "w"):
            values = (point.value, row["regret"], row["standard_error"] or 0.0)
            points.setdefault(point.method, []).append(values)
    require(bool(points), f"{directory} has no variants named H=… or w=….")
    sweeps = []
    for name, rows in points.items():
        spans, means, errors = zip(*sorted(rows), strict=True)
        sweeps.append((name, spans, means, errors))
    return sweeps


# ---- recommend -----------------------------------------------------------------------


@dataclass(frozen=True)
class RecommendArguments:
    """Which run, and how much of it."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of a run with its episodes."""
    last: int = 60
    """Number of newest episodes to use."""
    json: bool = False
    """Print one JSON document instead."""


def _recommend(argv: list[str]) -> None:
    summary = "Recommend a window: which past would have predicted each episode best?"
    arguments = parse(RecommendArguments, argv, "theory recommend", summary)
    from driftrl.theory.backtest import MIN_EPISODES, recommend_window

    at_least("--last", arguments.last, MIN_EPISODES)
    run = load_single_run(arguments.run)
    episodes = load_episodes(run, arguments.last)
    found = recommend_window(episodes)
    if arguments.json:
        print_json({"run": run.label, **asdict(found), "as_good": found.as_good})
        return
    print(f"{run.label}: {found.tested} of the newest {len(episodes)} episodes.\n")
    _print_recommendation(found)


def _print_recommendation(found: "Recommendation") -> None:
    print_table(
        ["episodes of data", "error", "worse than the best", "± 2σ covers", ""],
        [
            [
                f"{one.span} (all)" if one is found.scores[-1] else one.span,
                f"{one.error:.4f}",
                f"{one.worse:.4f} ± {one.standard_error:.4f}",
                f"{one.coverage:.0%}",
                "← recommended" if one.span == found.span else "",
            ]
            for one in found.scores
        ],
    )
    drift = found.drift
    choice = "keep all data" if found.keep_all else f"w = {found.span} episodes"
    print(f"\nRecommended: {choice}.")
    if drift is not None:
        print(
            f"Data {drift.span} episodes older: error {drift.older:.3f} instead of "
            f"{drift.newer:.3f}{'' if drift.is_evident else ' (may be chance)'}."
        )


# ---- audit ---------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditArguments:
    """Which records."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a run, or of a study: then one line per run."""
    json: bool = False
    """Print one JSON document instead, with every episode."""


def _audit(argv: list[str]) -> None:
    summary = "Was the uncertainty of a run calibrated on each episode before learning?"
    arguments = parse(AuditArguments, argv, "theory audit", summary)
    audits: dict[str, Audit] = {}
    reasons: dict[str, str] = {}
    single = (arguments.directory / CONFIG_FILE).is_file()
    for run in load_runs(arguments.directory):
        try:
            audits[run.label] = audit(run.records, observation_size(run))
        except InputError as error:
            if single:
                raise
            reasons[run.label] = str(error)
    if arguments.json:
        documents = [{"run": name, **one.document()} for name, one in audits.items()]
        documents += [{"run": name, "reason": one} for name, one in reasons.items()]
        print_json(documents[0] if single else documents)
        return
    if single:
        ((label, found),) = audits.items()
        print(f"{label}\n")
        columns = ["episodes", "± 2σ covers", "lowest", "error", "σ", "error/σ"]
        size = max(1, math.ceil(len(found.predicted) / _BLOCKS))
        starts = range(0, len(found.predicted), size)
        rows = [_block(found.predicted[first : first + size]) for first in starts]
        print_table([*columns, "memory", "θ"], rows)
        print("\n" + "\n".join(found.summary()))
        return
    columns = ["run", "± 2σ covers", "broken", "lowest", "σ", "error/σ"]
    rows = [[name, *_line(found)] for name, found in audits.items()]
    print_table([*columns, "stale / fresh"], rows)
    for name, reason in reasons.items():
        print(f"{name}: {reason}")


def _block(block: Sequence[PredictedEpisode]) -> list[str]:
    first, last = block[0], block[-1]
    error, sigma = fmean(one.error for one in block), fmean(one.sigma for one in block)
    return [
        f"{first.episode}–{last.episode}",
        f"{fmean(one.coverage for one in block):.0%}",
        f"{min(one.coverage for one in block):.0%}",
        f"{error:.3g}",
        f"{sigma:.3g}",
        f"{error / sigma:.1f}" if sigma > 0 else "–",
        f"{min(one.span for one in block)}–{max(one.span for one in block)}",
        f"{first.theta:.3g} … {last.theta:.3g}" if math.isfinite(last.theta) else "–",
    ]


def _line(found: Audit) -> list[str]:
    worst, stale = min(found.predicted, key=lambda one: one.coverage), found.staleness
    return [
        f"{found.coverage:.0%} ({found.low:.0%} to {found.high:.0%})",
        f"{found.broken} of {len(found.predicted)}",
        f"{worst.coverage:.0%} at {worst.episode}",
        f"{found.sigma:.3g}",
        f"{found.ratio:.1f}",
        f"{stale.stale_coverage:.0%} / {stale.fresh_coverage:.0%}" if stale else "–",
    ]


SUBCOMMANDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "choose": (_choose, "H and w from the regret bound, with its trade-off drawn"),
    "recommend": (_recommend, "w from a run's own data, with the evidence"),
    "audit": (_audit, "whether the uncertainty of a run was calibrated"),
}

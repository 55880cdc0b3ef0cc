"""``driftrl theory``: a window from the bound or from data, and an audit of σ."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.errors import InputError, at_least, require, unknown_name
from driftrl.records import CONFIG_FILE, load_runs
from driftrl.theory.audit import Audit, audit
from driftrl.theory.run_data import load_episodes, load_single_run, observation_size
from driftrl.theory.window_selection import (
    Problem,
    Sweep,
    Tradeoff,
    choose_window,
    plot_tradeoff,
)


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
    out, data, thetas = arguments.out, [], None
    require(out is not None or not arguments.sweep, "--sweep needs a figure (--out).")
    require(not out or out.suffix == ".png", f"--out must end in .png, received {out}.")
    if arguments.run is not None:
        run = load_single_run(arguments.run)
        data, thetas = load_episodes(run), np.array([one.theta for one in run.records])
    tradeoff = choose_window(arguments, data, thetas)
    if out is not None:
        sweeps = _sweeps(arguments.sweep) if arguments.sweep else ()
        figure = plot_tradeoff(tradeoff, sweeps)
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, dpi=200)
    if arguments.json:
        print_json(tradeoff.document())
        return
    _print_tradeoff(tradeoff)
    if out is not None:
        print(f"Figure: {out}")


def _print_tradeoff(result: Tradeoff) -> None:
    setting = result.setting
    variation = "unknown" if result.variation is None else f"{result.variation:.3g}"
    source = "estimated from the run" if result.estimated else "given"
    print(
        f"N = {result.episodes}, T = {setting.steps}, P_N = {variation}, "
        f"γ_N = {result.gain:.3g}, B = {setting.rkhs_bound:.3g}, "
        f"σ = {setting.noise_std:.2g} ({source})\n"
    )
    rows: list[list[Any]] = []
    if result.reset and result.window:
        size = f"{result.reset.bound:.0e}, largest regret {result.reset.trivial:.0e}"
        informed = "no drift" if result.informed is None else f"{result.informed:.3g}"
        rows = [
            ["with all constants", result.reset.span, result.window.span, size],
            ["order with γ_p", result.order, result.order, "hides the worth of data"],
            ["order with γ_N", result.span, result.span, f"γ^¼·√(N/3P) = {informed}"],
        ]
    tuned = f"γ^¼·√N = {result.tuned:.3g}"
    rows.append(["without P_N", result.tuned_span, result.tuned_span, tuned])
    print_table(["reading of the bound", "H", "w", ""], rows)
    print(f"\nRecommended: H = w = {result.span}.")


def _sweeps(directory: Path) -> Sequence[Sweep]:
    import driftrl
    from driftrl.analysis.names import sweeps_of

    table = driftrl.regret(driftrl.load(directory))
    rows = {row["method"]: row for row in table.iter_rows(named=True)}
    sweeps = [
        (
            method,
            [*points],
            [rows[name]["regret"] for name in points.values()],
            [rows[name]["standard_error"] or 0.0 for name in points.values()],
        )
        for (method, setting), points in sweeps_of(rows).items()
        if setting in ("H", "w")
    ]
    require(bool(sweeps), f"{directory} has no variants named H=… or w=….")
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
    result = recommend_window(episodes)
    if arguments.json:
        print_json({"run": run.label, **asdict(result), "as_good": result.as_good})
        return
    print(f"{run.label}: {result.tested} of the newest {len(episodes)} episodes.\n")
    print_table(
        ["episodes of data", "error", "worse than the best", "± 2σ covers", ""],
        [
            [
                f"{score.span} (all)" if score is result.scores[-1] else score.span,
                f"{score.error:.4f}",
                f"{score.worse:.4f} ± {score.standard_error:.4f}",
                f"{score.coverage:.0%}",
                "← recommended" if score.span == result.span else "",
            ]
            for score in result.scores
        ],
    )
    choice = "keep all data" if result.keep_all else f"w = {result.span} episodes"
    print(f"\nRecommended: {choice}.")


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
    single = (arguments.directory / CONFIG_FILE).is_file()
    audits, documents, reasons = [], [], []
    for run in load_runs(arguments.directory):
        try:
            result = audit(run.records, observation_size(run))
        except InputError as error:
            if single:
                raise
            reasons.append(f"{run.label}: {error}")
            documents.append({"run": run.label, "reason": str(error)})
        else:
            audits.append((run.label, result))
            documents.append({"run": run.label, **result.document()})
    if arguments.json:
        print_json(documents[0] if single else documents)
        return
    columns = ["run", "± 2σ covers", "broken", "lowest", "σ", "error/σ"]
    rows = [[label, *_cells(result)] for label, result in audits]
    print_table([*columns, "stale / fresh"], rows)
    if single:
        print("", *audits[0][1].summary(), sep="\n")
    for reason in reasons:
        print(reason)


def _cells(result: Audit) -> list[str]:
    worst = result.predicted.sort("coverage", maintain_order=True).row(0, named=True)
    stale = result.staleness
    return [
        f"{result.coverage:.0%} ({result.low:.0%} to {result.high:.0%})",
        f"{result.broken} of {len(result.predicted)}",
        f"{worst['coverage']:.0%} at {worst['episode']}",
        f"{result.sigma:.3g}",
        "∞" if result.ratio is None else f"{result.ratio:.1f}",
        f"{stale.stale_coverage:.0%} / {stale.fresh_coverage:.0%}" if stale else "–",
    ]


SUBCOMMANDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "choose": (_choose, "H and w from the regret bound, with its trade-off drawn"),
    "recommend": (_recommend, "w from a run's own data, with the evidence"),
    "audit": (_audit, "whether the uncertainty of a run was calibrated"),
}

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
    choose_window,
    plot_tradeoff,
)


def main(argv: list[str]) -> int:
    """Run one of the subcommands."""
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help", "help"):
        print("usage: driftrl theory SUBCOMMAND [--help]\n")
        for name, (_, _, summary) in SUBCOMMANDS.items():
            print(f"  {name:<10} {summary}")
        return 0
    if name not in SUBCOMMANDS:
        raise unknown_name("subcommand of driftrl theory", name, SUBCOMMANDS)
    kind, show, summary = SUBCOMMANDS[name]
    show(parse(kind, argv[1:], f"theory {name}", summary))
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


def _choose(arguments: ChooseArguments) -> None:
    out, data, thetas = arguments.out, [], None
    require(out is not None or not arguments.sweep, "--sweep needs a figure (--out).")
    require(not out or out.suffix == ".png", f"--out must end in .png, received {out}.")
    if arguments.run is not None:
        run = load_single_run(arguments.run)
        data, thetas = load_episodes(run), np.array([one.theta for one in run.records])
    result = choose_window(arguments, data, thetas)
    if out is not None:
        sweeps = _sweeps(arguments.sweep) if arguments.sweep else ()
        out.parent.mkdir(parents=True, exist_ok=True)
        plot_tradeoff(result, sweeps).savefig(out, dpi=200)
    if arguments.json:
        print_json(result.document())
        return
    setting = result.setting
    variation = "unknown" if result.variation is None else f"{result.variation:.3g}"
    source = "estimated from the run" if result.estimated else "given"
    print(
        f"N = {result.episodes}, T = {setting.steps}, P_N = {variation}, "
        f"γ_N = {result.gain:.3g}, B = {setting.rkhs_bound:.3g}, "
        f"σ = {setting.noise_std:.2g} ({source})\n"
    )
    rows: list[list[Any]] = []
    if result.terms:
        rows = [
            ["with all constants", result.reset, result.window],
            ["order with γ_p", result.order, result.order],
            ["order with γ_N: γ^¼·√(N/3P)", result.span, result.span],
        ]
    rows += [["without P_N: γ^¼·√N", result.tuned_span, result.tuned_span]]
    print_table(["reading of the bound", "H", "w"], rows)
    print(f"\nRecommended: H = w = {result.span}.")
    if out is not None:
        print(f"Figure: {out}")


def _sweeps(directory: Path) -> Sequence[Sweep]:
    import driftrl
    from driftrl.analysis.names import sweeps_of

    table = driftrl.regret(driftrl.load(directory))
    rows = {row["method"]: row for row in table.iter_rows(named=True)}
    sweeps = []
    for (method, setting), points in sweeps_of(rows).items():
        at = [rows[name] for name in points.values()]
        errors = [row["standard_error"] or 0.0 for row in at]
        if setting in ("H", "w"):
            sweeps.append((method, [*points], [row["regret"] for row in at], errors))
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


def _recommend(arguments: RecommendArguments) -> None:
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


def _audit(arguments: AuditArguments) -> None:
    single = (arguments.directory / CONFIG_FILE).is_file()
    rows, documents, sentences = [], [], []
    for run in load_runs(arguments.directory):
        try:
            result = audit(run.records, observation_size(run))
        except InputError as error:
            if single:
                raise
            sentences.append(f"{run.label}: {error}")
            documents.append({"run": run.label, "reason": str(error)})
        else:
            sentences += ["", *result.summary()] if single else []
            rows.append([run.label, *_cells(result)])
            documents.append({"run": run.label, **result.document()})
    if arguments.json:
        print_json(documents[0] if single else documents)
        return
    columns = ("run", "± 2σ covers", "broken", "σ", "error/σ", "stale / fresh")
    print_table(columns, rows)
    for sentence in sentences:
        print(sentence)


def _cells(result: Audit) -> list[str]:
    stale = result.staleness
    return [
        f"{result.coverage:.0%} ({result.low:.0%} to {result.high:.0%})",
        f"{result.broken} of {len(result.predicted)}",
        f"{result.sigma:.3g}",
        "∞" if result.ratio is None else f"{result.ratio:.1f}",
        f"{stale.stale_coverage:.0%} / {stale.fresh_coverage:.0%}" if stale else "–",
    ]


SUBCOMMANDS: dict[str, tuple[type, Callable[[Any], None], str]] = {
    "choose": (ChooseArguments, _choose, "H and w from the paper's regret bound"),
    "recommend": (RecommendArguments, _recommend, "w that would have predicted best"),
    "audit": (AuditArguments, _audit, "whether a run's uncertainty was calibrated"),
}

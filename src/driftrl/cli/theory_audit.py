"""``driftrl theory audit``: was the uncertainty of a run calibrated?"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.run_data import observations_of
from driftrl.errors import InputError
from driftrl.records import CONFIG_FILE, Run, load_runs
from driftrl.results.audit import Audit, JudgedEpisode, audit
from driftrl.results.audit_wording import explain

_BLOCKS = 12


@dataclass(frozen=True)
class Arguments:
    """Which records."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a run, or of a study: then one line a run."""
    json: bool = False
    """Print one JSON document instead, with every episode."""


def main(argv: list[str]) -> int:
    """Print the audit of a run, or a line for each run of a study."""
    summary = (
        "Say whether the uncertainty of a run was calibrated on each newest episode "
        "before it was learned, where it broke, and whether stale data did it."
    )
    arguments = parse(Arguments, argv, "theory audit", summary)
    runs = load_runs(arguments.directory)
    if (arguments.directory / CONFIG_FILE).is_file():
        found = _audited(runs[0])
        if arguments.json:
            print_json(_document(runs[0], found))
        else:
            _print_one(runs[0], found)
        return 0
    results = [(run, _audit_or_reason(run)) for run in runs]
    if arguments.json:
        print_json([_document(run, found) for run, found in results])
    else:
        _print_all(results)
    return 0


def _audited(run: Run) -> Audit:
    return audit(run.records, observations_of(run))


def _audit_or_reason(run: Run) -> Audit | str:
    try:
        return _audited(run)
    except InputError as error:
        return str(error)


def _print_one(run: Run, found: Audit) -> None:
    print(f"{run.label}\n")
    print_table(
        ["episodes", "± 2σ covers", "least", "error", "σ", "error/σ", "memory", "θ"],
        [_block(block) for block in _blocks(found.judged)],
    )
    print("\nError and σ in units of the spread of the changes; memory in episodes.\n")
    print("\n".join(explain(found)))


def _blocks(judged: tuple[JudgedEpisode, ...]) -> list[tuple[JudgedEpisode, ...]]:
    size = max(1, math.ceil(len(judged) / _BLOCKS))
    return [judged[first : first + size] for first in range(0, len(judged), size)]


def _block(block: tuple[JudgedEpisode, ...]) -> list[str]:
    first, last = block[0], block[-1]
    error, sigma = fmean(one.error for one in block), fmean(one.sigma for one in block)
    return [
        _range(first.episode, last.episode),
        f"{fmean(one.coverage for one in block):.0%}",
        f"{min(one.coverage for one in block):.0%}",
        f"{error:.3g}",
        f"{sigma:.3g}",
        f"{error / sigma:.1f}" if sigma > 0 else "–",
        _range(min(b.span for b in block), max(b.span for b in block)),
        f"{first.theta:.3g} … {last.theta:.3g}" if math.isfinite(last.theta) else "–",
    ]


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _print_all(results: list[tuple[Run, Audit | str]]) -> None:
    rows, reasons = [], []
    for run, found in results:
        if isinstance(found, str):
            reasons.append(f"{run.label}: {found}")
            continue
        worst = min(found.judged, key=lambda one: one.coverage)
        stale = found.staleness
        rows.append(
            [
                run.label,
                f"{found.coverage:.0%} ({found.low:.0%} to {found.high:.0%})",
                f"{found.broken} of {len(found.judged)}",
                f"{worst.coverage:.0%} at {worst.episode}",
                f"{found.sharpness:.3g}",
                f"{found.ratio:.1f}",
                "–"
                if stale is None
                else f"{stale.stale_coverage:.0%} / {stale.fresh_coverage:.0%}",
            ]
        )
    if rows:
        print_table(
            ["run", "± 2σ covers", "broken", "least", "σ", "error/σ", "stale / fresh"],
            rows,
        )
        print(
            "\n95 % if calibrated; broken: at least four times the promised misses; "
            "σ and error/σ are medians;\nstale / fresh: coverage with and without a "
            "θ in memory that is far from the episode's own."
        )
    for reason in reasons:
        print(reason)


def _document(run: Run, found: Audit | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"run": run.label, "reason": found}
    table = asdict(found)
    for row, one in zip(table["judged"], found.judged, strict=True):
        row |= {"ratio": one.ratio, "broken": one.broken}
    return {"run": run.label, **_finite(table), "sentences": explain(found)}


def _finite(value: Any) -> Any:
    """Return a document in which null stands for what JSON can't say."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

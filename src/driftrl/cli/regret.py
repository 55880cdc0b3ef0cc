"""``driftrl regret``: the cumulative dynamic regret of recorded runs."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from driftrl.cli.options import print_json, print_table, warn
from driftrl.cli.progress import number, oracle_progress


def main(
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional],
    *,
    oracle: str | None = None,
    json: bool = False,
) -> None:
    """Print the cumulative dynamic regret of recorded runs, method by method.

    Args:
        directories: Directory of a study or of a single run, or several.
        oracle: J*(θ) as module:function, or CSV file with columns theta and value;
            "stored" computes nothing and takes the best return of a run instead.
        json: Print one JSON document instead of tables.
    """
    from driftrl.analysis.load import read_results
    from driftrl.analysis.regret import oracle_warnings, regret

    results = read_results(directories, oracle=oracle, progress=oracle_progress())
    table = regret(results.frame)
    parts = table.partition_by("problem", as_dict=True, maintain_order=True)
    known = {str(problem): rows.to_dicts() for (problem,), rows in parts.items()}
    notes = [
        *results.notes,
        *(
            f"No regret for {problem}: {reason}"
            for problem, reason in results.oracles.items()
            if problem not in known
        ),
        *oracle_warnings(results.frame),
    ]
    for note in notes:
        warn(note)
    if json:
        about = {"oracles": dict(results.oracles), "not_started": results.not_started}
        print_json({"regret": table.to_dicts(), **about, "notes": notes})
        return
    for problem, rows in known.items():
        print(f"{problem}: R_N after N = {rows[0]['episodes']} episodes")
        print(f"{results.oracles[problem]}\n")
        columns = ["method", "seeds", "R_N", "standard error", "95 % bootstrap"]
        columns += [f"minus {rows[0]['baseline']}", "95 % t, paired"]
        print_table([*columns, "short of J*", "minutes"], [_cells(row) for row in rows])
        print()


def _cells(row: dict[str, Any]) -> list[Any]:
    return [
        row["method"],
        row["seeds"],
        number(row["regret"], ".0f"),
        number(row["standard_error"], ".0f"),
        _interval(row, "bootstrap_"),
        number(row["difference"], ".0f"),
        _interval(row, "difference_"),
        number(row["gap"], ".1%"),
        number(row["minutes"], ".1f"),
    ]


def _interval(row: dict[str, Any], prefix: str) -> str:
    low, high = row[f"{prefix}low"], row[f"{prefix}high"]
    return "–" if low is None else f"[{low:.0f}, {high:.0f}]"

"""``driftrl health``: whether the controller of a run still works."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.cli.progress import number


def main(
    directory: Annotated[Path, tyro.conf.Positional], *, json: bool = False
) -> int:
    """Say whether the controller of a run still works; exit status 1 if it does not.

    Args:
        directory: Directory of the run.
        json: Print one JSON document instead of text.
    """
    from driftrl.records import load_run
    from driftrl.training.health import NEWEST, health
    from driftrl.training.run_directory import read_config

    read_config(directory)  # refuses what is no run
    found = health(load_run(directory).records)
    if json:
        print_json(dataclasses.asdict(found))
        return 0 if found.works else 1
    print(" ".join([f"{found.verdict.capitalize()}.", *found.reasons]))
    returns = (found.newest_return, found.past_return)
    if found.p_value is not None:
        rows = [
            ("return", *(number(value, ".4g") for value in returns)),
            ("p of no drop", number(found.p_value, ".2g"), ""),
            ("coverage, nominal 0.95", number(found.coverage, ".2f"), ""),
            ("model error, by its usual one", number(found.error_ratio, ".2f"), ""),
            ("episodes since the last change", found.since_change or "–", ""),
        ]
        print_table(["", f"last {NEWEST} episodes", "before"], rows)
    return 0 if found.works else 1

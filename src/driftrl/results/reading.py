"""Reading a directory of results in which something may be missing or damaged.

A run that cannot be read is left out, and so that nobody takes the rest for the whole,
it is named with the reason wherever the results are shown.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftrl.errors import DriftrlError, InputError, counted
from driftrl.records import (
    CONFIG_FILE,
    RECORDS_FILE,
    Run,
    has_torn_row,
    in_order,
    load_run,
    run_directories,
)
from driftrl.results.origin import STUDY_FILE, UNSAID, versions_of

_MOST_NAMED = 6  # a sentence with more names than this is not read


@dataclass(frozen=True)
class Reading:
    """The runs of a directory that could be read, and what has to be said of them."""

    runs: tuple[Run, ...]
    """At least one, sorted by task, method and seed."""
    notes: tuple[str, ...]
    """A sentence for each run that was left out, and for what else is not as usual."""


def read_runs(directory: str | Path) -> Reading:
    """Read the run in a directory, or every run of the study in it that can be read.

    Raises:
        InputError: there is no run there, or none that can be read.
        CorruptFile: the directory is that of one run, which is damaged.
    """
    directory = Path(directory)
    places = run_directories(directory)
    if places == [directory]:
        run = load_run(directory)
        return Reading((run,), tuple(_torn_notes([run])))
    recorded = {path.parent.name for path in directory.glob(f"*/{RECORDS_FILE}")}
    begun = {place.name for place in places}
    runs, reasons = [], dict.fromkeys(recorded - begun, f"no {CONFIG_FILE}")
    for place in places:
        try:
            runs.append(load_run(place))
        except DriftrlError as error:
            reasons[place.name] = str(error).rstrip(".")
    left_out = [f"Left out: {name}: {reasons[name]}." for name in sorted(reasons)]
    if not runs:
        raise InputError(f"No run in {directory} can be read. {' '.join(left_out)}")
    known = recorded | begun
    missing = [name for name in planned_names(directory) if name not in known]
    notes = [*left_out, *_missing_notes(missing), *_torn_notes(runs)]
    return Reading(tuple(in_order(runs)), tuple(notes))


def planned_names(directory: Path) -> list[str]:
    """Return the names of the runs that the study in a directory has, if it says so."""
    try:
        table = tomllib.loads((directory / STUDY_FILE).read_bytes().decode())
        return [
            _name(table, variant, method, seed)
            for seed in table.get("seeds", [])
            for variant in table.get("variants") or [{}]
            for method in variant.get("methods") or table.get("methods", [])
        ]
    except (OSError, ValueError, TypeError, AttributeError):
        return []  # no study, or none that could have been run


def _name(
    table: Mapping[str, Any], variant: Mapping[str, Any], method: str, seed: int
) -> str:
    """Return the name that ``RunConfig`` gives to the directory of a run."""
    task = str(variant.get("task") or table.get("task", "")).replace(":", ".")
    named = f"-{variant['name']}" if variant.get("name") else ""
    return f"{task}-{method}{named}-s{seed}"


def _missing_notes(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    count = counted(len(names), "run")
    return [
        f"Nothing is recorded of {count} that {STUDY_FILE} names: {_listing(names)}."
    ]


def _torn_notes(runs: Sequence[Run]) -> list[str]:
    return [
        f"The last row of {run.directory.resolve().name} is torn and was not read."
        for run in runs
        if has_torn_row(run.directory / RECORDS_FILE)
    ]


def version_notes(runs: Sequence[Run], installed: str) -> list[str]:
    """Say which runs were made by another driftrl than the one that reads them.

    Args:
        runs: All runs.
        installed: The version that reads them.
    """
    found = versions_of(runs).get("driftrl", {})
    others = [one for one in found if one not in (installed, UNSAID)]
    if not others:
        return []
    parts = [f"{version} ({_who(runs, version, found)})" for version in others]
    rest = (
        " The others were made by this one or do not say; numbers of different "
        "versions may not be comparable."
        if sum(found[one] for one in others) < len(runs)
        else ""
    )
    return [
        f"This is driftrl {installed}; runs were made by driftrl "
        f"{_listing(parts)}.{rest}"
    ]


def _who(runs: Sequence[Run], version: str, found: Mapping[str, int]) -> str:
    """Say which runs a version made, by name if they are few."""
    own = [
        run.directory.resolve().name
        for run in runs
        if run.config.get("versions", {}).get("driftrl") == version
    ]
    if found[version] == len(runs):
        return "all of them" if len(runs) > 1 else own[0]
    return _listing(own) if len(own) <= _MOST_NAMED else counted(len(own), "run")


def _listing(names: Sequence[str]) -> str:
    shown = list(names[:_MOST_NAMED])
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")

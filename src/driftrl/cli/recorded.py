"""Recorded runs, and all that has to be said of them before they are compared."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import driftrl
from driftrl.cli.progress import oracle_progress
from driftrl.config.run import EnvironmentConfig, RunConfig
from driftrl.config.toml import from_dict
from driftrl.drift.schedules import SCHEDULES, Schedule
from driftrl.errors import InputError, counted
from driftrl.memory.forgetting import FORGETTING, ForgettingRule

if TYPE_CHECKING:
    from driftrl.oracles.values import OracleTable
    from driftrl.records import Run
    from driftrl.results.comparison import Comparison
    from driftrl.results.reading import Reading


def recorded_runs(directory: Path) -> "Reading":
    """Read the runs of a directory, warn of what is not as usual, and note it.

    Args:
        directory: Directory of a study or of a single run.
    """
    from driftrl.results.reading import read_runs, version_notes

    found = read_runs(directory)
    notes = (
        *found.notes,
        *version_notes(found.runs, driftrl.__version__),
        *_setting_notes(found.runs),
    )
    for note in notes:
        print(f"driftrl: warning: {note}", file=sys.stderr)
    return replace(found, notes=notes)


def _setting_notes(runs: "Sequence[Run]") -> list[str]:
    """Say which settings of runs this version does not know."""
    from driftrl.records import BESIDE_SETTINGS

    unknown: dict[str, list[str]] = {}
    for run in runs:
        settings = {k: v for k, v in run.config.items() if k not in BESIDE_SETTINGS}
        for key in unknown_settings(RunConfig, settings):
            unknown.setdefault(key, []).append(run.directory.resolve().name)
    return [
        f"driftrl {driftrl.__version__} does not know the setting {key!r} in the "
        f"config.toml of {names[0] if len(names) == 1 else counted(len(names), 'run')}:"
        " what it changes is not taken into account here."
        for key, names in unknown.items()
    ]


def unknown_settings(cls: type, table: Mapping[str, Any], place: str = "") -> list[str]:
    """Return the dotted keys of a table that a configuration has no place for.

    Args:
        cls: A dataclass of the configuration.
        table: What was written of it.
        place: Where in the whole configuration that is.
    """
    hints = get_type_hints(cls)
    found = []
    for key, value in table.items():
        where = f"{place}{key}"
        if key not in hints and not (key == "kind" and hasattr(cls, "kind")):
            found.append(where)
        elif isinstance(value, Mapping):
            known = {ForgettingRule: FORGETTING, Schedule: SCHEDULES}.get(
                hints[key], {}
            )
            options = (*known.values(), *get_args(hints[key])) or (hints[key],)
            tables: list[Any] = [option for option in options if is_dataclass(option)]
            kind = value.get("kind")
            if ":" in str(kind):  # a user's class
                continue
            fitting = [cls for cls in tables if getattr(cls, "kind", None) == kind]
            if fitting:
                found += unknown_settings(fitting[0], value, f"{where}.")
            elif tables:
                found.append(f"{where}.kind = {kind}")
    return found


def announce_trainings(runs: "Sequence[Run]", directory: Path) -> None:
    """Say how often SAC has to be trained for J* at the θ of runs, if it has to be.

    Args:
        runs: Runs of one problem.
        directory: Where they lie, for the command that does without.
    """
    from driftrl.oracles import trainings_missing

    environment = from_dict(EnvironmentConfig, runs[0].config.get("environment", {}))
    thetas = {record.theta for run in runs for record in run.records}
    count = trainings_missing(runs[0].task, thetas, environment)
    if count:
        print(
            f"driftrl: for J*(θ) of {runs[0].task}, SAC is trained "
            f"{counted(count, 'time')} now, some minutes each; what is finished is "
            f"kept for later. `driftrl report {directory} --returns` shows returns "
            "without it.",
            file=sys.stderr,
            flush=True,
        )


def unknown_environment(runs: "Sequence[Run]") -> str:
    """Say of which run the environment can't be made here, if there is one."""
    for run in runs:
        try:
            from_dict(EnvironmentConfig, run.config.get("environment", {}))
        except InputError as error:
            name = run.directory.resolve().name
            return f"J* is not known for the environment of {name}: {error}"
    return ""


def compare(directory: Path, *, returns_only: bool = False) -> "Comparison":
    """Compare the recorded runs of a directory, with the oracle where there is one.

    Nobody's own machine is made for that: its records are enough.

    Args:
        directory: Directory of a study or of a single run.
        returns_only: Ask no oracle, for one that must be trained takes its time.
    """
    from driftrl.oracles.values import OracleTable
    from driftrl.results.comparison import compare_problems

    found = recorded_runs(directory)

    def oracle(runs: "Sequence[Run]") -> "OracleTable":
        reason = "" if not returns_only else "J* was not asked for."
        reason = _without_oracle(runs) or reason
        if reason:
            return OracleTable((), reason)
        from driftrl.oracles import optimal_returns_of_runs

        announce_trainings(runs, directory)
        with oracle_progress() as tell:
            return optimal_returns_of_runs(runs, others=found.runs, progress=tell)

    return compare_problems(found.runs, oracle, found.notes)


def _without_oracle(runs: "Sequence[Run]") -> str:
    """Return why there can't be an oracle for runs, or nothing if there can."""
    from driftrl.envs.custom import is_custom
    from driftrl.oracles.values import NO_ORACLE

    thetas = [record.theta for run in runs for record in run.records]
    # A robot need not tell θ, even if it is the twin of a task of ours.
    if is_custom(runs[0].task) or not all(map(math.isfinite, thetas)):
        return NO_ORACLE.provenance
    if any(run.config.get("extra_drifts") for run in runs):
        return "There is no oracle where more than one parameter drifts."
    return unknown_environment(runs)

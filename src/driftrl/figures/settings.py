"""How the runs were set up: what differs, what is shared, how to make them again."""

from collections.abc import Sequence
from html import escape

import driftrl
from driftrl.errors import counted
from driftrl.figures.markup import code, escaped, folded, table
from driftrl.figures.part import Part
from driftrl.figures.style import method_name
from driftrl.figures.wording import UNKNOWN, number
from driftrl.records import Run
from driftrl.results.curves import minutes_a_run
from driftrl.results.origin import Source, run_command, study_command, versions_of
from driftrl.results.problems import flattened


def run_section(part: Part) -> str:
    """Return in which settings methods differ, which they share, and each run."""
    everyone = [*part.study.runs, *part.study.not_started]
    different, common = _compared_settings(everyone)
    names = [escape(method_name(one)) for one in _methods(everyone)]
    parts = [part.heading("Runs")]
    if different:
        parts.append("<p>The configurations of the methods differ in this alone:</p>")
        parts.append(table(["Setting", *names], escaped(different), code=True))
    shared = table(["Setting", "Value"], escaped(common), code=True)
    each = f"Each of {counted(len(everyone), 'run')}"
    return "".join(
        [
            *parts,
            folded("What all runs share", shared, is_long=True),
            folded(each, _run_table(part), is_long=True),
        ]
    )


def _methods(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.method for run in runs))


def _compared_settings(
    runs: Sequence[Run],
) -> tuple[list[list[str]], list[list[str]]]:
    """Return settings with a value for each method, and those with one for all."""
    tables = {
        method: [flattened(_settings(run)) for run in runs if run.method == method]
        for method in _methods(runs)
    }
    keys = dict.fromkeys(
        key for configs in tables.values() for config in configs for key in config
    )
    different, common = [], []
    for key in keys:
        cells = [
            _shared_value([config.get(key) for config in configs])
            for configs in tables.values()
        ]
        if len(set(cells)) > 1:
            different.append([key, *cells])
        else:
            common.append([key, cells[0]])
    return different, common


def _settings(run: Run) -> dict:
    # Versions have a table of their own.
    beside = ("method", "seed", "versions")
    return {key: value for key, value in run.config.items() if key not in beside}


def _shared_value(values: Sequence[str | None]) -> str:
    known = set(values)
    if len(known) > 1:
        return "differs between seeds"
    return next(iter(known)) or UNKNOWN


def _run_table(part: Part) -> str:
    study = part.study
    finals = {
        (one.method, seed): value
        for one in study.methods
        for seed, value in zip(
            one.seeds, part.scores.finals[one.method].values, strict=True
        )
    }
    rows = [
        [
            escape(run.label),
            f"{len(run.records)} of {run.planned_episodes}",
            number(finals.get((run.method, run.seed), float("nan"))),
            number(minutes_a_run([run])),
        ]
        for run in [*study.runs, *study.not_started]
    ]
    score = f"R<sub>{study.episodes}</sub>" if study.table.known else "Mean return"
    return table(["Run", "Episodes", score, "Minutes"], rows)


def origin_section(runs: Sequence[Run], sources: Sequence[Source], command: str) -> str:
    """Return the commands and versions that made the runs, and this page.

    Args:
        runs: All runs of the page.
        sources: The directories they lie in.
        command: What wrote the page; nothing is said of it if it is empty.
    """
    parts = ["<h2>Made with</h2>"]
    for source in sources:
        if source.text:
            parts.append(f"<p>The runs of {escape(source.name)} are made by</p>")
            parts.append(code(study_command(source, source.runs_among(runs))))
            parts.append(folded("where study.toml is", code(source.text)))
    parts.append(
        "<p>The file of a run holds all of its settings; it makes the run again, "
        "the first one for instance by</p>"
    )
    parts.append(code(run_command(runs[0])))
    if command:
        parts.append(f"<p>driftrl {driftrl.__version__} made this page by</p>")
        parts.append(code(command))
    versions = versions_of(runs)
    if versions:
        rows = [
            [name, ", ".join(_version_words(found))] for name, found in versions.items()
        ]
        parts.append("<p>The runs were made with these versions:</p>")
        parts.append(table(["Library", "Version"], escaped(rows), code=True))
    return "".join(parts)


def _version_words(found: dict[str, int]) -> list[str]:
    if len(found) == 1:
        return list(found)
    return [f"{version} ({counted(count, 'run')})" for version, count in found.items()]

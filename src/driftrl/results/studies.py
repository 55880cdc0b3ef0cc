"""Several studies on one page: what they have in common is compared.

Problems that two studies share become one problem, in which each method is named with
its study; every other problem stays what it is, under its study's name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from driftrl.oracles.values import OracleTable
from driftrl.records import Run
from driftrl.results.comparison import Comparison
from driftrl.results.problems import problems_of
from driftrl.results.regret import StudyRegret, compare_methods, usual_baseline


def merge_studies(studies: Mapping[str, Comparison]) -> Comparison:
    """Return one comparison of several studies, by name; a single one as it is.

    On a problem that several studies share, the baseline is that of the first of them.
    """
    if len(studies) == 1:
        return next(iter(studies.values()))
    groups: list[list[tuple[str, StudyRegret]]] = []
    for name, comparison in studies.items():
        for study in comparison.studies:
            group = next((one for one in groups if _is_same(one[0][1], study)), None)
            if group is None:
                groups.append([(name, study)])
            else:
                group.append((name, study))
    waiting = [
        _label([name], label)
        for name, comparison in studies.items()
        for label in comparison.waiting
    ]
    is_one = len(groups) + len(waiting) == 1
    merged = [_merged(group, is_one=is_one) for group in groups]
    notes = [
        f"{name}: {note}"
        for name, comparison in studies.items()
        for note in comparison.notes
    ]
    return Comparison(tuple(merged), tuple(waiting), tuple(notes))


def _is_same(first: StudyRegret, second: StudyRegret) -> bool:
    return len(problems_of([first.runs[0], second.runs[0]])) == 1


def _merged(group: Sequence[tuple[str, StudyRegret]], *, is_one: bool) -> StudyRegret:
    names = [name for name, _ in group]
    labels = {study.problem for _, study in group}
    label = "" if is_one else _label(names, labels.pop() if len(labels) == 1 else "")
    if len(group) == 1:
        return replace(group[0][1], problem=label)
    runs = [
        _of_study(run, name)
        for name, study in group
        for run in (*study.runs, *study.not_started)
    ]
    name, first = group[0]
    baseline = usual_baseline(one.method for one in first.methods)
    table = _joined([study.table for _, study in group])
    return compare_methods(runs, table, f"{baseline} {name}", label)


def _label(names: Sequence[str], problem: str) -> str:
    studies = " and ".join(dict.fromkeys(names))
    return f"{studies}, {problem}" if problem else studies


def _of_study(run: Run, study: str) -> Run:
    """Return a run whose method is named with its study."""
    kept = "" if run.variant_is_problem else run.variant
    config = {**run.config, "variant": f"{study}, {kept}" if kept else study}
    return replace(run, config=config, variant_is_problem=False)


def _joined(tables: Sequence[OracleTable]) -> OracleTable:
    """Return the J*(θ) of all; none is known where one of them is not."""
    unknown = [table for table in tables if not table.known]
    if unknown:
        return unknown[0]
    entries = {entry.theta: entry for table in tables for entry in table.entries}
    return replace(tables[0], entries=tuple(entries.values()))

"""The problems of a study: runs whose regret may be compared with each other.

Two runs have the same problem if their task, environment and drift are the same.
Anything else that differs between them is a matter of method.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driftrl.records import Run
from driftrl.results.variants import natural_key

_SECTIONS = ("task", "environment", "drift", "extra_drifts", "clock")


@dataclass(frozen=True)
class Problem:
    """Runs that face the same system and the same drift."""

    label: str
    """What tells the problem from the study's others; empty if it has no other."""
    runs: tuple[Run, ...]


def problems_of(runs: Iterable[Run]) -> list[Problem]:
    """Return the runs of each problem, problems in the natural order of their labels.

    Where each problem of a task has a variant of its own, the variant's name is the
    label, after the task's if there are several.  Otherwise the label says in which
    settings the problems differ.  A variant that all runs of a problem share, and no
    other problem has, says nothing about methods and is no part of their names.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        system = {section: run.config.get(section) for section in _SECTIONS}
        groups.setdefault(json.dumps(system, sort_keys=True, default=str), []).append(
            run
        )
    found = list(groups.values())
    if len(found) < 2:
        return [Problem("", tuple(group)) for group in found]
    own = [_own_variant(group, found) for group in found]
    labels = _names(found, own) or _descriptions([group[0].config for group in found])
    problems = [
        Problem(label, _renamed(group, variant is not None))
        for label, group, variant in zip(labels, found, own, strict=True)
    ]
    return sorted(problems, key=lambda problem: natural_key(problem.label))


def _own_variant(group: Sequence[Run], groups: Sequence[Sequence[Run]]) -> str | None:
    """Return the variant that all runs of this group have and none else of its task."""
    variants = {run.variant for run in group}
    others = {
        run.variant
        for other in groups
        if other is not group
        for run in other
        if run.task == group[0].task
    }
    return variants.pop() if len(variants) == 1 and not variants & others else None


def _names(groups: Sequence[Sequence[Run]], own: Sequence[str | None]) -> list[str]:
    """Return the names of tasks and variants that tell the groups apart, if they do."""
    if None in own:
        return []
    tasks = [group[0].task for group in groups]
    several = len(set(tasks)) > 1
    names = [
        f"{task} {variant}".strip() if several else variant or ""
        for task, variant in zip(tasks, own, strict=True)
    ]
    return names if all(names) else []


def _renamed(runs: Sequence[Run], variant_is_problem: bool) -> tuple[Run, ...]:
    return tuple(replace(run, variant_is_problem=variant_is_problem) for run in runs)


def _descriptions(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say of each configuration what differs between any two of them."""
    flat = [
        {
            key: value
            for section in _SECTIONS
            for key, value in flattened({section: config.get(section, {})}).items()
        }
        for config in configs
    ]
    keys = dict.fromkeys(key for values in flat for key in values)
    differ = [key for key in keys if len({values.get(key) for values in flat}) > 1]
    return [_description(values, differ) for values in flat]


def _description(values: Mapping[str, str], keys: Sequence[str]) -> str:
    names = {key: key.rpartition(".")[2].replace("_", " ") for key in keys}
    said = [f"{names[key]} = {values[key]}" for key in keys if key in values]
    return ", ".join(said or [f"no {names[key]}" for key in keys])


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested tables as dotted keys with their values as text."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value if isinstance(value, str) else repr(value)
    return flat

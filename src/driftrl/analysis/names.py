"""Names of methods and their variants: their order, and what a sweep varies."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

BASELINE = "sombrl"
"""The method that others are compared with: it keeps all data."""
Sweeps = dict[tuple[str, str], dict[float, str]]
"""For each method and swept setting, the name of the variant at each value."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_RESET_RATES = ("alpha", "model", "policy")
_MOST_NAMED = 6  # names in one sentence
_LENGTH = "N"  # the length of a run is no setting of the method


class SweepPoint(NamedTuple):
    """A variant named ``setting=value``: one point of a sweep of a method."""

    method: str
    setting: str
    value: float


def sweep_point(name: str) -> SweepPoint | None:
    """Return the point that “method setting=value” names; None for other names."""
    method, _, variant = name.partition(" ")
    setting, _, value = variant.partition("=")
    try:
        return SweepPoint(method, setting, float(value)) if setting else None
    except ValueError:
        return None


def sweeps_of(methods: Iterable[str]) -> Sweeps:
    """Return the settings that variants named ``setting=value`` sweep, values sorted.

    With a rate of zero nothing is reset: the point ``alpha=0`` also begins the sweeps
    of the model's and of the policy's rate.
    """
    sweeps: Sweeps = {}
    for name in methods:
        point = sweep_point(name)
        if point and point.setting != _LENGTH:
            sweeps.setdefault((point.method, point.setting), {})[point.value] = name
    for (method, setting), points in sweeps.items():
        none_reset = sweeps.get((method, "alpha"), {}).get(0.0)
        if setting in _RESET_RATES and none_reset:
            points.setdefault(0.0, none_reset)
    return {key: dict(sorted(p.items())) for key, p in sweeps.items() if len(p) > 1}


def natural_key(name: str) -> tuple[str | float, ...]:
    """Return a key that sorts numbers in names by value: w=2 before w=10."""
    # Splitting at a group alternates text and number, so keys can be compared.
    parts = _NUMBER.split(name)
    return tuple(float(part) if index % 2 else part for index, part in enumerate(parts))


def default_baseline(methods: Iterable[str]) -> str:
    """Return ``BASELINE``, or the variant that sets what is swept to zero.

    The latter if ``BASELINE`` was not run and exactly one variant does.
    """
    points = {name: sweep_point(name) for name in methods}
    zeros = [name for name, point in points.items() if point and not point.value]
    return zeros[0] if BASELINE not in points and len(zeros) == 1 else BASELINE


def first_few(names: Sequence[str]) -> list[str]:
    """Return as many names as a sentence bears, and the number of the others."""
    rest = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]

"""Names of methods and of their variants."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

BASELINE = "sombrl"
"""The method that others are compared with: it keeps all data."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_MOST_NAMED = 6  # names in one sentence


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

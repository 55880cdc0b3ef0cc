"""Names of methods and their variants: what is swept in them, and their order."""

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")


@dataclass(frozen=True)
class SweepPoint:
    """A variant named ``setting=value``: one point of a sweep of a method."""

    method: str
    setting: str
    value: float


def sweep_point(name: str) -> SweepPoint | None:
    """Return what “method setting=value” says; None for any other name."""
    method, _, variant = name.partition(" ")
    setting, _, value = variant.partition("=")
    try:
        return SweepPoint(method, setting, float(value)) if setting else None
    except ValueError:
        return None  # not a variant, or one without a number


def natural_key(name: str) -> tuple[str | float, ...]:
    """Return a key by which names sort as people count: w=2 before w=10."""
    # Splitting at a group alternates text and number, so that keys can be compared.
    parts = _NUMBER.split(name)
    return tuple(float(part) if index % 2 else part for index, part in enumerate(parts))

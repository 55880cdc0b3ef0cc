"""Coverage of confidence bounds over many draws, as recorded by a calibration study.

A *draw* is one sequence of random functions, learned under every scheme.  A bound
covers a draw if it holds at all episodes, at all test points and for all outputs.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftrl.errors import CorruptFile, InputError, require
from driftrl.results.statistics import Interval, wilson_interval

SCHEMES = ("keep_all", "reset", "window")
BOUNDS = (
    "two_sigma",
    "stationary_printed",
    "stationary_corrected",
    "drift_printed",
    "drift_corrected",
    "drift_sharp",
)
"""What is compared, from the narrowest idea to the widest proof."""
SETTINGS_FILE, EXAMPLE_FILE, DRAWS = "settings.json", "example.json", "draws"


@dataclass(frozen=True)
class Verdict:
    """How one bound fared on one draw under one scheme."""

    draw: int
    drifting: bool
    """Whether the functions of this draw drift, or stay as the first."""
    scheme: str
    bound: str
    covered: bool
    """Whether the bound held everywhere."""
    share: float
    """Share of all episodes, points and outputs at which it held."""
    half_width: float
    """Mean of the bound: how wide the band is to either side."""
    first_failure: int | None
    """First episode at which it failed somewhere."""


@dataclass(frozen=True)
class Coverage:
    """How often a bound covered a draw, and how wide it was."""

    scheme: str
    bound: str
    drifting: bool
    draws: int
    covered: int
    share: float
    half_width: float

    @property
    def rate(self) -> float:
        """Return the share of covered draws."""
        return self.covered / self.draws

    @property
    def interval(self) -> Interval:
        """Return Wilson's 95 % interval of the rate."""
        return rate_interval(self.covered, self.draws)


def rate_interval(successes: int, trials: int) -> Interval:
    """Return Wilson's 95 % interval of a probability."""
    require(
        0 <= successes <= trials and trials >= 1,
        f"A share needs at least one trial and no more successes than trials, "
        f"received {successes} of {trials}.",
    )
    low, high = wilson_interval(successes / trials, trials)
    return Interval(np.asarray(low), np.asarray(high))


def coverage_table(verdicts: Iterable[Verdict]) -> list[Coverage]:
    """Return coverage for each scheme, bound and condition that occurs, in order."""
    groups: dict[tuple[bool, str, str], list[Verdict]] = {}
    for one in verdicts:
        groups.setdefault((one.drifting, one.scheme, one.bound), []).append(one)
    order = sorted(
        groups, key=lambda key: (not key[0], SCHEMES.index(key[1]), _place(key[2]))
    )
    return [
        Coverage(
            scheme=scheme,
            bound=bound,
            drifting=drifting,
            draws=len(group),
            covered=sum(one.covered for one in group),
            share=sum(one.share for one in group) / len(group),
            half_width=sum(one.half_width for one in group) / len(group),
        )
        for drifting, scheme, bound in order
        for group in [groups[drifting, scheme, bound]]
    ]


def _place(bound: str) -> int:
    return BOUNDS.index(bound)


@dataclass(frozen=True)
class CalibrationRecords:
    """Everything a calibration study left on disk."""

    settings: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]
    example: Mapping[str, Any] | None
    """One draw in one dimension, to look at; none if it is not there yet."""


def is_calibration(directory: Path) -> bool:
    """Whether a directory holds the records of a calibration study."""
    return (directory / SETTINGS_FILE).is_file() and (directory / DRAWS).is_dir()


def read_calibration(directory: Path) -> CalibrationRecords:
    """Read the records of a calibration study."""
    if not is_calibration(directory):
        raise InputError(f"There are no calibration records in {directory}.")
    rows = [
        Verdict(**row)
        for path in sorted((directory / DRAWS).glob("*.json"))
        for row in _read(path)
    ]
    require(bool(rows), f"No draw is finished in {directory} yet.")
    # A study that grew has the draws of its last, shorter file twice.
    once = {(one.draw, one.drifting, one.scheme, one.bound): one for one in rows}
    example = directory / EXAMPLE_FILE
    return CalibrationRecords(
        _read(directory / SETTINGS_FILE),
        tuple(once.values()),
        _read(example) if example.is_file() else None,
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise CorruptFile(
            f"{path} is not valid JSON; remove it and run the study again."
        ) from None


def coverage_lines(table: Sequence[Coverage]) -> list[list[str]]:
    """Return the table as text: condition, scheme, bound, coverage, interval, width."""
    return [
        [
            "drift" if one.drifting else "no drift",
            one.scheme,
            one.bound,
            f"{one.rate:.3f}",
            f"{float(one.interval.low):.3f} to {float(one.interval.high):.3f}",
            f"{one.share:.4f}",
            f"{one.half_width:.3g}",
        ]
        for one in table
    ]

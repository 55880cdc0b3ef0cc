"""Computes ``rliable_reference.json``, what rliable says about fixed scores.

rliable is no dependency, and does not work with pandas 3, so it has an environment of
its own::

    python -m venv /tmp/rliable
    /tmp/rliable/bin/pip install rliable==1.2.0 'pandas<3'
    /tmp/rliable/bin/python tests/analysis/rliable_reference.py

``test_compare.py`` compares driftrl's numbers with those in the file.
"""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_suffix(".json")
RESAMPLES = 5_000
BASELINE = "sombrl"
THRESHOLDS = [-0.5, 0.0, 0.25, 0.5, 0.75, 1.0]
SHAPES = {"five seeds": (5, 4), "seven seeds, ties": (7, 3)}
"""Number of runs and of problems of each case."""


def scores(case: str) -> dict[str, np.ndarray]:
    """Return made-up scores, runs × problems, of three methods."""
    runs, problems = SHAPES[case]
    generator = np.random.default_rng([runs, problems])
    hardness = generator.uniform(0.1, 0.8, problems)
    gains = {BASELINE: 0.0, "r-ombrl": 0.1, "sw-ombrl": 0.3}
    found = {
        name: hardness + gain + generator.normal(0, 0.2, (runs, problems))
        for name, gain in gains.items()
    }
    if "ties" in case:
        found = {name: values.round(1) for name, values in found.items()}
    return found


def reference(case: str) -> dict[str, Any]:
    """Return rliable's point estimates and intervals for one case."""
    library: Any = importlib.import_module("rliable.library")
    metrics: Any = importlib.import_module("rliable.metrics")

    def summary(values: np.ndarray) -> np.ndarray:
        return np.array(
            [
                metrics.aggregate_iqm(values),
                metrics.aggregate_mean(values),
                metrics.aggregate_median(values),
                metrics.aggregate_optimality_gap(values),
            ]
        )

    def improvement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.array([metrics.probability_of_improvement(first, second)])

    def estimates(data: dict[str, Any], function: Any) -> dict[str, Any]:
        state = np.random.RandomState(0)  # rliable takes no other
        points, intervals = library.get_interval_estimates(
            data, function, reps=RESAMPLES, random_state=state
        )
        return {
            name: {"value": points[name].tolist(), "interval": intervals[name].tolist()}
            for name in data
        }

    data = scores(case)
    pairs = {n: [v, data[BASELINE]] for n, v in data.items() if n != BASELINE}
    profiles, _ = library.create_performance_profile(data, THRESHOLDS, reps=10)
    return {
        "scores": {name: values.tolist() for name, values in data.items()},
        "iqm, mean, median, optimality gap": estimates(data, summary),
        "improvement": estimates(pairs, improvement),
        "profile": {name: values.tolist() for name, values in profiles.items()},
    }


def main() -> None:
    """Write the file beside this one."""
    document = {
        "made by": "tests/analysis/rliable_reference.py with rliable 1.2.0",
        "resamples": RESAMPLES,
        "thresholds": THRESHOLDS,
        "cases": {case: reference(case) for case in SHAPES},
    }
    part = PATH.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    os.replace(part, PATH)


if __name__ == "__main__":
    main()

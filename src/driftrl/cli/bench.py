"""``driftrl bench``: speed of this machine, and of the learner on it."""

import os
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from driftrl.cli.options import parse, print_json, print_table
from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
)


@dataclass(frozen=True)
class Arguments:
    """How to measure and print."""

    rounds: int = 7
    """Measurements of each; the median counts."""
    json: bool = False
    """Print one JSON document instead of a table."""


_UNIT = EnsembleAgentConfig(
    model=EnsembleConfig(members=5, hidden=(256, 256)),
    imagination=ImaginationConfig(horizon=2),
    optimism=DeepOptimismConfig(rule="constant", weight=1.0),
    sac=SACConfig(hidden=(256, 256), batch_size=256, critic="plain"),
    learning=LearningConfig(model_updates=1, policy_updates=5),
)
SETTINGS = {
    "256 × 256, plain critics": _UNIT,
    "256 × 256, residual critics": replace(
        _UNIT, sac=replace(_UNIT.sac, critic="residual")
    ),
    "64 × 64, residual critics, batch 128": replace(
        _UNIT,
        model=replace(_UNIT.model, hidden=(64, 64)),
        sac=replace(_UNIT.sac, hidden=(64, 64), batch_size=128, critic="residual"),
    ),
}


_RATES = ("share", "gflops", "product_gflops")


def main(argv: list[str]) -> int:
    """Measure and print."""
    summary = (
        "Time updates of the deep agent (1 of the model, rollouts of K = 2, 5 of the "
        "policy) and the matrix products they consist of."
    )
    arguments = parse(Arguments, argv, "bench", summary)
    from driftrl.training.speed import measure

    units: dict[str, dict[str, float]] = {}
    for name, config in SETTINGS.items():
        speed = measure(config, rounds=arguments.rounds)
        rates = {key: getattr(speed, key) for key in _RATES}
        units[name] = asdict(speed) | rates
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if arguments.json:
        print_json({"processor": processor(), "load": load, "units": units})
        return 0
    busy = "" if load is None else f", load {load:.1f}"
    print(f"{processor()}, {os.cpu_count()} cores, one thread{busy}")
    print("Unit: 1 model update, rollouts of K = 2, 5 policy updates; 3 states.\n")
    columns = ["networks", "ms a unit", "products ms", "GFLOP/s", "of products'"]
    keys = ("unit_ms", "products_ms", "gflops", "product_gflops")
    rows = [
        [name, *(f"{unit[key]:.1f}" for key in keys), f"{unit['share']:.0%}"]
        for name, unit in units.items()
    ]
    print_table([*columns, "share"], rows)
    return 0


def processor() -> str:
    """Return the model of the processor, if the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()

"""``driftrl bench``: speed of this machine, and of the learner on it."""

import os
import platform
from dataclasses import replace
from pathlib import Path

from driftrl.cli.options import print_json, print_table
from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
)

_PAPER = EnsembleAgentConfig(
    policy_gradient="critic",
    model=EnsembleConfig(),
    imagination=ImaginationConfig(),
    optimism=DeepOptimismConfig(),
    sac=SACConfig(critic="residual"),
    learning=LearningConfig(model_updates=1, policy_updates=5),
)
_SMALL = SACConfig(hidden=(64, 64), batch_size=128, critic="residual")
SETTINGS = {
    "128 × 128, gradient through the model": EnsembleAgentConfig(),
    "256 × 256, of the critic, A = 5": _PAPER,
    "64 × 64, of the critic, A = 5, batch 128": replace(
        _PAPER, model=EnsembleConfig(hidden=(64, 64)), sac=_SMALL
    ),
}


def main(*, json: bool = False) -> None:
    """Time updates of the deep agent, beside the rate of matrix products.

    An update is one of the model, imagined rollouts, and one or A of the policy.

    Args:
        json: Print one JSON document instead of a table.
    """
    from driftrl.training.speed import product_rate, update_flops, update_seconds

    sizes, rate, updates = (3, 1), product_rate(), {}
    for name, config in SETTINGS.items():
        seconds, flops = update_seconds(config, sizes), update_flops(config, sizes)
        speed = {"gflops": flops / seconds / 1e9, "share": flops / seconds / rate}
        updates[name] = {"update_ms": 1e3 * seconds, "flops": flops, **speed}
    machine = {"processor": processor(), "product_gflops": rate / 1e9}
    if json:
        print_json({**machine, "updates": updates})
        return
    print(f"{processor()}, {os.cpu_count()} cores, one thread")
    print(f"Matrix products of 256 × 256: {rate / 1e9:.1f} GFLOP/s\n")
    rows = [
        [name, f"{u['update_ms']:.1f}", f"{u['gflops']:.1f}", f"{u['share']:.0%}"]
        for name, u in updates.items()
    ]
    print_table(["networks", "ms an update", "GFLOP/s", "of products'"], rows)


def processor() -> str:
    """Return the model of the processor, if the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()

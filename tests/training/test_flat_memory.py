"""A bounded rule needs no more memory after a thousand episodes than after a few."""

import resource
from pathlib import Path

import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.training import loop
from driftrl.types import EpisodeRecord

PAGE = resource.getpagesize()


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE / 2**20


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [{"kind": "window", "window": 5}, {"kind": "reset", "period": 5}]
)
def test_memory_stays_flat(
    tiny_deep: RunConfig, tmp_path: Path, rule: dict[str, object]
) -> None:
    # Long episodes of few updates: what would leak is data.
    config = overridden(
        tiny_deep,
        {"episodes": 1000, "environment": {"sim_steps": 100}, "forgetting": rule},
    )
    used: dict[int, float] = {}

    def look(record: EpisodeRecord) -> None:
        if record.episode in (200, 1000):
            used[record.episode] = resident_mib()

    loop.run(config, tmp_path, on_episode=look, warn=lambda message: None)
    # 800 episodes of 100 transitions of 9 numbers are 5.5 MiB.
    assert used[1000] - used[200] < 3.0

"""A Slurm cluster of two places on this machine, for as long as the tests of a file."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "cluster.sh"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CPUS", "2")
        patch.setenv("SLURM_CONF", str(place / "slurm.conf"))
        try:
            subprocess.run(["sh", SCRIPT, "install"], check=True)
            subprocess.run(["sh", SCRIPT, "start", place], check=True)
            yield place
        finally:
            subprocess.run(["sh", SCRIPT, "stop", place], check=True)

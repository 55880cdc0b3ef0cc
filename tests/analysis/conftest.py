"""Made-up studies as frames."""

from pathlib import Path

import polars as pl
import pytest

import driftrl
from factories import made_up_optimum, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One problem, three methods, four seeds."""
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def frame(study: Path) -> pl.DataFrame:
    return driftrl.load(study, oracle=made_up_optimum)


@pytest.fixture(scope="session")
def rates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two problems, each a variant, with three seeds and 20 episodes."""
    directory = tmp_path_factory.mktemp("rates")
    for rate in (0.1, 0.5):
        names = ("sombrl", "sw-ombrl")
        write_study(directory, names, range(3), 20, [f"a={rate}"], rate=rate)
    return directory


@pytest.fixture(scope="session")
def rates_frame(rates: Path) -> pl.DataFrame:
    return driftrl.load(rates, oracle=made_up_optimum)


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """A baseline, and a window of 2, 5 and 10 episodes."""
    directory = tmp_path_factory.mktemp("swept")
    write_study(directory, ("sombrl",), range(3), 12)
    write_study(directory, ("sw-ombrl",), range(3), 12, ("w=2", "w=5", "w=10"))
    return driftrl.load(directory, oracle=made_up_optimum)

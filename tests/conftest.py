"""How strictly the tests run: no silent promotion, no warning, every shape checked.

Everything that JAX reads when it is first imported is set here, before any import of
driftrl.  The settings are environment variables, so that the command line started by a
test runs just as strictly.  JAX's compilation cache stays off: it writes its files in
place, and a test that kills its child could leave half of one behind for the next.
"""

import functools
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

STRICT = {
    # Mixing dtypes or ranks by accident is an error, not a conversion.
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_NUMPY_RANK_PROMOTION": "raise",
    "JAX_PLATFORMS": "cpu",
    # One thread each: the tests are spread over the cores as processes.
    # Compiling takes most of their time, and half of it goes without optimisation:
    # what is computed is the same up to rounding.
    "XLA_FLAGS": (
        "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0 "
        "--xla_cpu_use_fusion_emitters=false"
    ),
    "NPROC": "1",  # the size of XLA's own thread pool
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    # No window is ever opened.
    "MPLBACKEND": "agg",
    # Where Matplotlib keeps its list of fonts, which takes seconds to make again.
    "MPLCONFIGDIR": str(Path(__file__).parents[1] / ".pytest_cache" / "matplotlib"),
}
for name, value in STRICT.items():
    os.environ.setdefault(name, value)

if any(module.partition(".")[0] == "driftrl" for module in sys.modules):
    raise RuntimeError("driftrl was imported before its type checks could be installed")

import jax  # noqa: E402
import jaxtyping  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# Shapes, dtypes and types of every function and dataclass are checked when called.  The
# tower is Python's own rule that an int will do where a float is wanted; Self is not
# known to a checker of single methods.
jaxtyping.install_import_hook(
    "driftrl",
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True, hint_overrides="
    "beartype.FrozenDict({beartype.typing.Self: object})))",
)

settings.register_profile(
    "driftrl",
    deadline=None,  # the first example may compile
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("driftrl")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: the cores are to end together."""
    long = ("test_examples", "tests/training", "tests/cli", "tests/agents")
    items.sort(key=lambda item: [part not in item.nodeid for part in long])


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests out of the user's cache directory, and it out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def x64() -> Iterator[None]:
    """Run one test with 64-bit floats as JAX's default."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one test hand in values of a wrong type, to read driftrl's own refusal."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@functools.cache
def _load_again(module: ModuleType) -> Any:
    name = f"unchecked_{module.__name__.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, str(module.__file__))
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    return again


@pytest.fixture(scope="session")
def unchecked() -> Callable[[ModuleType], Any]:
    """Load a module a second time, so that its own refusals speak first."""
    return _load_again


@pytest.fixture
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Render without a screen."""
    from driftrl.video import headless

    environment = dict(os.environ)
    headless(environment)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def read_video() -> Callable[[Path], tuple[float, np.ndarray]]:
    """Decode a video; return its frames a second, and its frames."""
    import imageio_ffmpeg

    def read(path: Path) -> tuple[float, np.ndarray]:
        program = imageio_ffmpeg.get_ffmpeg_exe()
        command = [program, "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        done = subprocess.run(command, capture_output=True, check=True)
        found = re.search(r" (\d+)x(\d+)[ ,].* ([\d.]+) fps", done.stderr.decode())
        assert found is not None
        width, height = int(found[1]), int(found[2])
        pixels = np.frombuffer(done.stdout, np.uint8)
        return float(found[3]), pixels.reshape(-1, height, width, 3)

    return read

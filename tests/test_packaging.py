"""What is installed, and what starting the command line loads."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SLOW_TO_IMPORT = {"jax", "jaxlib", "equinox", "matplotlib", "plotly"}


def test_constraints_are_plain_pins_within_the_declared_ranges():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.+]+", pin) for pin in pins)
    versions = dict(pin.split("==") for pin in pins)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for text in [
        *project["dependencies"],
        *(text for extra in extras for text in extra),
    ]:
        requirement = Requirement(text)
        assert versions[requirement.name.lower()] in requirement.specifier


def test_messages_name_pages_that_are_installed():
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"""page\(['"]([\w.]+)['"]\)""", source))
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    included = tool["hatch"]["build"]["targets"]["wheel"]["force-include"]
    pages = {f"docs/{name}": f"driftrl/docs/{name}" for name in named}
    assert pages == {k: v for k, v in included.items() if k.startswith("docs/")}
    assert all((ROOT / name).is_file() for name in pages) and len(pages) == 2


def slow_imports_of(module: str) -> list[str]:
    """Import a module in a fresh interpreter; return what slow ones came with it."""
    program = f"import sys, {module}; print(*{SLOW_TO_IMPORT} & sys.modules.keys())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "module", ["driftrl", "driftrl.engines.worker", "driftrl.cli.main"]
)
def test_import_starts_quickly(module: str):
    assert slow_imports_of(module) == []


def test_slow_imports_are_noticed():
    assert "jax" in slow_imports_of("driftrl.envs.pendulum")

"""What is installed, and what starting the command line loads."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import driftrl

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


class Stage:
    """A stage of the Dockerfile: a directory as its root, a new venv as its Python."""

    def __init__(self, root: Path) -> None:
        self.root, self.venv = root, root / "venv"
        subprocess.run([sys.executable, "-m", "venv", self.venv], check=True)
        useradd = self.venv / "bin" / "useradd"  # not on this machine
        last = "for name; do :; done; echo $name"
        useradd.write_text(f"#!/bin/sh\n{last} > {root / 'user'}\n")
        useradd.chmod(0o755)
        self.directory = root
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self.env = kept | {"PATH": f"{self.venv / 'bin'}:/usr/bin:/bin"}
        self.user, self.entry = "root", []

    def within(self, path: str) -> Path:
        return self.root / path[1:] if path.startswith("/") else self.directory / path

    def shell(self, command: str | list[str]) -> str:
        done = subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=self.directory,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout


def copy(arguments: str, stage: Stage, stages: dict[str, Stage]) -> None:
    source = re.match(r"--from=(\w+) ", arguments)
    *names, target = arguments.removeprefix(source[0] if source else "").split()
    for name in names:
        origin = stages[source[1]].within(name) if source else ROOT / name
        to = stage.within(target)
        if origin.is_dir():
            shutil.copytree(origin, to)
        else:
            shutil.copy(origin, to)


def build(directory: Path) -> Stage:
    """Do what the Dockerfile says, without a container engine; return the image."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages: dict[str, Stage] = {}
    stage = None
    for line in lines:
        instruction, arguments = line.split(maxsplit=1)
        if instruction == "FROM":
            name = arguments.partition(" AS ")[2]
            stage = stages[name] = Stage(directory / (name or "image"))
            continue
        assert stage is not None
        match instruction:
            case "WORKDIR":
                stage.directory = stage.within(arguments)
                stage.directory.mkdir(parents=True, exist_ok=True)
            case "COPY":
                copy(arguments, stage, stages)
            case "RUN":
                stage.shell(arguments)
            case "ENV":
                key, value = arguments.split("=")
                stage.env[key] = str(stage.within(value))
            case "USER":
                stage.user = arguments
            case "ENTRYPOINT":
                stage.entry = json.loads(arguments)
            case "CMD":
                stage.shell([*stage.entry, *json.loads(arguments)])
            case _:
                pytest.fail(f"The Dockerfile has a step unknown here: {line}")
    assert stage is not None
    return stage


@pytest.mark.slow
def test_dockerfile(tmp_path: Path) -> None:
    image = build(tmp_path)
    assert image.user == (image.root / "user").read_text().strip() != "root"
    assert image.shell([*image.entry, "--version"]).strip() == driftrl.__version__
    assert "halfcheetah" in image.shell([*image.entry, "list", "tasks"])
    settings = ["--episodes", "1", "--quiet", "--out", "run"]
    image.shell([*image.entry, "run", "pendulum", *settings])
    assert (image.directory / "run" / "episodes.jsonl").exists()
    location = "import driftrl; print(driftrl.__file__)"
    assert str(image.venv) in image.shell(["python", "-c", location])

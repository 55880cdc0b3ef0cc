"""Where runs come from: the file of their study, the commands, and the versions."""

import shlex
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftrl.errors import CorruptFile, InputError
from driftrl.records import Run
from driftrl.results.problems import flattened

STUDY_FILE = "study.toml"
UNSAID = "not said"
"""Stands for a version that a run did not write down."""


@dataclass(frozen=True)
class Source:
    """One directory of results, and what its study says of itself."""

    name: str
    """What tells the study from others on the same page."""
    directory: Path
    title: str
    description: str = ""
    text: str = ""
    """The file of the study, word for word; empty if there is none."""

    def runs_among(self, runs: Sequence[Run]) -> list[Run]:
        """Return those of the runs that lie in this directory."""
        places = [(run.directory, run.directory.parent) for run in runs]
        pairs = zip(runs, places, strict=True)
        return [run for run, place in pairs if self.directory in place]


def read_source(directory: Path, name: str | None = None) -> Source:
    """Return what a directory of results says of itself; its name if it is silent."""
    name = directory.resolve().name if name is None else name
    path = directory / STUDY_FILE
    if not path.is_file():
        return Source(name, directory, name)
    try:
        text = path.read_bytes().decode()
        # The words alone: to check its settings would make the machines of its runs.
        table = tomllib.loads(text)
    except ValueError as error:
        raise CorruptFile(f"{path} is not valid TOML: {error}.") from error
    title, description = str(table.get("title", name)), str(table.get("summary", ""))
    return Source(name, directory, title, description, text)


def read_sources(directories: Sequence[Path]) -> list[Source]:
    """Return the sources of one page, each with a name of its own.

    The name is that of the directory, and begins further up where names are the same.
    """
    whole = [path.resolve() for path in directories]
    for path in whole:
        if whole.count(path) > 1:
            raise InputError(f"{path} is named twice. Name each directory once.")
    names = {path: path.name for path in whole}
    for length in range(2, max((len(path.parts) for path in whole), default=0) + 1):
        counts = Counter(names.values())
        names |= {
            path: "/".join(path.parts[-length:])
            for path, name in names.items()
            if counts[name] > 1
        }
    pairs = zip(directories, whole, strict=True)
    return [read_source(directory, names[path]) for directory, path in pairs]


def study_command(source: Source, runs: Sequence[Run]) -> str:
    """Return the command that makes the runs of a study, or finishes them."""
    table = tomllib.loads(source.text)
    words = ["driftrl", "study", STUDY_FILE]
    preset = chosen_preset(table, runs)
    if preset and preset != table.get("preset"):
        words += ["--preset", preset]
    return shlex.join([*words, "--out", f"runs/{source.directory.resolve().name}"])


def chosen_preset(table: Mapping[str, Any], runs: Sequence[Run]) -> str:
    """Return the preset of a study that its runs were made with, if it has any.

    Of the presets that no run contradicts it is the one that sets the most.  What a
    variant sets for itself is no contradiction.
    """
    variants = table.get("variants", [])
    own = {
        key
        for variant in variants
        for settings in [
            variant.get("settings", {}),
            *variant.get("presets", {}).values(),
        ]
        for key in flattened(settings)
    }
    configs = [flattened(run.config) for run in runs]
    fitting: dict[str, int] = {}
    for name, settings in table.get("presets", {}).items():
        said = {key: v for key, v in flattened(settings).items() if key not in own}
        # A key that no configuration has, such as forget_after, says nothing here.
        if all(
            one.get(key, value) == value
            for one in configs
            for key, value in said.items()
        ):
            fitting[name] = len(said)
    return max(fitting, key=lambda name: fitting[name], default="")


def run_command(run: Run) -> str:
    """Return the command that makes a run again from its own file."""
    words = ["driftrl", "run", run.task, "--method", str(run.config["method"])]
    config = f"{run.directory.name}/config.toml"
    again = f"runs/{run.directory.name}-again"
    return shlex.join([*words, "--config", config, "--out", again])


def versions_of(runs: Sequence[Run]) -> dict[str, dict[str, int]]:
    """Return, for each library, the versions that runs were made with, and how many."""
    found = [run.config.get("versions", {}) for run in runs]
    names = dict.fromkeys(name for versions in found for name in versions)
    return {
        name: dict(Counter(str(versions.get(name, UNSAID)) for versions in found))
        for name in names
    }

"""Studies: a figure or a sweep as data, expanded into runs.

``docs/studies.md`` has every key of a study's file.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftrl.config.engine import EngineConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, merged, read_toml, toml_text
from driftrl.envs.tasks import configure
from driftrl.errors import InputError, require, unknown_name
from driftrl.io import shipped, write_atomically


@dataclass(frozen=True)
class Variant:
    """A setting of some methods that is compared with the others."""

    name: str = ""
    methods: tuple[str, ...] | None = None
    """The methods it is about (default: all of the study's)."""
    settings: dict[str, Any] = field(default_factory=dict)
    task: str = ""
    """Its task, if that is not the study's."""
    presets: dict[str, Any] = field(default_factory=dict)
    """What some of the study's presets mean for this variant in particular."""

    def __post_init__(self) -> None:
        require(
            self.methods != (),
            f"The variant {self.name!r} has an empty list of methods; leave the list "
            "out for all of the study's.",
        )


@dataclass(frozen=True)
class Study:
    """Several runs that are looked at together."""

    name: str
    title: str
    summary: str
    task: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    variants: tuple[Variant, ...] = (Variant(),)
    preset: str = ""
    """The preset that is used; none if the study has none."""
    presets: dict[str, Any] = field(default_factory=dict)
    """Settings to choose from, such as the paper's and a laptop's."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    """What its runs need of the machines, and where a cluster is."""

    def __post_init__(self) -> None:
        require(
            re.fullmatch(r"[\w=+-][\w.=+-]{0,99}", self.name) is not None,
            "A study's name is the name of a directory: letters, digits and . _ = + - "
            f"only, at most 100, and no dot first; received {self.name[:120]!r}.",
        )
        if self.preset not in self.presets and (self.preset or self.presets):
            raise unknown_name("preset", self.preset, self.presets)
        for named in (name for variant in self.variants for name in variant.presets):
            if named not in self.presets:
                raise unknown_name("preset of a variant", named, self.presets)
        for what in ("methods", "seeds", "variants"):
            values = getattr(self, what)
            require(len(values) > 0, f"A study needs {what}; the list is empty.")
        repeated = len(self.seeds) != len(set(self.seeds))
        require(not repeated, f"The seeds {list(self.seeds)} repeat one of them.")

    def runs(self) -> list[RunConfig]:
        """Return the configuration of every run, seed by seed, so methods keep pace."""
        runs = [
            self._run(variant, method, seed)
            for seed in self.seeds
            for variant in self.variants
            for method in variant.methods or self.methods
        ]
        names = [run.name for run in runs]
        twice = sorted({name for name in names if names.count(name) > 1})
        require(
            not twice, f"Two runs of the study have the same name: {', '.join(twice)}."
        )
        return runs

    def _run(self, variant: Variant, method: str, seed: int) -> RunConfig:
        run = {"seed": seed, "variant": variant.name}
        changes: dict[str, Any] = {}
        for settings in (
            self.settings,
            self.presets.get(self.preset, {}),
            variant.settings,
            variant.presets.get(self.preset, {}),
            run,
        ):
            changes = merged(changes, settings)
        try:
            return configure(variant.task or self.task, method, changes)
        except InputError as error:
            raise InputError(f"Runs of method {method!r}: {error}") from None


def read_study(path: Path, preset: str | None = None) -> Study:
    """Read a study's file, with another than its own preset if asked; errors name it.

    The settings of all its runs are checked.
    """
    table = read_toml(path)
    if preset is not None:
        table["preset"] = preset
    try:
        study = from_dict(Study, _with_preset(table))
        study.runs()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return study


def _with_preset(table: dict[str, Any]) -> dict[str, Any]:
    """Complete the chosen preset, and let its methods and seeds replace the study's."""
    presets, name = table.get("presets", {}), str(table.get("preset"))
    if not isinstance(presets, dict) or not isinstance(presets.get(name), dict):
        return table
    chosen: dict[str, Any] = presets[name]
    if like := chosen.pop("like", None):
        others = read_toml(find_study(str(like))).get("presets", {})
        require(name in others, f"The study {like!r} has no preset {name!r}.")
        chosen = merged(others[name], chosen)
    own = {key: chosen.pop(key) for key in ("methods", "seeds") if key in chosen}
    return table | own | {"presets": presets | {name: chosen}}


def shipped_studies() -> dict[str, Path]:
    """Return the studies that come with driftrl, by name."""
    return {path.stem: path for path in sorted(shipped("studies").glob("*.toml"))}


def find_study(name_or_path: str) -> Path:
    """Return the file of a study given by path, or by the name of a shipped one."""
    path = Path(name_or_path)
    if path.is_file():
        return path
    shipped = shipped_studies()
    if path.stem in shipped and (path.suffix in ("", ".toml")):
        return shipped[path.stem]
    if path.suffix == ".toml":
        raise InputError(
            f"There is no study file {name_or_path!r}. Shipped studies: "
            f"{', '.join(shipped)}."
        )
    raise unknown_name("study", name_or_path, shipped)


def prepare_study(study: Study, path: Path, out: Path) -> list[RunConfig]:
    """Return the runs of a study, and copy its file with the chosen preset to ``out``.

    Refuses, before it writes anything, a study whose runs can't begin and a directory
    that holds other runs.
    """
    from driftrl.training.assembly import check_run
    from driftrl.training.run_directory import require_same_run

    runs = study.runs()
    try:
        for run in runs:
            if run.seed == study.seeds[0]:  # others differ in their seeds only
                check_run(run)
            require_same_run(out / run.name, run)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    table, text = read_toml(path), path.read_bytes()
    if table.get("preset", "") != study.preset:
        text = toml_text({**table, "preset": study.preset}).encode()
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "study.toml", text)
    return runs

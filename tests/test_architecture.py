"""The shape of the code base: who imports whom, and what is banned.

Every gate is a function from sources to a list of violations.  It is run over the
repository, and over a small source that breaks it, so that no gate is dead.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEARNING = {"agents", "models", "training"}
# Package -> packages it must not import, also inside functions.
FORBIDDEN = {
    "models": {"envs", "presets"},
    "agents": {"envs", "presets"},
    "analysis": LEARNING,
    "robot": LEARNING | {"envs", "presets"},  # a robot's computer needs no more
}
# The command line reads these before it knows whether there is anything to compute.
WITHOUT_JAX = {"types", "errors", "io", "plugins", "drift", "memory", "config"}
WITHOUT_JAX |= {"records", "presets", "robot"}
JAX = {"jax", "jaxlib", "equinox", "optax"}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


@dataclass(frozen=True)
class Source:
    """One Python file of the package: its dotted name and its text."""

    module: str
    text: str

    @property
    def package(self) -> str:
        """The part of driftrl that it belongs to; empty for driftrl itself."""
        return self.module.partition(".")[2].partition(".")[0]

    def imports(self) -> Iterator[tuple[str, bool]]:
        """Yield every imported name, and whether it is imported with the module."""
        tree = ast.parse(self.text)
        late = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, node not in late
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node not in late

    def packages(self) -> set[str]:
        """Return the other parts of driftrl that it imports, at any time."""
        names = (name.split(".") for name, _ in self.imports())
        parts = {name[1] for name in names if name[0] == "driftrl" and len(name) > 1}
        return parts - {self.package}


def sources() -> list[Source]:
    files = sorted((ROOT / "src").rglob("*.py"))
    parts = [(file, file.relative_to(ROOT / "src").with_suffix("")) for file in files]
    return [Source(".".join(part.parts), file.read_text()) for file, part in parts]


def cycles(files: list[Source]) -> list[str]:
    graph: dict[str, set[str]] = {}
    for file in files:
        if file.package not in ("", "__init__", "__main__"):
            graph.setdefault(file.package, set()).update(file.packages())
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def forbidden(files: list[Source]) -> list[str]:
    return [
        f"{file.module} imports {package}"
        for file in files
        for package in sorted(file.packages() & FORBIDDEN.get(file.package, set()))
    ]


def early_jax(files: list[Source]) -> list[str]:
    return [
        f"{file.module} imports {name}"
        for file in files
        for name, with_module in file.imports()
        if file.package in WITHOUT_JAX and with_module and name.split(".")[0] in JAX
    ]


def pickles(files: list[Source]) -> list[str]:
    return [
        f"{file.module} imports {name}"
        for file in files
        for name, _ in file.imports()
        if name.split(".")[0] in PICKLES
    ]


GATES = [
    (
        cycles,
        [
            Source("driftrl.envs.a", "import driftrl.presets.b"),
            Source("driftrl.presets.b", "from driftrl.envs import a"),
        ],
    ),
    (forbidden, [Source("driftrl.models.gp", "from driftrl.envs import pendulum")]),
    (early_jax, [Source("driftrl.memory.episodes", "import jax.numpy as jnp")]),
    (pickles, [Source("driftrl.io", "def f():\n    import pickle")]),
]


@pytest.mark.parametrize(("gate", "broken"), GATES)
def test_gate(gate, broken) -> None:  # pyright: ignore[reportMissingParameterType]
    assert gate(sources()) == []
    assert len(gate(broken)) == 1

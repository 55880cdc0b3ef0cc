"""The shape of the code base: who imports whom, how long things are, what is banned.

Every gate is a function from sources to a list of violations.  It is run over the
repository, and over a small source that breaks it, so that no gate is dead.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tests", "benchmarks", "examples")

MAX_FILE_LINES = 450
MAX_EXAMPLE_LINES = 80
MAX_FUNCTION_LINES = 60  # the docstring is not counted
MAX_ARGUMENTS = 7  # self and cls are not counted

DATA = {"types", "errors", "atomic"}
RECORDS = {"results", "regret", "figures"}
CONFIGS = {"config_gp", "config_deep", "config_engine", "config_file"}
CONFIGURED = DATA | CONFIGS | {"drift", "memory", "config"}
LEARNING = CONFIGURED | {"theory", "models", "imagination", "agents"}
RUNNING = LEARNING | {"envs", "robot", "training", "results", "exported"}

# Part of the package -> the other parts it may import, also inside functions and for
# type checking only.  What learns never sees an environment.
MAY_IMPORT = {
    "errors": set(),
    "exported": set(),  # goes to the robot alone
    "types": {"errors"},
    "atomic": {"errors"},
    "theory": DATA,
    "drift": DATA,
    "memory": DATA | {"drift"},
    "config_file": DATA,
    "config_gp": DATA,
    "config_deep": DATA | {"config_gp"},
    "config_engine": DATA,
    "config": DATA | {"drift", "memory", "config_file", "config_gp", "config_deep"},
    "envs": CONFIGURED,
    "models": CONFIGURED | {"theory"},
    "imagination": CONFIGURED | {"theory", "models"},
    "agents": CONFIGURED | {"theory", "models", "imagination"},
    "robot": DATA,  # a robot's computer needs no more
    "training": LEARNING | {"envs", "robot", "results", "exported"},
    "engines": RUNNING,
    "oracles": RUNNING | RECORDS,
    "results": DATA | RECORDS,
    "regret": DATA | RECORDS,
    "figures": DATA | RECORDS,
    "cli": RUNNING | RECORDS | {"engines", "oracles"},
    "__main__": {"cli"},
}
# The command line reads these before it knows whether there is anything to compute.
WITHOUT_JAX = CONFIGURED | {"results", "robot"}
JAX = {"jax", "jaxlib", "equinox", "optax"}

# What only some commands need: package of an extra -> the module that it provides.
SAME = ("onnx", "msgpack", "ray", "submitit", "tensorboardX", "wandb")
EXTRAS = {"imageio-ffmpeg": "imageio_ffmpeg", "pillow": "PIL", "pyzmq": "zmq"}
EXTRAS |= {name: name for name in SAME}

UNSAFE_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec"}
VAGUE_NAMES = {"util", "utils", "common", "helper", "helpers", "misc"}
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


@dataclass(frozen=True)
class Source:
    """One Python file: where it lies under the repository, and its text."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def module(self) -> str:
        """Dotted name, for a file under src; packages drop their ``__init__``."""
        parts = self.path.with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def part(self) -> str:
        """The name under driftrl that it belongs to; empty for driftrl itself."""
        return self.module.partition(".")[2].partition(".")[0]

    def at(self, line: int, message: str) -> str:
        return f"{self.path}:{line}: {message}"


@dataclass(frozen=True)
class Import:
    """One imported name, absolute; who sees it, and when."""

    name: str
    line: int
    typing_only: bool
    late: bool  # in a function

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


def source(path: str, text: str) -> Source:
    return Source(PurePosixPath(path), text)


def sources(*folders: str) -> list[Source]:
    return [
        Source(PurePosixPath(file.relative_to(ROOT)), file.read_text())
        for folder in folders
        for file in sorted((ROOT / folder).rglob("*.py"))
    ]


def is_typing_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def names_of(node: ast.AST, origin: Source) -> list[str]:
    """Return the absolute names that one statement or call imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = origin.module.split(".")
            if origin.path.name != "__init__.py":
                package = package[:-1]
            package = package[: len(package) - node.level + 1]
            base = ".".join([*package, *([base] if base else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args:
        function = ast.unparse(node.func).rpartition(".")[2]
        name = node.args[0]
        if function in {"import_module", "__import__"} and isinstance(
            name, ast.Constant
        ):
            return [str(name.value)]
    return []


def imports(origin: Source) -> list[Import]:
    """Return every import of a file, also in functions, conditions and calls."""

    def walk(node: ast.AST, typing_only: bool, late: bool) -> Iterator[Import]:
        for name in names_of(node, origin):
            yield Import(name, getattr(node, "lineno", 0), typing_only, late)
        late = late or isinstance(node, ast.FunctionDef)
        guarded = (
            node.body if isinstance(node, ast.If) and is_typing_guard(node) else ()
        )
        for child in ast.iter_child_nodes(node):
            yield from walk(child, typing_only or child in guarded, late)

    return list(walk(origin.tree, False, False))


def against_direction(files: list[Source]) -> list[str]:
    found = []
    for file in files:
        if file.part and file.part not in MAY_IMPORT:
            found.append(file.at(1, f"part {file.part} has no place in MAY_IMPORT"))
        if not file.part or file.part not in MAY_IMPORT:
            continue
        for item in imports(file):
            names = item.name.split(".")
            target = names[1] if len(names) > 1 and names[0] == "driftrl" else file.part
            known = target in MAY_IMPORT
            if known and target not in MAY_IMPORT[file.part] | {file.part}:
                found.append(file.at(item.line, f"{file.part} imports {item.name}"))
    return found


def jax_in_cheap_parts(files: list[Source]) -> list[str]:
    return [
        file.at(item.line, f"{file.part} must start without {item.top}")
        for file in files
        if file.part in WITHOUT_JAX
        for item in imports(file)
        if item.top in JAX and not item.typing_only
    ]


def import_cycles(files: list[Source]) -> list[str]:
    """Return a line for each file that can be reached from its own imports."""
    modules = {file.module: file for file in files if file.part}
    graph: dict[str, set[str]] = {}
    for name, file in modules.items():
        wanted = (item.name for item in imports(file) if not item.typing_only)
        targets = {w if w in modules else w.rpartition(".")[0] for w in wanted}
        graph[name] = (targets & modules.keys()) - {name}

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            module = ahead.pop()
            if module not in seen:
                seen.add(module)
                ahead.extend(graph[module])
        return seen

    return [
        modules[name].at(1, "imports itself through others")
        for name in modules
        if name in reachable(name)
    ]


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def argument_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    spec = node.args
    named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    return sum(argument.arg not in {"self", "cls"} for argument in named)


def oversized(files: list[Source]) -> list[str]:
    found = []
    for file in files:
        lines = file.text.count("\n")
        limit = (
            MAX_EXAMPLE_LINES if file.path.parts[0] == "examples" else MAX_FILE_LINES
        )
        if lines > limit:
            found.append(file.at(1, f"{lines} lines, more than {limit}"))
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            length -= docstring_lines(node)
            if length > MAX_FUNCTION_LINES:
                found.append(file.at(node.lineno, f"{node.name} has {length} lines"))
            if (count := argument_count(node)) > MAX_ARGUMENTS:
                found.append(file.at(node.lineno, f"{node.name} has {count} arguments"))
    return found


def vaguely_named(files: list[Source]) -> list[str]:
    return [
        file.at(1, "say in the name what the file is about")
        for file in files
        if VAGUE_NAMES & {PurePosixPath(part).stem for part in file.path.parts}
    ]


def unsafe(files: list[Source]) -> list[str]:
    found = []
    for file in files:
        found += [
            file.at(item.line, f"{item.top} runs code from files")
            for item in imports(file)
            if item.top in UNSAFE_MODULES
        ]
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
                found.append(file.at(node.lineno, f"{node.func.id} runs text as code"))
            for keyword in node.keywords:
                if (
                    keyword.arg == "allow_pickle"
                    and ast.unparse(keyword.value) != "False"
                ):
                    found.append(file.at(node.lineno, "allow_pickle must be False"))
    return found


def unfinished(files: list[Source]) -> list[str]:
    return [
        file.at(number, "finish it or leave it out")
        for file in files
        for number, line in enumerate(file.text.splitlines(), start=1)
        if UNFINISHED.search(line)
    ]


def undocumented(files: list[Source]) -> list[str]:
    return [
        file.at(1, "the module has no docstring")
        for file in files
        if not ast.get_docstring(file.tree)
    ]


def undeclared(
    files: list[Source], declared: set[str], optional: frozenset[str] = frozenset()
) -> list[str]:
    """Return the imports of src that no core dependency provides, and idle ones.

    What an extra provides may be imported in functions, when it is asked for.
    """
    used = {
        item.top: file.at(item.line, f"{item.top} is no core dependency")
        for file in files
        for item in imports(file)
        if item.top not in sys.stdlib_module_names and item.top != "driftrl"
        if not (item.late and item.top in optional)
    }
    idle = [f"pyproject.toml: {name} is never imported" for name in declared]
    found = [message for name, message in used.items() if name not in declared]
    return found + [line for line in idle if line.split()[1] not in used]


GATES: dict[str, tuple[Callable[[list[Source]], list[str]], tuple[str, ...]]] = {
    "direction": (against_direction, ("src",)),
    "jax": (jax_in_cheap_parts, ("src",)),
    "cycles": (import_cycles, ("src",)),
    "sizes": (oversized, FOLDERS),
    "names": (vaguely_named, FOLDERS),
    "unsafe": (unsafe, FOLDERS),
    "unfinished": (unfinished, FOLDERS),
    "docstrings": (undocumented, FOLDERS),
}

LONG_BODY = "    x = 1\n" * MAX_FUNCTION_LINES
SEVEN = "self, a, b, c, d, e, f, *, g"

# Gate, where the file would lie, its text, and how many violations it holds.
EXAMPLES = [
    ("direction", "src/driftrl/models/gp.py", "import driftrl.envs.pendulum", 1),
    ("direction", "src/driftrl/models/gp.py", "from driftrl import envs", 1),
    ("direction", "src/driftrl/models/gp.py", "from ..envs import pendulum", 1),
    ("direction", "src/driftrl/models/__init__.py", "from ..envs import tasks", 1),
    ("direction", "src/driftrl/models/gp.py", "from .. import __version__", 0),
    ("direction", "src/driftrl/models/gp.py", "from . import kernels", 0),
    ("direction", "src/driftrl/models/gp.py", "from driftrl.memory import x", 0),
    ("direction", "src/driftrl/config.py", "def f():\n    import driftrl.envs", 1),
    ("direction", "src/driftrl/config.py", "import_module('driftrl.agents.sac')", 1),
    (
        "direction",
        "src/driftrl/drift/a.py",
        "if TYPE_CHECKING:\n    from driftrl.config import C",
        1,
    ),
    ("direction", "src/driftrl/results/a.py", "from driftrl.training import loop", 1),
    ("direction", "src/driftrl/newpart/a.py", "x = 1", 1),
    ("direction", "src/driftrl/__init__.py", "from driftrl.training import x", 0),
    ("jax", "src/driftrl/config.py", "import jax.numpy as jnp", 1),
    ("jax", "src/driftrl/memory/a.py", "def f():\n    from equinox import nn", 1),
    ("jax", "src/driftrl/types.py", "if TYPE_CHECKING:\n    import jax", 0),
    (
        "jax",
        "src/driftrl/types.py",
        "if TYPE_CHECKING:\n    x = 1\nelse: import jax",
        1,
    ),
    ("jax", "src/driftrl/types.py", "from jaxtyping import Float", 0),
    ("jax", "src/driftrl/models/gp.py", "import jax", 0),
    ("sizes", "src/driftrl/a.py", "\n" * (MAX_FILE_LINES + 1), 1),
    ("sizes", "src/driftrl/a.py", "\n" * MAX_FILE_LINES, 0),
    ("sizes", "examples/a.py", "\n" * (MAX_EXAMPLE_LINES + 1), 1),
    ("sizes", "src/driftrl/a.py", "def f():\n" + LONG_BODY, 1),
    ("sizes", "src/driftrl/a.py", f'def f():\n    """D."""\n{LONG_BODY[:-10]}', 0),
    ("sizes", "src/driftrl/a.py", f"def f({SEVEN}): ...", 0),
    ("sizes", "src/driftrl/a.py", f"async def f({SEVEN}, h): ...", 1),
    ("names", "src/driftrl/envs/utils.py", "", 1),
    ("names", "src/driftrl/common/gp.py", "", 1),
    ("unsafe", "src/driftrl/a.py", "def f():\n    import pickle", 1),
    ("unsafe", "src/driftrl/a.py", "from joblib import dump", 1),
    ("unsafe", "src/driftrl/a.py", "np.load(f, allow_pickle=True)", 1),
    ("unsafe", "src/driftrl/a.py", "np.load(f, allow_pickle=False)", 0),
    ("unsafe", "src/driftrl/a.py", "eval(x), exec(y), jax.eval_shape(z)", 2),
    ("unfinished", "src/driftrl/a.py", "x = 1  # TO" + "DO: two", 1),
    ("docstrings", "src/driftrl/a.py", "x = 1", 1),
    ("docstrings", "src/driftrl/a.py", '"""A."""', 0),
]


@pytest.mark.parametrize("gate", GATES)
def test_repository_passes(gate: str):
    check, folders = GATES[gate]
    violations = check(sources(*folders))
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(("gate", "path", "text", "count"), EXAMPLES)
def test_gate_counts_violations(gate: str, path: str, text: str, count: int):
    assert len(GATES[gate][0]([source(path, text)])) == count


def test_every_gate_is_shown_to_fail():
    shown = {gate for gate, _, _, count in EXAMPLES if count}
    assert shown | {"cycles"} == GATES.keys()


def test_gates_see_the_code():
    seen = {file.module for file in sources("src")}
    assert {"driftrl", "driftrl.errors", "driftrl.models"} <= seen


def test_cycle_is_found_and_a_chain_is_not():
    a = source("src/driftrl/envs/a.py", "from driftrl.envs import b")
    b = source("src/driftrl/envs/b.py", "from .c import thing")
    c = source("src/driftrl/envs/c.py", "def f():\n    import driftrl.envs.a")
    assert import_cycles([a, b]) == []
    assert len(import_cycles([a, b, c])) == 3


def test_core_dependencies_are_what_src_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {Requirement(text).name for text in project["dependencies"]}
    extras = {
        Requirement(text).name
        for name, texts in project["optional-dependencies"].items()
        if name != "dev"
        for text in texts
    }
    optional = frozenset(EXTRAS[name] for name in EXTRAS.keys() & extras)
    violations = undeclared(sources("src"), declared, optional)
    assert not violations, "\n".join(violations)


def test_extras_are_imported_late():
    early = source("src/driftrl/a.py", "import PIL")
    late = source("src/driftrl/a.py", "def f():\n    from PIL import Image")
    both = source("src/driftrl/a.py", early.text + "\n" + late.text)
    optional = frozenset({"PIL"})
    counts = [len(undeclared([file], set(), optional)) for file in (early, late, both)]
    assert counts == [1, 0, 1]
    assert len(undeclared([late], set())) == 1


def test_undeclared_and_idle_dependencies_are_found():
    files = [source("src/driftrl/a.py", "import os, numpy, optax.losses, driftrl")]
    found = undeclared(files, {"numpy", "polars"})
    assert [line.rpartition(": ")[2] for line in found] == [
        "optax is no core dependency",
        "polars is never imported",
    ]

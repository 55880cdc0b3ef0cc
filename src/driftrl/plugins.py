"""Load users' objects by import path, "module:Name", and name objects by theirs.

A forgetting rule, schedule, bonus or task that doesn't come with driftrl is written to
files, and given on the command line, as the path from which it can be imported.
"""

import importlib
import os
import sys
from typing import Any

from driftrl.errors import InputError, require

SEARCH_VARIABLE = "DRIFTRL_PLUGIN_PATH"
"""Directories that are searched for modules found nowhere else, as in PYTHONPATH."""


def load_object(path: str) -> Any:
    """Import the module of "module:Name" and return the object of that name.

    ``InputError`` if there is none, or if the module fails while it is imported.
    """
    module_name, _, name = path.partition(":")
    is_file = module_name.endswith(".py")
    names = [*module_name.split("."), *name.split(".")]
    require(
        not is_file and all(part.isidentifier() for part in names),
        "An import path is MODULE:NAME, such as my_module:MyRule, and names no file; "
        f"received {path!r}.",
    )
    value = _import(module_name)
    for part in name.split("."):
        require(hasattr(value, part), _no_such_name(module_name, name))
        value = getattr(value, part)
    return value


def path_of(value: Any) -> str:
    """Return "module:Name" of a class or function; ``InputError`` of a lambda."""
    name = getattr(value, "__qualname__", "")
    path = f"{getattr(value, '__module__', '')}:{name}"
    require(
        bool(name) and "<" not in name and load_object(path) is value,
        f"{value!r} can't be saved with a run: it has no import path. Define it at the "
        "top level of a module, as a class or with def.",
    )
    return path


def add_search_directory(directory: str) -> None:
    """Search a directory for modules found nowhere else, here and in child processes.

    It comes last, so that a file there never replaces an installed module.
    """
    directories = _search_directories()
    if directory not in directories:
        os.environ[SEARCH_VARIABLE] = os.pathsep.join([*directories, directory])


def _search_directories() -> list[str]:
    return [d for d in os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep) if d]


def _import(module_name: str) -> Any:
    missing = [d for d in _search_directories() if d not in sys.path]
    sys.path.extend(missing)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        # The module itself, or a package it is in.
        is_missing = f"{module_name}.".startswith(f"{getattr(error, 'name', None)}.")
        if isinstance(error, ModuleNotFoundError) and is_missing:
            raise InputError(
                f"There is no module {module_name!r}. Install it, or start in the "
                f"directory of its file, or name that directory in {SEARCH_VARIABLE}."
            ) from None
        raise InputError(
            f"Importing the module {module_name!r} failed: "
            f"{type(error).__name__}: {error}"
        ) from error


def _no_such_name(module_name: str, name: str) -> str:
    if module_name == "__main__":
        return (
            f"{name!r} was defined in a script or notebook, and this process doesn't "
            "have it. Move it to a module that can be imported, or resume the run from "
            "that script with the object."
        )
    return f"The module {module_name!r} has no {name!r}."

"""Modules as users import them: without the run-time type checks of the tests."""

import functools
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


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

"""Objects by import path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driftrl import plugins
from driftrl.errors import InputError
from driftrl.memory.forgetting import Window
from driftrl.plugins import SEARCH_VARIABLE, add_search_directory, load_object, path_of


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that is searched for modules, until the test is over."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(SEARCH_VARIABLE, "")
    add_search_directory(str(tmp_path))
    return tmp_path


def test_paths_lead_back_to_the_object() -> None:
    for value in (Window, Window.first_retained, load_object, os.path.join):
        assert load_object(path_of(value)) is value
    assert path_of(Window) == "driftrl.memory.forgetting:Window"


@pytest.mark.parametrize("value", [lambda clock: 1.0, 3, Window(3), "os:getcwd"])
def test_what_has_no_path_is_refused(value: object) -> None:
    class Local:
        pass

    for unnamed in (value, Local):
        with pytest.raises(InputError, match="import path"):
            path_of(unnamed)


def test_modules_are_found_in_the_search_directory_last(directory: Path) -> None:
    (directory / "b1_rules.py").write_text("class Rule:\n    class Inner: ...\n")
    (directory / "json.py").write_text("raise RuntimeError('never imported')\n")
    assert load_object("b1_rules:Rule.Inner").__module__ == "b1_rules"
    assert load_object("json:loads")("3") == 3
    add_search_directory(str(directory))
    assert os.environ[SEARCH_VARIABLE] == str(directory)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("b1_missing:Rule", "no module 'b1_missing'"),
        ("os.b1_missing:Rule", "os.b1_missing"),
        ("b1_broken:Rule", "ZeroDivisionError: division by zero"),
        ("b1_lacking:Rule", "ModuleNotFoundError.*b1_missing"),
        ("os:Rule", "'os' has no 'Rule'"),
        ("__main__:Rule", "script or notebook"),
        ("b1/rules.py:Rule", "MODULE:NAME"),
        ("b1_rules.py:Rule", "MODULE:NAME"),
        *((bad, "MODULE:NAME") for bad in (":", "os:", ":x", "os", ".os:x", "a b:c")),
        ("o\0s:x", "MODULE:NAME"),
    ],
)
def test_what_can_not_be_loaded(directory: Path, path: str, words: str) -> None:
    (directory / "b1_broken.py").write_text("1 / 0\n")
    (directory / "b1_lacking.py").write_text("import b1_missing\n")
    with pytest.raises(InputError, match=words):
        load_object(path)


def test_a_script_may_name_its_own_classes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from driftrl.plugins import load_object, path_of\n"
        "class Rule: ...\n"
        "assert path_of(Rule) == '__main__:Rule'\n"
        "assert load_object('__main__:Rule') is Rule\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(plugins.__file__).parents[1])}
    subprocess.run([sys.executable, script], check=True, env=environment)

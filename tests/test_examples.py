"""Examples and the code of README and docs run as they stand, for a few episodes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
EXAMPLES = sorted((TOP / "examples").glob("*.py"))
PAGES = ["your_machine", "keep_adapting", "machine_how_to"]
RULE_PAGE = "first_forgetting_rule"


def fewer(episodes: re.Match[str]) -> str:
    """Return one episode in twenty, and one more: a run that goes on still does."""
    return f"episodes={1 + int(episodes[1]) // 20}"


def run(code: str, directory: Path) -> str:
    # As a user would, without the strictness of the tests.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("JAX_NUMPY")}
    plain["PATH"] = f"{Path(sys.executable).parent}:{plain['PATH']}"  # for driftrl
    script = directory / "script.py"
    code = re.sub(r'"episodes": \d+', '"episodes": 2', code)
    script.write_text(re.sub(r"episodes=(\d+)", fewer, code))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=directory,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_blocks(path: Path) -> list[str]:
    return [code for language, code in blocks(path) if language == "python"]


def blocks(path: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|sh)\n(.*?)^```", path.read_text(), re.S | re.M)


def page_script(page: str, directory: Path, *, with_shell: bool = False) -> str:
    """Return the code of a page as one script, and save its modules.

    A block of Python whose first line is ``# NAME.py`` is that file.
    """
    for example in EXAMPLES:
        shutil.copy(example, directory)
    steps = ["import subprocess"]
    for language, code in blocks(TOP / "docs" / f"{page}.md"):
        name = re.match(r"# (\w+\.py)\n", code)
        if name:
            (directory / name[1]).write_text(code)
        elif language == "python":
            steps.append(code)
        elif with_shell and "driftrl robot" not in code:  # it would serve for ever
            code = re.sub(r"--episodes \d+", "--episodes 2", code)
            code = "set -e\n" + code
            steps.append(f"subprocess.run({code!r}, shell=True, check=True)")
    return "\n".join(steps)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) < 80
    shutil.copy(path.parent / "my_machine.py", tmp_path)
    assert run(path.read_text(), tmp_path).strip()


def test_readme_code(tmp_path: Path) -> None:
    run("\n".join(python_blocks(TOP / "README.md")), tmp_path)
    assert (tmp_path / "regret.png").exists()


@pytest.mark.parametrize("page", PAGES)
def test_page_code(page: str, tmp_path: Path) -> None:
    run(page_script(page, tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", [*PAGES, RULE_PAGE])
def test_page_code_and_commands(page: str, tmp_path: Path) -> None:
    run(page_script(page, tmp_path, with_shell=True), tmp_path)


def test_forgetting_rule_of_the_tutorial_is_saved(tmp_path: Path) -> None:
    run(page_script(RULE_PAGE, tmp_path), tmp_path)
    config = (tmp_path / "runs" / "last_good" / "config.toml").read_text()
    assert 'kind = "my_rules:LastGood"' in config and "threshold = 0.5" in config


def test_machine_of_the_tutorial_is_the_example() -> None:
    module, *_ = python_blocks(TOP / "docs" / "your_machine.md")
    start = module.index("class Tanks")
    assert module[start:] in (TOP / "examples" / "my_machine.py").read_text()

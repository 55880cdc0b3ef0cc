"""Examples and the README's code run as they stand, for an episode or two."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
EXAMPLES = sorted((TOP / "examples").glob("*.py"))


def run(code: str, directory: Path) -> str:
    # As a user would, without the strictness of the tests.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("JAX_NUMPY")}
    script = directory / "script.py"
    code = re.sub(r'"episodes": \d+', '"episodes": 2', code)
    script.write_text(re.sub(r"episodes=\d+", "episodes=1", code))
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
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) < 80
    assert run(path.read_text(), tmp_path).strip()


def test_readme_code(tmp_path: Path) -> None:
    run("\n".join(python_blocks(TOP / "README.md")), tmp_path)
    assert (tmp_path / "regret.png").exists()


def test_tutorial_code(tmp_path: Path) -> None:
    rule, use = python_blocks(TOP / "docs" / "first_forgetting_rule.md")
    (tmp_path / "my_rules.py").write_text(rule)
    run(use, tmp_path)
    config = (tmp_path / "runs" / "last_good" / "config.toml").read_text()
    assert 'kind = "my_rules:LastGood"' in config and "threshold = 0.5" in config

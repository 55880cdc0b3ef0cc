"""Examples and the README's code run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
EXAMPLES = sorted((TOP / "examples").glob("*.py"))


LONG = ("my_forgetting_rule",)  # computes for longer than optimising takes


def run(code: list[str], directory: Path, *, optimise: bool = False) -> str:
    # As a user would, without the strictness of the tests.
    plain = {k: v for k, v in os.environ.items() if not k.startswith("JAX_NUMPY")}
    if optimise:
        level = "--xla_backend_optimization_level=0"
        plain["XLA_FLAGS"] = plain["XLA_FLAGS"].replace(level, "")
    done = subprocess.run(
        [sys.executable, *code],
        cwd=directory,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text().splitlines()) < 80
    assert run([str(path)], tmp_path, optimise=path.stem in LONG).strip()


@pytest.mark.timeout(600)
def test_readme_code(tmp_path: Path) -> None:
    text = (TOP / "README.md").read_text()
    # Three episodes show that the code runs; sixteen take a minute more.
    assert '"episodes": 16' in text
    text = text.replace('"episodes": 16', '"episodes": 3')
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        run(["-c", block], tmp_path)
    assert (tmp_path / "regret.png").exists()


@pytest.mark.timeout(600)
def test_tutorial_code(tmp_path: Path) -> None:
    text = (TOP / "docs" / "first_forgetting_rule.md").read_text()
    rule, use = re.findall(r"```python\n(.*?)```", text, re.S)
    (tmp_path / "my_rules.py").write_text(rule)
    run(["-c", use], tmp_path, optimise=True)
    config = (tmp_path / "runs" / "last_good" / "config.toml").read_text()
    assert 'kind = "my_rules:LastGood"' in config and "threshold = 0.5" in config

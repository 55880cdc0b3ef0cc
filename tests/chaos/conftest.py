"""Options of the chaos suite, and its table."""

import secrets
from collections.abc import Callable

import pytest

Row = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chaos-seed", type=int, default=secrets.randbelow(10**6))
    parser.addoption("--chaos-scale", type=float, default=1.0, help="share of cases")


def pytest_configure(config: pytest.Config) -> None:
    """Give the workers of pytest-xdist the seed that is printed."""
    # Where the suite is not asked for, this file is read after the workers start.
    if "chaos_seed" in (given := getattr(config, "workerinput", {})):
        config.option.chaos_seed = given["chaos_seed"]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    node.workerinput["chaos_seed"] = node.config.option.chaos_seed  # pyright: ignore


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return request.config.option.chaos_seed


@pytest.fixture
def scale(request: pytest.FixtureRequest) -> float:
    return request.config.option.chaos_scale


@pytest.fixture
def row(record_property: Callable[[str, object], None]) -> Row:
    """Return what adds a row to the table: what was done, how often, what followed."""
    return lambda kind, cases, result: record_property("row", [kind, cases, result])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for rs in terminalreporter.stats.values() for r in rs]
    rows = [
        value
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "row"
    ]
    seed = terminalreporter.config.getoption("--chaos-seed")
    terminalreporter.section(f"chaos, --chaos-seed {seed}")
    for kind, cases, result in sorted(rows):
        terminalreporter.write_line(f"{kind:<24} {cases:>6}  {result}")

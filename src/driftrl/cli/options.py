"""What the commands share: parsing, warnings, JSON and tables."""

import functools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import tyro
from rich.console import Console
from rich.table import Table

T = TypeVar("T")
LEAST_WIDTH = 132
"""Of tables: folding words is worse than a line that the terminal wraps."""


def parse(arguments: type[T], argv: list[str], command: str, summary: str) -> T:
    """Parse ``argv`` into a dataclass; wrong input ends the program with status 2."""
    tidy_help(arguments)
    return tyro.cli(
        arguments,
        args=argv,
        prog=f"driftrl {command}",
        description=summary,
        config=(
            tyro.conf.FlagCreatePairsOff,
            tyro.conf.DisallowNone,
            tyro.conf.PositionalMetavarFromFieldName,
        ),
    )


def tidy_help(arguments: type | Any) -> None:
    """Show defaults only where there is one.

    Args:
        arguments: A dataclass, or an instance whose nested ones are tidied as well.
    """
    _tidy_class(arguments if isinstance(arguments, type) else type(arguments))
    for item in fields(arguments):
        value = getattr(arguments, item.name, None)
        if is_dataclass(value):
            tidy_help(value)


@functools.cache
def _tidy_class(cls: Any) -> None:
    hints = get_type_hints(cls, include_extras=True)
    for name in vars(cls).get("__annotations__", {}).keys() & {
        item.name for item in fields(cls)
    }:
        shown = tyro.conf.arg(help_behavior_hint=_default_hint)
        cls.__annotations__[name] = Annotated[hints[name], shown]


def _default_hint(default: str) -> str:
    blank = default in ("None", "", "''", "False", "{fixed}")
    return "" if blank else f"(default: {default})"


def warn(message: str) -> None:
    """Print a warning on standard error."""
    print(f"driftrl: {message}", file=sys.stderr, flush=True)


def print_json(document: Any) -> None:
    """Print exactly one JSON document on standard output."""
    print(json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False))


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table that can be read, cut and pasted."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    return table


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a plain table."""
    console = Console(highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    console.print(plain_table(columns, rows))

"""What the commands have in common: parsing, JSON, tables, configuration flags."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

T = TypeVar("T")
_LEAST_WIDTH = 132


def parse(arguments: type[T], argv: list[str], command: str, summary: str) -> T:
    """Parse ``argv`` into a dataclass; wrong input ends the program with status 2."""
    return tyro.cli(
        arguments, args=argv, prog=f"driftrl {command}", description=summary
    )


def print_json(document: Any) -> None:
    """Print exactly one JSON document on standard output."""
    print(json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a plain table that can be read, cut and pasted."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False)
    # Folding words into a narrow column is worse than a line that the terminal wraps.
    console.width = max(console.width, _LEAST_WIDTH)
    console.print(table)

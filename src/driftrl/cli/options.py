"""What the commands share: parsing, warnings, JSON and tables."""

import functools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, ClassVar, get_origin, get_type_hints

import tyro
from rich.console import Console
from rich.table import Table

LEAST_WIDTH = 132
"""Of tables: folding words is worse than a line that the terminal wraps."""


def call(command: Any, argv: list[str], name: str) -> Any:
    """Call a function with the flags in ``argv``; bad ones end the program, status 2.

    The function's docstring is the help.  A table of functions is one of subcommands.
    """
    options: Any = {
        "prog": f"driftrl {name}",
        "args": argv,
        "config": (
            tyro.conf.FlagCreatePairsOff,
            tyro.conf.DisallowNone,
            tyro.conf.OmitArgPrefixes,
            tyro.conf.PositionalMetavarFromFieldName,
        ),
    }
    if isinstance(command, dict):
        for function in command.values():
            tidy_help(function)
        return tyro.extras.subcommand_cli_from_dict(command, **options)
    tidy_help(command)
    return tyro.cli(command, **options)


@functools.cache
def tidy_help(target: Any) -> None:
    """Show defaults of a function or a dataclass only where there is one."""
    hints = get_type_hints(target, include_extras=True)
    for name in target.__annotations__:
        if is_dataclass(hints[name]):
            tidy_help(hints[name])
        if get_origin(hints[name]) is not ClassVar:
            shown = tyro.conf.arg(help_behavior_hint=_default_hint)
            target.__annotations__[name] = Annotated[hints[name], shown]


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

"""Small pieces of HTML from which the page is built."""

from collections.abc import Iterable, Sequence
from html import escape

from driftrl.figures.style import MethodStyle


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, code: bool = False
) -> str:
    """Return a table from cells that are HTML already."""
    mark = ' class="code"' if code else ""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def folded(title: str, content: str, *, is_long: bool = False) -> str:
    """Return what is shown on demand; on paper too, unless it is long."""
    mark = ' class="long"' if is_long else ""
    return f"<details{mark}><summary>{title}</summary>{content}</details>"


def escaped(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return rows of text as rows of HTML."""
    return [[escape(cell) for cell in row] for row in rows]


def named(style: MethodStyle) -> str:
    """Return a method's name behind a patch of its colour."""
    patch = f'<span class="swatch" style="background:{style.colour}"></span>'
    return patch + escape(style.name)


def code(text: str) -> str:
    """Return lines to copy, as they are."""
    return f"<pre><code>{escape(text)}</code></pre>"

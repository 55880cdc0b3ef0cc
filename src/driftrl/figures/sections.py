"""The sections of the page about one problem, in reading order.

Whatever comes from a file is escaped.
"""

import base64
from html import escape

import numpy as np

from driftrl.errors import counted
from driftrl.figures.cards import figure_section
from driftrl.figures.markup import folded, table
from driftrl.figures.method_table import method_section
from driftrl.figures.one_run import data_section, one_run_section
from driftrl.figures.part import Part, Picture
from driftrl.figures.settings import run_section
from driftrl.figures.wording import number
from driftrl.results.packed import PackedRecords
from driftrl.results.regret import StudyRegret

_MOST_OPTIMA = 100  # rows of the oracle’s table
_LEAST_PIXELS = 720  # of a printed figure’s width, below which it can’t be read


def part_sections(
    part: Part,
    drawn: frozenset[str],
    every: int,
    packed: PackedRecords,
    together: str = "",
) -> list[str]:
    """Return all sections of a part, in reading order.

    Args:
        part: The problem.
        drawn: Keys of its interactive figures.
        every: Of how many episodes one is drawn in them.
        packed: Its records as they are in the page.
        together: The section on all runs, if all are of this problem.
    """
    return [
        _warning_box(part.study),
        method_section(part),
        "".join(picture_figure(one, part.level + 1) for one in part.pictures),
        figure_section(part, drawn, every),
        together,
        one_run_section(part, packed),
        _oracle_section(part) if part.study.table.known else "",
        run_section(part),
        data_section(part, packed),
    ]


def picture_figure(picture: Picture, level: int) -> str:
    """Return a printed figure with title and caption."""
    encoded = base64.b64encode(picture.png).decode()
    title = escape(picture.title)
    # A PNG says how wide it is in bytes 16 to 19; half of that is sharp on any screen.
    width = int.from_bytes(picture.png[16:20]) // 2
    least = min(width, _LEAST_PIXELS)
    image = (
        f'<img alt="{title}" width="{width}" style="min-width:{least}px" '
        f'src="data:image/png;base64,{encoded}">'
    )
    return (
        f'<figure class="picture"><h{level}>{title}</h{level}>'
        f'<div class="scroll">{image}</div>'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def _warning_box(study: StudyRegret) -> str:
    if not study.warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in study.warnings)
    return f'<div class="warning"><strong>Oracle</strong><ul>{items}</ul></div>'


def _oracle_section(part: Part) -> str:
    study = part.study
    used = {record.theta for run in study.runs for record in run.records}
    thetas = np.array(sorted(used))
    entries = [study.table.entries[place] for place in study.table.locate(thetas)]
    # Where every run has its own course of θ there are thousands.
    places = np.linspace(0, len(entries) - 1, min(len(entries), _MOST_OPTIMA))
    shown = [entries[place] for place in np.round(places).astype(int)]
    rows = [
        [f"{one.theta:.6g}", f"{one.value:.6g}", f"{one.error:.3g}"] for one in shown
    ]
    title = "J*(θ) for every θ that occurs"
    if len(shown) < len(entries):
        title = f"J*(θ) for {len(shown)} of the {len(entries)} θ that occur"
    largest = max(entry.error for entry in entries)
    count = counted(len(entries), "value")
    verdict = (
        "No run beat it beyond that error and the noise of the returns."
        if not study.warnings
        else "Runs did beat it, so it is not the optimum: see the warnings above."
    )
    return (
        part.heading("Oracle")
        + f"<p>J*(θ) is the return of the best policy at a fixed θ: "
        f"{escape(study.table.provenance.rstrip('. '))}.</p>"
        f"<p>The largest stated error of the {count} used here is "
        f"{number(largest)}. {verdict}</p>"
        + folded(title, table(["θ", "J*(θ)", "Error"], rows), is_long=True)
    )

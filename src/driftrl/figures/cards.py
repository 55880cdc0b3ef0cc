"""The interactive figures of a problem, each with a title and how to read it."""

from driftrl.errors import counted
from driftrl.figures.interactive import STACKED
from driftrl.figures.panels import Panel, soft_resets, study_changes
from driftrl.figures.part import Part
from driftrl.figures.wording import percent
from driftrl.results.statistics import LEVEL


def figure_section(part: Part, drawn: frozenset[str], every: int) -> str:
    """Return all figures of a problem, the result first.

    Args:
        part: Whose figures.
        drawn: Keys of the interactive figures that there are.
        every: Of how many episodes one is drawn.
    """
    panels = {panel.key: panel for panel in part.panels}
    stacked = [panels[key] for key in STACKED if key in panels]
    cards = [_card(part, "curves", _stack_title(part), _stack_caption(stacked))]
    if "finals" in drawn:
        cards.append(_card(part, "finals", *_finals_words(part)))
    if "differences" in drawn:
        cards.append(_card(part, "differences", *_differences_words(part)))
    cards += [
        _card(part, key, panel.title, panel.caption, is_wide=False)
        if key in drawn
        else _missing_card(part, panel)
        for key, panel in panels.items()
        if key not in STACKED
    ]
    note = f"<p>{_how_to_read(part, every)}</p>"
    return f'{part.heading("Figures")}{note}<div class="figures">{"".join(cards)}</div>'


def _how_to_read(part: Part, every: int) -> str:
    lines = "Lines are means over seeds, bands one standard error to either side"
    if all(len(one.seeds) == 1 for one in part.study.methods):
        lines = "A line is one run"
    if study_changes(part.study):
        lines += "; the dotted line marks where θ begins to change"
    ticks = (
        " Ticks along the lower edge mark soft resets."
        if soft_resets(part.study)
        else ""
    )
    thinned = (
        f" One of {counted(every, 'episode')} is drawn, the last among them."
        if every > 1
        else ""
    )
    return (
        f"{lines}.{ticks}{thinned} Click a name to hide it in all figures, click twice "
        "to see it alone; drag to look closer, click twice to return."
    )


def _stack_title(part: Part) -> str:
    what = "Regret and returns" if part.study.table.known else "Returns"
    return f"{what} over episodes"


def _stack_caption(panels: list[Panel]) -> str:
    return " ".join(
        f"<strong>{panel.title}.</strong> {panel.caption}" for panel in panels
    )


def _finals_words(part: Part) -> tuple[str, str]:
    what = "Cumulative regret after the last episode that all runs have reached"
    if not part.study.table.known:
        what = "Mean return of an episode"
    title = "Final regret" if part.study.table.known else "Mean return"
    return title, (
        f"{what}: a dot is a seed, a diamond their mean with its {percent(LEVEL)} t "
        "interval."
    )


def _differences_words(part: Part) -> tuple[str, str]:
    what, side = "Final regret", "Left"
    if not part.study.table.known:
        what, side = "Mean return of an episode", "Right"
    return "Paired differences", (
        f"{what} minus that of the baseline on the same seed: a dot is a "
        f"seed, a diamond their mean with its {percent(LEVEL)} t interval. {side} "
        "of the line is better than the baseline."
    )


def _card(
    part: Part, key: str, title: str, caption: str, *, is_wide: bool = True
) -> str:
    kind = ' class="wide"' if is_wide else ""
    plot = f'<div class="plot" id="plot-{part.prefix}{key}"></div>'
    return _figure(part, kind, title, plot, caption)


def _missing_card(part: Part, panel: Panel) -> str:
    return _figure(part, "", panel.title, panel.missing, panel.caption)


def _figure(part: Part, kind: str, title: str, content: str, caption: str) -> str:
    level = part.level + 1
    return (
        f"<figure{kind}><h{level}>{title}</h{level}>{content}"
        f"<figcaption>{caption}</figcaption></figure>"
    )

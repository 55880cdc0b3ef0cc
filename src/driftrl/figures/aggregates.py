"""All runs of a study together: a table, profiles, and how likely a method is better.

For the page as HTML with interactive figures, and as one printed figure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from plotly import graph_objects

from driftrl.errors import counted
from driftrl.figures.aggregate_wording import (
    EVEN,
    aggregate_explanations,
    aggregate_notes,
    aggregate_sentences,
    has_bands,
    improvement_caption,
    improvement_words,
    improvements_of,
    interval_words,
    is_one_sided,
    profile_caption,
)
from driftrl.figures.embedded import compact
from driftrl.figures.markup import folded, named, table
from driftrl.figures.plotly_style import DASHES, INTERVAL, base_layout, translucent
from driftrl.figures.style import (
    COLUMN_INCHES,
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_name,
    method_styles,
    printed_style,
)
from driftrl.figures.wording import UNKNOWN, number, percent
from driftrl.results.aggregates import Aggregate, Aggregates, aggregate
from driftrl.results.comparison import Comparison
from driftrl.results.score_table import score_table
from driftrl.results.statistics import LEVEL

PROFILE, IMPROVEMENT = "aggregate-profile", "aggregate-improvement"
"""Keys of the interactive figures, after the prefix."""
_SUBSCRIPT = re.compile(r"\b([Rθ])_(\w+)")
_BESIDE_LINE: dict[str, Any] = {
    "xytext": (4, 0),
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 7,
    "color": MUTED,
}


def aggregates_of(comparison: Comparison) -> Aggregates | None:
    """Return the aggregates of a study; None with one method or a single seed."""
    scores = score_table(comparison)
    return None if scores is None else aggregate(scores)


# ---- for the page ------------------------------------------------------------------


def aggregate_section(
    comparison: Comparison, prefix: str, level: int
) -> tuple[str, dict[str, graph_objects.Figure]]:
    """Return the section of the page as HTML, and its figures by the key of their box.

    Args:
        comparison: The whole study.
        prefix: What tells the keys of these figures from those of other parts.
        level: Level of the heading of the section.

    Returns:
        HTML with a box ``plot-KEY`` for every figure, and the figures by KEY, which
        begins with the prefix.  Nothing at all, ``("", {})``, where there is nothing to
        say: with one method, or with a single seed.
    """
    aggregates = aggregates_of(comparison)
    if aggregates is None:
        return "", {}
    scores, styles = aggregates.table, method_styles(aggregates.methods)
    figures = {PROFILE: draw_profiles(aggregates, styles)}
    captions = {PROFILE: ("Performance profile", profile_caption(aggregates))}
    if scores.baseline is not None:
        title = f"Probability of beating {method_name(scores.baseline)}"
        figures[IMPROVEMENT] = draw_improvements(aggregates, styles)
        captions[IMPROVEMENT] = (title, improvement_caption(aggregates))
    # Many methods need the whole width for their names.
    kind = "" if has_bands(aggregates) else ' class="wide"'
    cards = [
        f"<figure{kind}><h{level + 1}>{escape(title)}</h{level + 1}>"
        f'<div class="plot" id="plot-{escape(prefix)}{key}"></div>'
        f"<figcaption>{_html([caption])}</figcaption></figure>"
        for key, (title, caption) in captions.items()
    ]
    heading = (
        "All problems together" if len(scores.problems) > 1 else "All runs together"
    )
    explained = _html(aggregate_explanations(aggregates))
    html = (
        f"<h{level}>{heading}</h{level}>"
        f"<p>{_html(aggregate_sentences(aggregates))}</p>"
        f"{_method_table(aggregates, styles)}"
        f"<p>{_html(aggregate_notes(aggregates))}</p>"
        f"{folded('How these numbers are made', f'<p>{explained}</p>')}"
        f'<div class="figures">{"".join(cards)}</div>'
    )
    return html, {f"{prefix}{key}": figure for key, figure in figures.items()}


def _method_table(aggregates: Aggregates, styles: Mapping[str, MethodStyle]) -> str:
    scores = aggregates.table
    has_gap, baseline = scores.measure.target is not None, scores.baseline
    median = "of problems’ means" if len(scores.problems) > 1 else "of runs"
    header = ["Method", "Runs"]
    header.append(f"Interquartile mean<small>{_html([scores.measure.name])}</small>")
    header += ["Mean", f"Median<small>{median}</small>"]
    header += ["Optimality gap"] * has_gap
    if baseline is not None:
        name = escape(method_name(baseline))
        header.append(f"Beats {name}<small>probability</small>")
    rows = [
        [
            named(styles[name]),
            f"{one.runs}",
            _cell(one.iqm, number),
            _cell(one.mean, number),
            _cell(one.median, number),
            *([_cell(one.optimality_gap, number)] * has_gap),
            *([_chance(one.improvement)] * (baseline is not None)),
        ]
        for name, one in aggregates.methods.items()
    ]
    return table(header, rows)


def _cell(one: Aggregate | None, say: Callable[[float], str]) -> str:
    if one is None:
        return UNKNOWN
    return f"{say(float(one.value))}<small>{interval_words(one, say)}</small>"


def _chance(one: Aggregate | None) -> str:
    if one is None:
        return UNKNOWN
    return f"{percent(float(one.value))}<small>{improvement_words(one)}</small>"


def _html(sentences: Sequence[str]) -> str:
    """Return sentences for the page, with R_N and θ_n as they are written by hand."""
    return _SUBSCRIPT.sub(r"\1<sub>\2</sub>", escape(" ".join(sentences)))


def draw_profiles(
    aggregates: Aggregates, styles: Mapping[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw the share of each method’s runs that are better than τ, over τ."""
    # Many names take several lines above the curves.
    height = 330 if has_bands(aggregates) else 330 + 12 * len(styles)
    layout = base_layout()
    figure = graph_objects.Figure(
        layout=layout | {"height": height, "margin": layout["margin"] | {"t": 34}}
    )
    taus = compact(aggregates.thresholds)
    for name, one in aggregates.methods.items():
        style, shared = styles[name], {"legendgroup": escape(styles[name].name)}
        low, high = one.profile.interval.low, one.profile.interval.high
        if has_bands(aggregates):
            band = graph_objects.Scatter(
                # Out along the upper edge and back along the lower one.
                x=[*taus, *taus[::-1]],
                y=compact([*high, *low[::-1]]),
                fill="toself",
                fillcolor=translucent(style.colour),
                line={"width": 0},
                mode="lines",
                showlegend=False,
                hoverinfo="skip",
                **shared,
            )
            figure.add_trace(band)
        line = graph_objects.Scatter(
            x=taus,
            y=compact(one.profile.value),
            customdata=[compact(pair) for pair in zip(low, high, strict=True)],
            name=escape(style.name),
            mode="lines",
            line={"color": style.colour, "width": 2.2, "dash": DASHES[style.dash]},
            hovertemplate="%{y:.0%} (%{customdata[0]:.0%} to %{customdata[1]:.0%})",
            meta={
                "labels": {"method": name},
                "columns": {"threshold": "x", "share_of_runs": "y"} | INTERVAL,
            },
            **shared,
        )
        figure.add_trace(line)
    measure = aggregates.table.measure
    side = "above" if measure.higher_is_better else "below"
    what = f"τ, {_html([measure.name])}"
    figure.update_layout(showlegend=True, hovermode="x unified")
    figure.update_xaxes(title={"text": what, "standoff": 6}, hoverformat=".4~g")
    figure.update_yaxes(
        title={"text": f"share of runs {side} τ", "standoff": 6},
        tickformat=".0%",
        range=[-0.03, 1.03],
    )
    return figure


def draw_improvements(
    aggregates: Aggregates, styles: Mapping[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw the probability that a run of each method beats one of the baseline."""
    improvements = improvements_of(aggregates)
    row = 45 if has_bands(aggregates) else 28
    height = 80 + row * len(improvements)
    figure = graph_objects.Figure(layout=base_layout() | {"height": height})
    for name, one in improvements.items():
        style, value = styles[name], float(one.value)
        low, high = float(one.interval.low), float(one.interval.high)
        reach = {
            "type": "data",
            "symmetric": False,
            "array": [high - value],
            "arrayminus": [value - low],
            "color": style.colour,
            "thickness": 2,
            "width": 6,
        }
        mark = graph_objects.Scatter(
            x=[value],
            y=[escape(style.name)],
            name=escape(style.name),
            customdata=[[None, None] if is_one_sided(one) else compact([low, high])],
            error_x=reach,
            mode="markers",
            marker={"color": style.colour, "size": 11, "symbol": "diamond"},
            hovertemplate=f"%{{x:.0%}} ({improvement_words(one)})<extra></extra>",
            meta={
                "labels": {"method": name, "baseline": aggregates.table.baseline},
                "columns": {"probability": "x"} | INTERVAL,
            },
        )
        figure.add_trace(mark)
    figure.add_vline(EVEN, line={"color": INK, "width": 1.2})
    baseline = escape(method_name(str(aggregates.table.baseline)))
    title = f"probability of beating {baseline}"
    figure.update_xaxes(
        title={"text": title, "standoff": 6}, tickformat=".0%", range=[-0.03, 1.03]
    )
    # The first method on top, half a line of room on either side.
    figure.update_yaxes(range=[len(improvements) - 0.5, -0.5], showgrid=False, ticks="")
    return figure


# ---- for print ---------------------------------------------------------------------


def aggregate_figure(comparison: Comparison) -> Figure | None:
    """Draw interquartile means, probabilities of improvement and profiles.

    Bars and bands are 95 % stratified bootstrap intervals.  Probabilities need a
    baseline, and profiles of many methods hide each other: they are left out then.
    None where there is nothing to aggregate.
    """
    aggregates = aggregates_of(comparison)
    if aggregates is None:
        return None
    styles = method_styles(aggregates.methods)
    panels = [(_draw_means, 1.0)]
    if aggregates.table.baseline is not None:
        panels.append((_draw_chances, 1.0))
    if has_bands(aggregates):
        panels.append((_draw_profiles, 1.35))
    width = COLUMN_INCHES if len(panels) == 1 else PAGE_INCHES
    height = max(2.2, 0.9 + 0.17 * len(styles))
    with printed_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        shares = [share for _, share in panels]
        grid = figure.subplots(1, len(panels), width_ratios=shares, squeeze=False)[0]
        for axes, (draw, _) in zip(grid, panels, strict=True):
            draw(axes, aggregates, styles)
        said = _what_counts(aggregates)
        grid[0].set_title(said, loc="left", fontsize=7, color=MUTED)
    return figure


def _what_counts(aggregates: Aggregates) -> str:
    scores = aggregates.table
    seeds = sorted({len(one) for strata in scores.scores.values() for one in strata})
    counts = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    problems = f"{counted(len(scores.problems), 'problem')} × "
    several = problems if len(scores.problems) > 1 else ""
    return f"{several}{counts} seeds, {percent(LEVEL)} bootstrap intervals"


def _printed_name(aggregates: Aggregates) -> str:
    return _SUBSCRIPT.sub(r"$\1_{\2}$", aggregates.table.measure.name)


def _draw_means(
    axes: Axes, aggregates: Aggregates, styles: Mapping[str, MethodStyle]
) -> None:
    found = {name: one.iqm for name, one in aggregates.methods.items()}
    _draw_marks(axes, found, list(styles.values()))
    axes.set_yticks(range(len(styles)), [style.name for style in styles.values()])
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"Interquartile mean, {_printed_name(aggregates)}")


def _draw_chances(
    axes: Axes, aggregates: Aggregates, styles: Mapping[str, MethodStyle]
) -> None:
    improvements = improvements_of(aggregates)
    found = {name: improvements.get(name) for name in aggregates.methods}
    _draw_marks(axes, found, list(styles.values()))
    axes.axvline(EVEN, color=INK, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(styles)), [""] * len(styles))
    axes.set_xlim(-0.04, 1.04)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xticks([0, EVEN, 1])
    baseline = str(aggregates.table.baseline)
    place = list(aggregates.methods).index(baseline)
    axes.annotate("baseline", (EVEN, place), **_BESIDE_LINE)
    axes.set_xlabel(f"Probability of beating {method_name(baseline)}")


def _draw_marks(
    axes: Axes, found: Mapping[str, Aggregate | None], styles: Sequence[MethodStyle]
) -> None:
    """Draw a number and its interval for each method, the first on top."""
    for place, (one, style) in enumerate(zip(found.values(), styles, strict=True)):
        if one is None:
            continue
        axes.hlines(
            place,
            one.interval.low,
            one.interval.high,
            color=style.colour,
            linewidth=4,
            alpha=0.35,
        )
        axes.plot(one.value, place, "D", color=style.colour, markersize=4)
    axes.set_ylim(len(styles) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _draw_profiles(
    axes: Axes, aggregates: Aggregates, styles: Mapping[str, MethodStyle]
) -> None:
    taus = aggregates.thresholds
    for name, one in aggregates.methods.items():
        style, interval = styles[name], one.profile.interval
        axes.plot(
            taus,
            one.profile.value,
            color=style.colour,
            linestyle=style.dash,
            label=style.name,
        )
        axes.fill_between(
            taus,
            interval.low,
            interval.high,
            color=style.colour,
            alpha=0.15,
            linewidth=0,
        )
    measure = aggregates.table.measure
    side = "above" if measure.higher_is_better else "below"
    axes.set_xlim(taus[0], taus[-1])
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel(rf"$\tau$, {_printed_name(aggregates)}")
    axes.set_ylabel(rf"Share of runs {side} $\tau$")

"""What an audit found, in sentences."""

import math

from driftrl.results.audit import GROWN, PROMISED, Audit, Break, Staleness

_MANY = 6
"""Breaks that are told one by one."""


def explain(found: Audit) -> list[str]:
    """Return the verdict, each break, and what it says about stale data."""
    lines = [_verdict(found)]
    if not found.always_broken:
        lines += [_told(one) for one in found.breaks[:_MANY]]
        more = len(found.breaks) - _MANY
        if more > 0:
            lines.append(f"It broke {more} more times.")
    if found.staleness is not None:
        lines.append(_stale(found.staleness))
    return lines


def _verdict(found: Audit) -> str:
    count = len(found.judged)
    measured = (
        f"± 2σ covered {found.coverage:.0%} of what came next "
        f"({found.low:.0%} to {found.high:.0%}; {PROMISED:.0%} if calibrated) over "
        f"{count} episodes that were foretold before they were learned."
    )
    if found.always_broken:
        return (
            f"{measured} It was overconfident throughout, in {found.broken} of {count} "
            f"episodes: σ would have to be about {found.inflation:.1f} times as wide."
        )
    if found.breaks:
        return f"{measured} It broke in {found.broken} of {count} episodes."
    if found.coverage < PROMISED - 0.05:
        return (
            f"{measured} It never broke, but is overconfident: σ would have to be "
            f"about {found.inflation:.1f} times as wide."
        )
    return f"{measured} It was calibrated, and never broke."


def _told(one: Break) -> str:
    when = (
        f"Episode {one.first}"
        if one.first == one.last
        else f"Episodes {one.first} to {one.last}"
    )
    said = f"{when}: coverage fell to {one.lowest:.0%}"
    if math.isnan(one.error_before):
        return f"{said}. {_too_little(one)}{_after(one)}"
    said += f", the error rose from {one.error_before:.2g} to {one.error:.2g}, "
    said += (
        f"and σ with it, from {one.sigma_before:.2g} to {one.sigma:.2g}, not enough"
        if one.sigma_grew
        else f"while σ stayed at {one.sigma:.2g}"
    )
    if not one.error_grew:
        said = (
            f"{when}: coverage fell to {one.lowest:.0%}, though the error did not rise"
        )
    if one.follows_change is False:
        return f"{said}. {_too_little(one)}{_after(one)}"
    return f"{said}. {_reach(one)}{_after(one)}"


def _too_little(one: Break) -> str:
    held = "one episode" if one.span == 1 else f"{one.span} episodes"
    if one.follows_change is None:
        return (
            f"The memory held {held}: too little data, or a change that nobody knows."
        )
    moved = "θ had moved meanwhile" if one.follows_change else "θ had not changed"
    cause = "stale" if one.follows_change else "too little"
    return f"The memory held {held} and {moved}: {cause} data."


def _reach(one: Break) -> str:
    oldest = one.first - one.span
    if one.follows_change is None:
        return f"The memory reached back to episode {oldest}; θ is not known."
    return (
        f"The memory reached back to episode {oldest}, at θ = {one.theta_oldest:.3g}; "
        f"this one ran at {one.theta:.3g}: the data were stale."
    )


def _after(one: Break) -> str:
    if one.recovered is None or one.oldest_then is None:
        return " It had not recovered when the records end."
    if math.isnan(one.error_before) or one.follows_change is False:
        return f" It was right again at episode {one.recovered}."
    if one.oldest_then >= one.first:
        return (
            f" It was right again at episode {one.recovered}, when everything from "
            "before the break had been forgotten."
        )
    times = one.error_then / one.error_before
    if times > GROWN:
        return (
            f" From episode {one.recovered} on σ was wide enough again, but with an "
            f"error {times:.0f} times that of before and data from episode "
            f"{one.oldest_then} on still in memory: the contradiction passes for noise."
        )
    return (
        f" It was right again at episode {one.recovered}, with data from episode "
        f"{one.oldest_then} on still in memory."
    )


def _stale(found: Staleness) -> str:
    compared = (
        "With a θ in memory that is far from the episode's own "
        f"({found.stale_episodes} episodes) coverage was {found.stale_coverage:.0%} "
        f"and the error {found.stale_ratio:.1f} σ; without ({found.fresh_episodes}) "
        f"{found.fresh_coverage:.0%} and {found.fresh_ratio:.1f} σ."
    )
    if found.stale_coverage < found.fresh_coverage - 0.05:
        return f"{compared} Stale data cost calibration: forgetting sooner would help."
    return f"{compared} Stale data did not show in its calibration."

"""What was found of an environment, in words: what to mend, and what to know."""

from collections.abc import Iterator, Sequence

from driftrl.envs.inspection import Defaults, Driven, Findings, defaults_for

_LARGE_REWARD = 100.0
_SMALL_REWARD = 0.01


def verdict(findings: Findings) -> str:
    """Say whether it can be learned."""
    if findings.learnable:
        return f"{findings.name} can be learned."
    return f"{findings.name} can't be learned before this is mended:"


def rows(findings: Findings) -> list[tuple[str, str]]:
    """Return all that was found, as pairs of what and how it is."""
    found = [
        ("observations", _observations(findings)),
        ("actions", _actions(findings)),
        ("Gymnasium's checker", _checker(findings.checker)),
        ("episode", _length(findings)),
    ]
    if (driven := findings.driven) is not None:
        found += [
            ("end of the task", _ends(driven)),
            (
                "reward of a step",
                f"mean {driven.reward_mean:.4g}, spread {driven.reward_spread:.4g}, "
                f"largest {driven.reward_largest:.4g}",
            ),
            ("time of a step", f"{driven.step_ms:.3g} ms"),
            ("observed", _ranges(driven)),
        ]
    if findings.repeats is not None:
        found += [
            ("same seed again", findings.repeats.here or "the same, bit for bit"),
            ("second instance", findings.repeats.elsewhere or "the same, bit for bit"),
            ("told no episode", findings.repeats.untold or "the same, bit for bit"),
        ]
    return found


def default_rows(defaults: Defaults) -> list[tuple[str, str, str]]:
    """Return what a run would assume: setting, value and reason."""
    why = defaults.reasons
    hidden = " × ".join(str(width) for width in defaults.hidden)
    return [
        ("environment.sim_steps", f"{defaults.steps}", why["steps"]),
        ("agent.imagination.termination", defaults.termination, why["termination"]),
        (
            "agent.learning.learning_starts",
            f"{defaults.learning_starts}",
            why["learning_starts"],
        ),
        ("agent.sac.batch_size", f"{defaults.batch}", why["batch"]),
        (
            "forgetting.period (H), forgetting.window (w)",
            f"{defaults.forget_after}",
            why["forget_after"],
        ),
        ("agent.model.hidden, agent.sac.hidden", hidden, why["hidden"]),
    ]


def remarks(findings: Findings) -> tuple[str, ...]:
    """Return what does not stand in the way of learning, but should be known.

    Nothing where a fault cut the trial short: too little was seen.
    """
    if findings.faults:
        return ()
    return (
        *_on_repeats(findings),
        *_on_actions(findings),
        *(() if findings.driven is None else _on_driven(findings, findings.driven)),
        *(() if findings.sizes is None else _on_data(defaults_for(findings))),
    )


def _on_repeats(findings: Findings) -> Iterator[str]:
    repeats = findings.repeats
    if repeats is None:
        return
    if repeats.here is not None:
        yield (
            "With the same seed and actions an episode is not the same twice: "
            f"{repeats.here}. It can be learned, as a real machine can, but a run "
            "can't be repeated exactly. A simulation of wear should go by the "
            "options that reset is told, such as {'episode': 1, 'steps': 0}."
        )
    elif repeats.elsewhere is not None and repeats.elsewhere.startswith(
        "there is none"
    ):
        yield f"It could not be made a second time, and {repeats.elsewhere}."
    elif repeats.elsewhere is not None:
        yield (
            f"In a second instance the same seed and actions give another episode: "
            f"{repeats.elsewhere}. A resumed run will not be the run that was "
            "interrupted."
        )
    elif repeats.untold is not None:
        yield (
            "It drifts by itself: the same seed and actions give the same episode, bit "
            "for bit, if reset is told which one it is, as a run tells it, and "
            f"another one if not ({repeats.untold})."
        )


def _on_actions(findings: Findings) -> Iterator[str]:
    pairs = zip(findings.low, findings.high, strict=True)
    if stuck := [number for number, (low, high) in enumerate(pairs) if low == high]:
        yield f"{_named('Action', stuck)} can't be moved: low and high are the same."
    if findings.whole_actions:
        yield (
            "Actions are whole numbers: driftrl commands real ones, of which the part "
            "after the point is cut off."
        )


def _on_driven(findings: Findings, driven: Driven) -> Iterator[str]:
    yield from driven.oddities
    if driven.constant:
        yield (
            f"{_named('Observation', driven.constant)} never changed: nothing can be "
            "learned from what is always the same."
        )
    if driven.large:
        reach = max(
            max(abs(driven.lowest[n]), abs(driven.highest[n])) for n in driven.large
        )
        yield (
            f"{_named('Observation', driven.large)} reached {reach:.4g}, and the "
            "policy takes observations as they are: scale them to about ±1, with "
            "gymnasium.wrappers.TransformObservation and a fixed scale."
        )
    if driven.outside:
        yield (
            f"{_named('Observation', driven.outside)} left the bounds that "
            "observation_space declares."
        )
    yield from _on_rewards(driven)
    if findings.limit is None and not driven.truncated and not driven.terminated:
        yield (
            f"It never ended in {max(driven.lengths)} steps and declares no limit: say "
            "how long an episode is, with gymnasium.wrappers.TimeLimit or "
            "--environment.sim_steps."
        )
    if driven.terminated and max(driven.lengths) == 1:
        yield "Every random episode ended with its first step."
    elif driven.clockwork:
        yield (
            f"Every random episode was terminated after exactly {driven.clockwork} "
            "steps. This looks like a clock: return truncated when the time is up, and "
            "terminated when the task is over, after which nothing can be earned."
        )


def _on_rewards(driven: Driven) -> Iterator[str]:
    if driven.reward_spread == 0:
        yield (
            f"The reward was {driven.reward_mean:.4g} at every step: a learner sees "
            "what is wanted only when something it does is paid differently."
        )
    elif abs(driven.reward_largest) > _LARGE_REWARD:
        yield (
            f"The largest reward was {driven.reward_largest:.4g}: scale rewards to "
            "about ±1, with gymnasium.wrappers.TransformReward; critics take long to "
            "get to such numbers."
        )
    elif abs(driven.reward_largest) < _SMALL_REWARD:
        yield (
            f"The largest reward was {driven.reward_largest:.4g}, which is little "
            "beside the bonus for exploring: scale rewards to about ±1, with "
            "gymnasium.wrappers.TransformReward."
        )


def _on_data(defaults: Defaults) -> Iterator[str]:
    held = defaults.forget_after * defaults.lasts
    if held < defaults.learning_starts:
        yield (
            f"{defaults.forget_after} episodes of {defaults.lasts} steps are {held} "
            "transitions, and learning begins with "
            f"{defaults.learning_starts}: a method that forgets would never learn. "
            "Make H and w larger, or agent.learning.learning_starts and "
            "agent.sac.batch_size smaller."
        )


def _named(kind: str, numbers: Sequence[int]) -> str:
    """Return "Observation 2" or "Observations 2, 5" (counted from 0)."""
    several = "s" if len(numbers) > 1 else ""
    return f"{kind}{several} {', '.join(str(number) for number in numbers)} (from 0)"


def _observations(findings: Findings) -> str:
    bounded = "" if findings.observation_bounded else "not "
    return f"{findings.observation}, {bounded}all within finite bounds"


def _actions(findings: Findings) -> str:
    if findings.sizes is None:
        return findings.action
    symmetric = all(
        low == -high for low, high in zip(findings.low, findings.high, strict=True)
    )
    return (
        f"{findings.action}, finite bounds, {'' if symmetric else 'not '}symmetric; "
        "driftrl scales [−1, 1] to them"
    )


def _checker(said: tuple[str, ...] | None) -> str:
    if said is None:
        return "not asked"
    return " ".join(said) if said else "no objection"


def _length(findings: Findings) -> str:
    limit, driven = findings.limit, findings.driven
    known = "declares no limit" if limit is None else f"declares {limit} steps at most"
    if driven is None:
        return known
    shortest, longest = min(driven.lengths), max(driven.lengths)
    span = f"{longest}" if shortest == longest else f"{shortest} to {longest}"
    clock = f"the clock ended {driven.truncated} of {len(driven.lengths)}"
    given_up = (
        "" if driven.cut is None else f"; no end was waited for after {driven.cut}"
    )
    return f"{known}; random ones took {span} steps, {clock}{given_up}"


def _ends(driven: Driven) -> str:
    count = len(driven.lengths)
    if driven.terminated:
        return f"seen in {driven.terminated} of {count} random episodes"
    return f"not seen in {count} random episodes"


def _ranges(driven: Driven) -> str:
    ranges = [
        f"[{low:.3g}, {high:.3g}]"
        for low, high in zip(driven.lowest, driven.highest, strict=True)
    ]
    more = f" and {len(ranges) - 8} more" if len(ranges) > 8 else ""
    return ", ".join(ranges[:8]) + more

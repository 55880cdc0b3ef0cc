"""``driftrl theory recommend``: a window from a run's own data."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.run_data import episodes_of, single_run
from driftrl.errors import at_least
from driftrl.theory.recommendation import LEAST_EPISODES, Recommendation, explain


@dataclass(frozen=True)
class Arguments:
    """Which run, and how much of it."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of a run with its memory."""
    last: int = 60
    """Newest episodes to look at; drift before them is not seen."""
    json: bool = False
    """Print one JSON document instead."""


def main(argv: list[str]) -> int:
    """Print the recommendation and its evidence."""
    summary = (
        "Recommend a window from a run's own data: how many of the episodes before it "
        "would have foretold each episode best."
    )
    arguments = parse(Arguments, argv, "theory recommend", summary)
    at_least("--last", arguments.last, LEAST_EPISODES)
    run = single_run(arguments.run)
    episodes = episodes_of(run, arguments.last)
    from driftrl.models.hindsight import recommend_window

    found, drift = recommend_window(episodes)
    if arguments.json:
        aged = asdict(drift) | {
            "per_episode": drift.per_episode,
            "evident": drift.is_evident,
        }
        document = {"run": run.label, **asdict(found), "as_good": found.as_good}
        print_json(document | {"drift": aged})
        return 0
    print(
        f"{run.label}: of the newest {len(episodes)} episodes {found.tested} were "
        "foretold from those before.\n"
    )
    _print_scores(found)
    print()
    print("\n".join(explain(found, drift)))
    transitions = found.span * sum(map(len, episodes)) / len(episodes)
    if not found.keep_all:
        print(f"Counted in transitions, w is about {transitions:,.0f}.")
    return 0


def _print_scores(found: Recommendation) -> None:
    print_table(
        ["episodes of data", "error", "worse than the best", "± 2σ covers", ""],
        [
            [
                f"{one.span} (all)" if one is found.scores[-1] else one.span,
                f"{one.error:.4f}",
                f"{one.worse:.4f} ± {one.standard_error:.4f}",
                f"{one.coverage:.0%}",
                "← recommended" if one.span == found.span else "",
            ]
            for one in found.scores
        ],
    )

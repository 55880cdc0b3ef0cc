"""``driftrl theory``: a window from the bound or from data, and an audit of σ."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.errors import InputError, at_least
from driftrl.records import CONFIG_FILE, load_runs
from driftrl.theory.audit import audit as audit_records
from driftrl.theory.run_data import load_episodes, load_single_run, observation_size
from driftrl.theory.window_selection import Problem, choose_window


def choose(problem: Problem, *, run: Path | None = None, json: bool = False) -> None:
    """Choose H and w by the paper's regret bound.

    Args:
        problem: The problem, as the bound sees it; a run estimates what is not given.
        run: Directory of a run from whose data the constants are estimated.
        json: Print one JSON document instead, with both terms over the span.
    """
    data, thetas = [], None
    if run is not None:
        stored = load_single_run(run)
        data = load_episodes(stored)
        thetas = np.array([record.theta for record in stored.records])
    result = choose_window(problem, data, thetas)
    if json:
        print_json(result.document())
        return
    facts = f"N = {result.episodes}, T = {result.steps}, γ_N = {result.gain:.3g}"
    known = result.variation is not None
    variation = f"{result.variation:.3g}" if known else "unknown"
    source = "estimated from the run" if result.estimated else "given"
    print(f"{facts}, P_N = {variation} ({source})\n")
    without = min(result.episodes, max(1, round(result.tuned)))
    rows = [["without P_N: γ^¼·√N", without]]
    if known:
        rows.insert(0, ["with P_N: γ^¼·√(N/3P)", result.span])
    print_table(["reading of the bound", "H or w"], rows)
    print(f"\nRecommended: H = w = {result.span}.")


def recommend(
    run: Annotated[Path, tyro.conf.Positional], *, last: int = 60, json: bool = False
) -> None:
    """Choose the window w that would have predicted a run best.

    Args:
        run: Directory of a run with its episodes.
        last: Number of newest episodes to use.
        json: Print one JSON document instead.
    """
    from driftrl.theory.backtest import MIN_EPISODES, recommend_window

    at_least("--last", last, MIN_EPISODES)
    stored = load_single_run(run)
    episodes = load_episodes(stored, last)
    result = recommend_window(episodes)
    if json:
        print_json({"run": stored.label, **asdict(result), "as_good": result.as_good})
        return
    print(f"{stored.label}: {result.tested} of the newest {len(episodes)} episodes.\n")
    print_table(
        ["episodes of data", "error", "worse than the best", "± 2σ covers", ""],
        [
            [
                f"{score.span} (all)" if score is result.scores[-1] else score.span,
                f"{score.error:.4f}",
                f"{score.worse:.4f} ± {score.standard_error:.4f}",
                f"{score.coverage:.0%}",
                "← recommended" if score.span == result.span else "",
            ]
            for score in result.scores
        ],
    )
    choice = "keep all data" if result.keep_all else f"w = {result.span} episodes"
    print(f"\nRecommended: {choice}.")
    skipped = len(stored.records) - len(episodes)
    changes = ", ".join(str(skipped + change) for change in result.changes)
    print(
        f"adaptive would now learn from episode {skipped + result.adaptive} on; "
        f"changes that it locates: {changes or 'none'}."
    )


def audit(
    directory: Annotated[Path, tyro.conf.Positional], *, json: bool = False
) -> None:
    """Audit whether the uncertainty of runs was calibrated.

    Args:
        directory: Directory of a run, or of a study: then one line per run.
        json: Print one JSON document instead, with every episode.
    """
    single = (directory / CONFIG_FILE).is_file()
    rows, documents, sentences = [], [], []
    for run in load_runs(directory):
        try:
            result = audit_records(run.records, observation_size(run))
        except InputError as error:
            if single:
                raise
            sentences.append(f"{run.label}: {error}")
            documents.append({"run": run.label, "reason": str(error)})
        else:
            sentences += ["", *result.summary()] if single else []
            share = f"{result.coverage:.0%} ({result.low:.0%} to {result.high:.0%})"
            broken = f"{result.broken} of {len(result.predicted)}"
            ratio = "∞" if result.ratio is None else f"{result.ratio:.1f}"
            rows.append([run.label, share, broken, f"{result.sigma:.3g}", ratio])
            documents.append({"run": run.label, **result.document()})
    if json:
        print_json(documents[0] if single else documents)
        return
    columns = ("run", "± 2σ covers", "broken", "σ", "error/σ")
    print_table(columns, rows)
    for sentence in sentences:
        print(sentence)


main = {"choose": choose, "recommend": recommend, "audit": audit}

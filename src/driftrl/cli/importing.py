"""``driftrl import``: start a run from a log of the machine."""

import resource
import sys
import time
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import warn
from driftrl.cli.progress import duration, episode_printer
from driftrl.errors import require
from driftrl.types import EpisodeRecord

_SHOWN = 20  # rows, of however many episodes


def main(
    log: Annotated[str, tyro.conf.Positional],
    *,
    out: Path,
    obs: str = "",
    action: str = "",
    reward: str = "",
    episode: str | None = None,
    terminated: str | None = None,
    separator: str = ",",
    skip_gaps: bool = False,
    task: str = "machine:log",
    method: str | None = None,
    config: Path | None = None,
    low: tuple[float, ...] = (),
    high: tuple[float, ...] = (),
    steps: int | None = None,
    updates: int | None = None,
) -> None:
    """Start a run from a log: its episodes are stored and learned from, one by one.

    A row of the log is a moment: what was observed, the action that followed, and what
    that action earned.  Stopped and called again, it goes on.

    Args:
        log: A CSV file with a header, or minari:ID for a data set of Minari.
        out: Directory of the run.
        obs: Columns of the observations, such as a,b,c.
        action: Columns of the actions that were applied.
        reward: Column of the reward.
        episode: Column that changes where an episode begins.
        terminated: Column that is 1 or true where the task ended.
        separator: What separates columns; with ";" a decimal comma is read too.
        skip_gaps: Leave out rows that lack a number; episodes are cut there.
        task: Where the run goes on: MODULE:FACTORY of your environment, a task of
            driftrl, robot:NAME or machine:NAME.
        method: Method of the run (default: as of `driftrl run`).
        config: TOML file with settings.
        low: What actions of −1 are in the log (default: the environment's bounds, or
            the least in the log).
        high: What actions of 1 are.
        steps: Steps of an episode; longer ones are cut (default: the environment's, or
            those of the longest).
        updates: Updates of the model (default: one a transition, 20,000 at most).
    """
    from driftrl.records import read_settings
    from driftrl.training.logs import import_log, read_log

    require(bool(low) == bool(high), "--low and --high need one another; received one.")
    started, printers = time.monotonic(), []
    names = {"obs": obs.split(","), "action": action.split(","), "reward": reward}
    rows = read_log(
        log,
        **{name: value for name, value in names.items() if value != [""]},
        episode=episode,
        terminated=terminated,
        separator=separator,
        skip_gaps=skip_gaps,
    )
    transitions = sum(len(episode.rewards) for episode in rows)
    took = duration(time.monotonic() - started)
    print(f"Read {transitions:,} transitions in {took}.", flush=True)

    def show(record: EpisodeRecord, episodes: int) -> None:
        printers[:] = printers or [episode_printer(episodes)]
        if record.episode % max(1, episodes // _SHOWN) == 0:
            printers[0](record)

    run = import_log(
        rows,
        out,
        task=task,
        method=method,
        bounds=(low, high) if low else None,
        steps=steps,
        updates=updates,
        settings=read_settings(config) if config else None,
        on_episode=show,
        warn=warn,
    )
    unit = 2**20 if sys.platform == "darwin" else 2**10
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
    took = duration(time.monotonic() - started)
    print(f"The run is in {out}; it took {took} and {memory:,} MB of memory.")
    if task.startswith("machine:"):
        low, high = run.environment.low, run.environment.high
        print(f"Actions of −1 and 1 are {list(low)} and {list(high)} in the log.")
        print(f"Go on from Python: driftrl.Session.resume({str(out)!r})")
    else:
        where = "--robot ADDRESS" if task.startswith("robot:") else task
        more = f"--out {out} --resume --episodes {run.episodes + 100}"
        print(f"Go on: driftrl run {where} {more}")

"""Start a run from a log of the machine: a CSV file, or a data set of Minari.

A row of a log is a moment: what was observed, the action that followed, and what that
action earned.  So the last row of an episode counts by its observations alone.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from jaxtyping import Float

from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.config.task import Task
from driftrl.envs.custom import STEPS, Bounds, Env, custom_task, scaled, sized_task
from driftrl.envs.tasks import configure, task_named
from driftrl.errors import InputError, counted, require, shown, unknown_name
from driftrl.training.run_directory import Warn
from driftrl.training.session import Session
from driftrl.types import EpisodeRecord

MINARI = "minari:"
"""Begins the name of a data set, in place of a file's."""
UPDATES = 20_000
"""Of the model, that a log is given at most unless asked for."""


class Logged(NamedTuple):
    """An episode of T steps in a log, its actions in units of their own."""

    obs: Float[np.ndarray, "T1 S"]
    actions: Float[np.ndarray, "T A"]
    rewards: Float[np.ndarray, " T"]
    terminated: bool = False


def read_log(  # noqa: PLR0913 - a column each
    source: str | Path,
    *,
    obs: Sequence[str] = (),
    action: Sequence[str] = (),
    reward: str = "",
    episode: str | None = None,
    terminated: str | None = None,
    separator: str = ",",
    skip_gaps: bool = False,
) -> list[Logged]:
    """Read the episodes of a log.

    Args:
        source: A CSV file with a header, or "minari:" and the id of a data set, which
            needs no further arguments.
        obs: Columns with what was observed.
        action: Columns with the actions that were applied.
        reward: Column with what the action earned.
        episode: Column that changes where an episode begins (default: after rows that
            are terminated; otherwise the log is one episode).
        terminated: Column that is 1 or true in the last row of an episode in which the
            task ended (default: none did).
        separator: What separates columns; with ";" a decimal comma is read too.
        skip_gaps: Leave out rows without a number where one is needed, and cut the
            episode there (default: refuse them).
    """
    if str(source).startswith(MINARI):
        return _read_minari(str(source).removeprefix(MINARI))
    for option, value in {"obs": obs, "action": action, "reward": reward}.items():
        require(bool(value), f"Which columns of {source} are the {option}? --{option}")
    names, flag = [*obs, *action, reward], [terminated] if terminated else []
    text = _columns(source, [*names, *flag, *([episode] if episode else [])], separator)
    lonely = f"{source} has no two rows that follow one another."
    require(len(text) > 1, lonely)
    values = text.select(names + flag).with_columns(polars.all().str.strip_chars())
    if separator == ";":  # where the comma is the decimal sign
        values = values.with_columns(polars.all().str.replace(",", ".", literal=True))
    truth = [polars.col(flag).str.to_lowercase().replace({"true": "1", "false": "0"})]
    numbers = values.with_columns(truth if flag else [])
    matrix = numbers.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
    ends = matrix[:, -1] == 1 if flag else np.zeros(len(matrix), bool)
    begins = np.r_[True, ends[:-1]]
    if episode:
        begins = text[episode].rle_id().diff().fill_null(1).to_numpy() > 0
    matrix = matrix[:, : len(names)]
    missing = ~np.isfinite(matrix)
    missing[np.r_[begins[1:], True], len(obs) :] = False  # leads nowhere
    gaps = missing.any(axis=1)
    if gaps.any() and not skip_gaps:
        row = int(np.argmax(gaps))
        name = names[int(np.argmax(missing[row]))]
        raise InputError(
            f"Line {row + 2} of {source} has {shown(text[name][row] or '')} in column "
            f"{name!r}, where a number is needed (rows like that: {int(gaps.sum())}). "
            "Correct them, or leave them out: --skip-gaps (from Python: "
            "skip_gaps=True) cuts episodes there."
        )
    piece = np.cumsum(begins | gaps)[~gaps]
    seen, done, earned = np.split(matrix[~gaps], [len(obs), len(names) - 1], axis=1)
    ended, edges = ends[~gaps], np.flatnonzero(np.diff(piece, prepend=-1, append=-1))
    log = [
        Logged(seen[a:b], done[a : b - 1], earned[a : b - 1, 0], bool(ended[b - 1]))
        for a, b in pairwise(edges)
        if b - a > 1  # a lone row is no transition
    ]
    require(bool(log), lonely)
    return log


def _columns(
    path: str | Path, names: Sequence[str], separator: str
) -> polars.DataFrame:
    """Return columns of a CSV file as text."""
    try:
        table = polars.scan_csv(path, separator=separator, infer_schema=False)
        table = table.rename(str.strip)
        known = table.collect_schema().names()
        for name in names:
            if name not in known:
                raise unknown_name(f"column of {path}", name, known)
        return table.select(list(dict.fromkeys(names))).collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} can't be read as a CSV file: {reason}") from None


def _read_minari(name: str) -> list[Logged]:
    """Read a data set of Minari by its id; it is downloaded if it is not here."""
    try:
        import minari  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            "Minari's data sets need the extra 'minari': pip install 'driftrl[minari]'."
        ) from None
    try:
        data: Any = minari.load_dataset(name, download=True)
    except Exception as error:  # of many types, from the network to the file format
        raise InputError(f"The data set {name!r} can't be loaded: {error}") from error
    for space in (data.observation_space, data.action_space):
        require(
            len(space.shape or ()) == 1,
            f"Observations and actions of {name!r} must be vectors, received {space}.",
        )
    return [
        Logged(
            episode.observations,
            episode.actions,
            episode.rewards,
            bool(episode.terminations[-1]),
        )
        for episode in data.iterate_episodes()
    ]


def import_log(  # noqa: PLR0913 - every argument but two is optional
    log: Sequence[Logged],
    out: str | Path,
    *,
    task: str | Env = "machine:log",
    method: str | None = None,
    bounds: Bounds | None = None,
    steps: int | None = None,
    updates: int | None = None,
    settings: Mapping[str, Any] | None = None,
    on_episode: Callable[[EpisodeRecord, int], None] = lambda row, episodes: None,
    warn: Warn = warnings.warn,
) -> RunConfig:
    """Make a run of a log: store its episodes, and learn from each in turn.

    Before the model learns from an episode it predicts it, so rows and files are those
    of a run, and its next episode begins with a learned policy.  Called again after it
    was stopped, it goes on.

    Args:
        log: The episodes, in order.
        out: Directory of the run.
        task: Where the run goes on: an environment, "module:factory", a task of
            driftrl, "robot:NAME", or "machine:NAME", which a session drives.
        method: Name of the method (default: as without a log).
        bounds: What actions of −1 and 1 are in the log's units (default: the
            environment's, or for a machine the log's least and most).
        steps: Steps of an episode; longer ones are cut (default: the environment's, or
            those of the longest episode).
        updates: Updates of the model over the whole log (default: one a transition as
            in a run, 20,000 at most).
        settings: Further settings of the run, laid over it table by table.
        on_episode: Called with each row, and with the number of all.
        warn: Called with warnings.
    """
    row, is_machine = _task(task, log, steps), str(task).startswith("machine:")
    low, high = _bounds(row, log, bounds)
    if is_machine:  # nothing else knows them
        row = replace(row, environment=replace(row.environment, low=low, high=high))
    config = configure(row, method, settings)
    parts = [
        part for episode in log for part in _cut(episode, config.environment.steps)
    ]
    more = row.episodes if is_machine else 0
    asked = (settings or {}).get("episodes", 0)
    config = replace(config, episodes=max(len(parts) + more, asked))
    taken = np.cumsum([0, *(len(part.rewards) for part in parts)])
    budget = _budget(config, int(taken[-1])) if updates is None else updates
    with Session(config, out, resume=True, warn=warn) as session:
        _require_same(session, parts)
        for number in range(session.number, len(parts) + 1):
            part = parts[number - 1]
            if session.unlearned is None:
                actions = scaled(part.actions, np.array(low), np.array(high))
                seen = config.environment.limits.observed(part.obs, actions)
                session.add_episode(*seen, part.rewards, terminated=part.terminated)
            share = None
            if budget is not None:
                before, after = budget * taken[number - 1 : number + 1] // taken[-1]
                share = int(after - before)
            on_episode(session.learn(updates=share), len(parts))
    return config


def _task(task: str | Env, log: Sequence[Logged], steps: int | None) -> Task:
    sizes = (log[0].obs.shape[1], log[0].actions.shape[1])
    if isinstance(task, str) and task.startswith(("machine:", "robot:")):
        longest = max(len(episode.rewards) for episode in log)
        whole = longest if len(log) > 1 else min(longest, STEPS)
        return sized_task(task, sizes, steps or whole)
    row = task_named(task) if isinstance(task, str) else custom_task(task)
    expected = row.sizes(row.environment)
    require(
        sizes == expected,
        f"Task {row.name!r} has {expected[0]} observations and {expected[1]} actions; "
        f"the log has {sizes[0]} and {sizes[1]}.",
    )
    environment = row.environment
    if steps is not None:
        environment = replace(environment, sim_steps=steps * environment.action_repeat)
    return replace(row, environment=environment)


def _cut(episode: Logged, steps: int) -> list[Logged]:
    """Cut an episode that is too long; only its last part may be terminated."""
    count = len(episode.rewards)
    return [
        Logged(
            episode.obs[first : first + steps + 1],
            episode.actions[first : first + steps],
            episode.rewards[first : first + steps],
            episode.terminated and first + steps >= count,
        )
        for first in range(0, count, steps)
    ]


def _bounds(task: Task, log: Sequence[Logged], given: Bounds | None) -> Bounds:
    """Return what actions of −1 and 1 are in a log, which must not exceed them."""
    least = np.min([episode.actions.min(axis=0) for episode in log], axis=0)
    most = np.max([episode.actions.max(axis=0) for episode in log], axis=0)
    low, high = given or (task.environment.low, task.environment.high)
    if not low and task.name.startswith("machine:"):
        low, high = tuple(least.tolist()), tuple(most.tolist())
    low, high = low or (-1.0,) * len(least), high or (1.0,) * len(most)
    require(
        len(low) == len(high) == len(least) and bool(np.all(np.less(low, high))),
        f"Each of {len(least)} actions needs bounds, low below high; received low "
        f"{list(low)} and high {list(high)}. Give --low and --high (from Python: "
        "bounds).",
    )
    shares = [scaled(edge, np.array(low), np.array(high)) for edge in (least, most)]
    for index in np.flatnonzero(np.abs(shares).max(axis=0) > 1.001)[:1]:
        raise InputError(
            f"Action {index} (counted from 0) is from {least[index]:.6g} to "
            f"{most[index]:.6g} in the log, beyond its bounds {low[index]:.6g} to "
            f"{high[index]:.6g}. Is it in another unit? --low and --high (from Python: "
            "bounds) say what actions of −1 and 1 are in the log."
        )
    return low, high


def _budget(config: RunConfig, transitions: int) -> int | None:
    """Return the updates for a log that is too long for one a transition, else None."""
    agent = config.agent
    if isinstance(agent, GPAgentConfig) or agent.learning.when == "step":
        return None
    return UPDATES if agent.learning.model_updates * transitions > UPDATES else None


def _require_same(session: Session, parts: Sequence[Logged]) -> None:
    """Refuse to go on in a directory with other episodes than the log's."""
    done, newest = session.number, session.unlearned
    if newest is None:
        done -= 1
        newest = session.memory.episode(done) if done else None
    stored = None if newest is None else newest.obs
    logged = parts[done - 1].obs[:-1] if 0 < done <= len(parts) else None
    if stored is not None:  # of a limited rate it has the actions before, too
        stored = stored[:, : parts[0].obs.shape[1]]
    require(
        stored is None
        or (logged is not None and np.array_equal(stored, logged.astype(stored.dtype))),
        f"{session.directory} holds {counted(done, 'episode')} that are not of this "
        "log: choose another directory (--out). Session.add_episode adds to any run.",
    )

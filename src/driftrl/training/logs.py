"""Start a run from a log of the machine: a CSV file, or a data set of Minari.

A row of a log is a moment: what was observed, the action that followed, and what that
action earned.  So the last row of an episode counts by its observations alone, and an
episode of T + 1 rows has T transitions.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars
from jaxtyping import Bool, Float

from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.config.task import Task
from driftrl.envs.custom import STEPS, Bounds, Env, custom_task, scaled, sized_task
from driftrl.envs.tasks import configure, task_named
from driftrl.errors import InputError, counted, require, unknown_name
from driftrl.training.run_directory import Warn
from driftrl.training.session import Session
from driftrl.types import Episode, EpisodeRecord

MINARI = "minari:"
"""Begins the name of a data set, in place of a file's."""
UPDATES = 20_000
"""Of a model, that importing a log takes at most unless told otherwise."""
_NOT_INSTALLED = (
    "Minari's data sets need the extra 'minari': pip install 'driftrl[minari]'."
)
_FREE = ("machine:", "robot:")  # names of tasks without an environment


class Part(NamedTuple):
    """What ``Session.add_episode`` takes, with actions in the log's own units."""

    obs: Float[np.ndarray, "T1 S"]
    actions: Float[np.ndarray, "T A"]
    rewards: Float[np.ndarray, " T"]
    terminated: bool


@dataclass(frozen=True)
class Log:
    """A log in memory: a row a moment."""

    obs: Float[np.ndarray, "N S"]
    actions: Float[np.ndarray, "N A"]
    rewards: Float[np.ndarray, " N"]
    ends: Bool[np.ndarray, " N"]
    """Whether the task ended in this row."""
    first: Bool[np.ndarray, " N"]
    """Whether this row does not follow the one before it."""
    bounds: Bounds | None = None
    """Of the actions, where the log says it."""
    has_episodes: bool = True
    """Whether the log says where episodes begin."""

    def longest(self) -> int:
        """Return the transitions of the longest episode."""
        edges = [*np.flatnonzero(self.first), len(self.first)]
        return int(np.diff(edges).max()) - 1

    def parts(self, steps: int) -> Iterator[Part]:
        """Return the episodes, those longer than ``steps`` cut; a lone row is none."""
        edges = [*np.flatnonzero(self.first).tolist(), len(self.first)]
        for start, end in pairwise(edges):
            for low in range(start, end - 1, steps):
                high = min(low + steps, end - 1)
                ended = bool(self.ends[high]) and high == end - 1
                rows = slice(low, high)
                obs = self.obs[low : high + 1]
                yield Part(obs, self.actions[rows], self.rewards[rows], ended)


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
) -> Log:
    """Read a log.

    Args:
        source: A CSV file with a header, or "minari:" and the id of a data set, which
            needs no further arguments.
        obs: Columns with what was observed.
        action: Columns with the actions that were applied, in units of their own.
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
    path, names = Path(source), [*obs, *action, reward]
    given = {"obs": obs, "action": action, "reward": reward}
    for argument, value in given.items():
        require(
            bool(value), f"Which columns of {path} are the {argument}? --{argument}"
        )
    flag = [terminated] if terminated else []
    try:
        table = polars.scan_csv(path, separator=separator, infer_schema=False)
        table = table.rename(str.strip)
        columns = table.collect_schema().names()
        wanted = list(dict.fromkeys(filter(None, [*names, *flag, episode])))
        for name in wanted:
            if name not in columns:
                raise unknown_name(f"column of {path}", name, columns)
        text = table.select(wanted).collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} can't be read as a CSV file: {reason}") from None
    require(len(text) > 1, f"{path} has {counted(len(text), 'row')}; a log needs two.")
    values = text.select(names + flag).with_columns(polars.all().str.strip_chars())
    if separator == ";":  # where the comma is the decimal sign
        values = values.with_columns(polars.all().str.replace(",", ".", literal=True))
    truth = {"true": "1", "false": "0"}
    lower = [polars.col(name).str.to_lowercase().replace(truth) for name in flag]
    numbers = values.with_columns(lower).cast(polars.Float64, strict=False)
    matrix = numbers.fill_null(np.nan).to_numpy()
    states, inputs = len(obs), len(action)
    ends = np.zeros(len(matrix), bool)
    if flag:
        ends = matrix[:, -1] == 1
    changed = np.r_[False, ends[:-1]]  # where a new episode begins
    if episode:
        changed = text[episode].rle_id().diff().fill_null(0).to_numpy() > 0
    last = np.r_[changed[1:], True]
    missing = ~np.isfinite(matrix[:, : states + inputs + 1])
    missing[last, states:] = False  # an episode's last action leads nowhere
    gaps = missing.any(axis=1)
    if gaps.any() and not skip_gaps:
        row = int(np.argmax(gaps))
        name = names[int(np.argmax(missing[row]))]
        raise InputError(
            f"Line {row + 2} of {path} has {text[name][row] or ''!r} in column "
            f"{name!r}, where a number is needed; {counted(int(gaps.sum()), 'row')} of "
            "the log lack one. Correct them, or leave them out: --skip-gaps (from "
            "Python: skip_gaps=True) cuts episodes there."
        )
    keep = ~gaps
    pieces = np.cumsum(changed | gaps)[keep]
    require(len(pieces) > 1, f"{path} has no two rows of numbers.")
    return Log(
        obs=matrix[keep, :states],
        actions=matrix[keep, states : states + inputs],
        rewards=matrix[keep, states + inputs],
        ends=ends[keep],
        first=np.r_[True, pieces[1:] != pieces[:-1]],
        has_episodes=bool(episode or terminated),
    )


def _read_minari(name: str) -> Log:
    """Read a data set of Minari by its id; it is downloaded if it is not here."""
    try:
        import minari
    except ImportError:
        raise InputError(_NOT_INSTALLED) from None
    try:
        data: Any = minari.load_dataset(name, download=True)
    except Exception as error:  # of many types, from the network to the file format
        raise InputError(f"Minari has no data set {name!r} here: {error}") from error
    observed, acted = data.observation_space, data.action_space
    for what, space in (("observations", observed), ("actions", acted)):
        require(
            len(space.shape or ()) == 1,
            f"The {what} of {name!r} must be a Box with one axis, received {space}.",
        )
    columns: tuple[list[np.ndarray], ...] = ([], [], [], [], [])
    for episode in data.iterate_episodes():
        rows = len(episode.observations)
        none = np.zeros((1, *acted.shape))
        columns[0].append(np.asarray(episode.observations, np.float64))
        columns[1].append(np.concatenate([episode.actions, none]))
        columns[2].append(np.append(episode.rewards, 0.0))
        columns[3].append(np.arange(rows) == rows * bool(episode.terminations[-1]) - 1)
        columns[4].append(np.arange(rows) == 0)
    obs, actions, rewards, ends, first = map(np.concatenate, columns)
    bounds = (tuple(acted.low.tolist()), tuple(acted.high.tolist()))
    known = bool(np.isfinite(bounds).all())
    return Log(obs, actions, rewards, ends, first, bounds if known else None)


@dataclass(frozen=True)
class Imported:
    """What became of a log."""

    directory: Path
    task: str
    episodes: int
    transitions: int
    steps: int
    """Steps of the longest episode that the run allows; longer ones were cut."""
    low: tuple[float, ...]
    """What actions of −1 are in the log's units."""
    high: tuple[float, ...]


def import_log(  # noqa: PLR0913 - every argument but two is optional
    log: Log,
    out: str | Path,
    *,
    task: str | Env | None = None,
    method: str | None = None,
    bounds: Bounds | None = None,
    steps: int | None = None,
    updates: int | None = None,
    settings: Mapping[str, Any] | None = None,
    on_episode: Callable[[EpisodeRecord, int], None] = lambda row, episodes: None,
    warn: Warn = warnings.warn,
) -> Imported:
    """Make a run of a log: store its episodes, and learn from each in turn.

    Before the model learns from an episode it predicts it, so rows and files are those
    of a run, and its next episode begins with a learned policy.  Called again after it
    was stopped, it goes on.

    Args:
        log: Of ``read_log``.
        out: Directory of the run.
        task: Where the run will go on: an environment, "module:factory", a task of
            driftrl, "robot:NAME", or by default "machine:log", which a session drives.
        method: Name of the method (default: as without a log).
        bounds: What actions of −1 and 1 are in the log's units (default: what the
            environment or the log says, or for a machine the log's least and most).
        steps: Steps of an episode; longer ones are cut (default: the environment's, or
            those of the longest episode).
        updates: Updates of the model over the whole log (default: one a transition as
            in a run, 20,000 at most).
        settings: Further settings of the run, laid over it table by table.
        on_episode: Called with each row, and with the number of all.
        warn: Called with warnings.
    """
    sizes = (log.obs.shape[1], log.actions.shape[1])
    row = _task(task, log, sizes, steps)
    low, high = _bounds(row, log, bounds)
    if row.name.startswith("machine:"):
        named = replace(row.environment, low=low, high=high)
        row = replace(row, environment=named)
    config = configure(row, method, settings)
    parts = list(log.parts(config.environment.steps))
    transitions = sum(len(part.rewards) for part in parts)
    more = row.episodes if row.name.startswith("machine:") else 0
    planned = max(len(parts) + more, (settings or {}).get("episodes", 0))
    config = replace(config, episodes=planned)
    taken, shares = 0, _updates(config, updates, transitions)
    with Session(config, out, resume=True, warn=warn) as session:
        _require_same(session, parts, Path(out))
        for number, part in enumerate(parts, start=1):
            before, taken = taken, taken + len(part.rewards)
            if number < session.number:
                continue
            if session.unlearned is None:
                actions = scaled(part.actions, np.array(low), np.array(high))
                ended = part.terminated
                session.add_episode(part.obs, actions, part.rewards, terminated=ended)
            record = session.learn(updates=shares(before, taken))
            on_episode(record, len(parts))
    limit = config.environment.steps
    return Imported(Path(out), row.name, len(parts), transitions, limit, low, high)


def _task(
    task: str | Env | None, log: Log, sizes: tuple[int, int], steps: int | None
) -> Task:
    name = task or "machine:log"
    if isinstance(name, str) and name.startswith(_FREE):
        longest = log.longest() if log.has_episodes else min(log.longest(), STEPS)
        return sized_task(name, sizes, max(steps or longest, 1))
    row = task_named(name) if isinstance(name, str) else custom_task(name)
    expected = row.sizes(row.environment)
    require(
        sizes == expected,
        f"Task {row.name!r} has {expected[0]} observations and {expected[1]} actions; "
        f"the log has {sizes[0]} and {sizes[1]}.",
    )
    if steps is None:
        return row
    return replace(row, environment=replace(row.environment, sim_steps=steps))


def _bounds(task: Task, log: Log, given: Bounds | None) -> Bounds:
    """Return what actions of −1 and 1 are in the log, and check that it holds them."""
    environment, inputs = task.environment, log.actions.shape[1]
    followed = ~np.r_[log.first[1:], True]  # others are not used, and may be NaN
    least, most = (log.actions[followed].min(axis=0), log.actions[followed].max(axis=0))
    bounds = given or log.bounds
    if bounds is None and environment.low:
        bounds = (environment.low, environment.high)
    elif bounds is None and task.name.startswith("machine:"):
        bounds = (tuple(least.tolist()), tuple(most.tolist()))
    low, high = bounds or ((-1.0,) * inputs, (1.0,) * inputs)
    require(
        len(low) == len(high) == inputs and all(map(float.__lt__, low, high)),
        f"The bounds of {counted(inputs, 'action')} must be {inputs} numbers each, low "
        f"below high; received low {list(low)} and high {list(high)}. Give them with "
        "--low and --high (from Python: bounds).",
    )
    room = 1e-3 * (np.array(high) - low)
    outside = np.flatnonzero((least < low - room) | (most > high + room))
    for index in outside[:1]:
        raise InputError(
            f"Action {index} (counted from 0) is from {least[index]:.6g} to "
            f"{most[index]:.6g} in the log, beyond its bounds {low[index]:.6g} to "
            f"{high[index]:.6g}. Is it in another unit? --low and --high (from Python: "
            "bounds) say what actions of −1 and 1 are in the log's units."
        )
    return low, high


def _updates(
    config: RunConfig, asked: int | None, transitions: int
) -> Callable[[int, int], int | None]:
    """Return how many updates follow the transitions from one number to another.

    None where an agent decides that itself, as it does in a run.
    """
    agent = config.agent
    if isinstance(agent, GPAgentConfig) or agent.learning.when == "step":
        require(asked is None, f"agent.kind = {agent.kind!r} takes no --updates here.")
        return lambda before, taken: None
    total = agent.learning.model_updates * transitions
    if asked is None and total <= UPDATES:
        return lambda before, taken: None
    budget = UPDATES if asked is None else asked
    share = lambda taken: budget * taken // transitions
    return lambda before, taken: share(taken) - share(before)


def _require_same(session: Session, parts: Sequence[Part], path: Path) -> None:
    """Refuse to go on in a directory with other episodes than the log's."""
    newest = session.unlearned
    done = session.number - (newest is None)
    if newest is None and 1 <= done <= len(parts):
        newest = session.memory.episode(done)
    same = done == 0 or (newest is not None and _equal(newest, parts[done - 1 : done]))
    require(
        same,
        f"{path} holds {counted(done, 'episode')} that are not of this log: choose "
        "another directory (--out). Session.add_episode adds to any run.",
    )


def _equal(episode: Episode, parts: Sequence[Part]) -> bool:
    obs = parts[0].obs.astype(episode.obs.dtype) if parts else None
    return np.array_equal(episode.obs, [] if obs is None else obs[:-1])

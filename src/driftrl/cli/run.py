"""``driftrl run``: one method on one task, in one directory."""

import argparse
import gc
import os
import tomllib
from contextlib import closing
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from driftrl.cli.options import tidy_help, warn
from driftrl.cli.progress import episode_printer
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden, to_dict
from driftrl.drift.schedules import Unknown
from driftrl.envs.custom import STEPS, is_custom
from driftrl.envs.limits import with_limits
from driftrl.envs.tasks import check_fits, configure, task_named, task_of_robot
from driftrl.errors import InputError, require
from driftrl.memory.forgetting import KeepAll
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS
from driftrl.records import CONFIG_FILE, read_settings
from driftrl.tracking import tracking
from driftrl.training import loop
from driftrl.training.loop import OnEpisode
from driftrl.training.run_directory import read_config
from driftrl.training.session import Session
from driftrl.types import EpisodeRecord

if TYPE_CHECKING:
    from driftrl.robot.client import RemoteEnv

_KINDS = {"drift": "linear", "forgetting": "reset", "agent": "sac"}  # with an example
# Stand for users' objects, which tyro can't parse.
_PLACEHOLDERS = {"drift": Unknown(), "forgetting": KeepAll()}
_OPTIONS = {
    "--method": (
        "NAME",
        "method (default: that of the forgetting rule, else sw-ombrl, or "
        "adaptive on your own environment)",
    ),
    "--config": ("FILE", "TOML file with settings"),
    "--out": ("DIR", "directory of the run (default: runs/<name of the run>)"),
    "--robot": ("ADDRESS", "drive the robot at tcp://HOST:PORT (see driftrl robot)"),
    "--token-file": ("FILE", "the robot's token, if it asks for one"),
    "--track": ("NAME", "also log to tensorboard or wandb, in OUT/NAME"),
}
_SWITCHES = {
    "--resume": "continue the run in --out",
    "--change": "with --resume: continue with other settings",
    "--quiet": "print no episodes",
}


def main(argv: list[str]) -> int:
    """Run one configuration and print where its results are."""
    named = argv[:1] if argv and not argv[0].startswith("-") else []
    options, flags = _parser().parse_known_args(argv[len(named) :])
    options.task = named[0] if named else None
    if options.help and options.task is None and options.robot is None:
        _parser().print_help()
        return 0
    robot = _connect(options) if options.robot else None
    config = _config(options, flags, robot)
    segment = options.segment
    config = config if segment is None else config.in_segments(segment)
    if robot is not None:
        _check_keeps_pace(config, robot)
    if config.background:  # or an action would wait for what the thread computes
        os.environ["NPROC"] = "2"
    out = Path(options.out) if options.out else Path("runs") / config.name
    if options.resume and not (out / CONFIG_FILE).is_file():
        warn(f"{out} holds no run yet: a new one begins.")
    show = episode_printer(config.episodes)
    try:
        with tracking(options.track, out, config, warn=warn) as track:

            def on_episode(record: EpisodeRecord) -> None:
                if not options.quiet:
                    show(record)
                track(record)

            continued = {"resume": options.resume, "change": options.change}
            if robot is not None:
                session = Session(config, out, **continued, warn=warn)
                _learn_on(robot, session, on_episode)
            else:
                is_assumed = is_custom(config.task) and not config.continuing
                is_assumed &= config.environment.sim_steps == STEPS
                if is_assumed and (notes := task_named(config.task).notes):
                    warn(notes)
                loop.run(config, out, **continued, on_episode=on_episode, warn=warn)
    except KeyboardInterrupt:
        warn(f"stopped. Finished episodes are in {out}; go on with --resume.")
        return 130
    print(f"Results are in {out}/episodes.jsonl")
    return 0


def _learn_on(robot: "RemoteEnv", session: Session, on_episode: OnEpisode) -> None:
    """Drive a robot, with nothing that delays an action within an episode."""
    from driftrl.robot.timing import undisturbed

    def between(record: EpisodeRecord) -> None:
        on_episode(record)
        gc.collect()

    with session, closing(robot), undisturbed():
        limits = session.config.environment.limits
        env = with_limits(robot, limits)
        loop.run_session(session, env, on_episode=between, warn=warn)
    delays = robot.thinking
    acting = f"Acting took {delays}" if delays.count else "No action was taken"
    print(f"{acting}; episodes aborted and started again: {robot.aborted}.")


def _check_keeps_pace(config: RunConfig, robot: "RemoteEnv") -> None:
    """Refuse an agent that would learn while the robot waits for an action."""
    agent = config.agent
    require(
        isinstance(agent, GPAgentConfig)
        or agent.learning.when == "episode"
        or not robot.robot.real_time,
        "A robot does not wait while its learner learns within an episode: "
        "agent.learning.when must be 'episode', received 'step'.",
    )


def _connect(options: argparse.Namespace) -> "RemoteEnv":
    from driftrl.robot.client import RemoteEnv
    from driftrl.robot.transport import read_token

    token = read_token(Path(options.token_file) if options.token_file else None)
    return RemoteEnv(options.robot, token, warn=warn)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="driftrl run",
        usage="driftrl run [TASK] [OPTIONS] [SETTINGS]",
        description="Run one method on one task, or on MODULE:FACTORY of your own. "
        "Every setting is a flag, such as --episodes 20 --forgetting.window 3 "
        "--drift.rate 0.5: `driftrl run TASK --help` lists them.",
        epilog=f"Tasks: {', '.join(TASKS)}. Methods: {', '.join(METHODS)}.",
        add_help=False,
        allow_abbrev=False,
    )
    for flag, (metavar, text) in _OPTIONS.items():
        parser.add_argument(flag, metavar=metavar, help=text)
    text = "decisions of a segment; implies --continuing"
    parser.add_argument("--segment", metavar="N", help=text, type=int)
    for flag, text in _SWITCHES.items():
        parser.add_argument(flag, action="store_true", help=text)
    for table, example in _KINDS.items():
        text = f"which {table}, such as {example}"
        text += " or your own MODULE:NAME" if table in _PLACEHOLDERS else ""
        flags = (f"--{table}", f"--{table}.kind")
        parser.add_argument(*flags, metavar="KIND", help=text, dest=table)
    parser.add_argument("-h", "--help", action="store_true", help="show this help")
    return parser


def _config(
    options: argparse.Namespace, flags: list[str], robot: "RemoteEnv | None"
) -> RunConfig:
    """Return the run that options and flags ask for."""
    changes = read_settings(Path(options.config)) if options.config else {}
    if options.method:
        changes["method"] = options.method
    out = Path(options.out or "")
    is_stored = options.resume and options.out and (out / CONFIG_FILE).is_file()
    stored = read_config(out) if is_stored else None
    tables = to_dict(stored) if stored else {}
    for table in _KINDS:
        kind = getattr(options, table) or changes.get(table)
        if isinstance(kind, str):
            changes[table] = {"kind": kind}
        if _has_plugin(changes.get(table) or tables.get(table)):
            settings, flags = _plugin_settings(table, flags)
            changes[table] = {**changes.get(table, {}), **settings}
    task = task_of_robot(robot.robot, options.task) if robot else options.task
    if task is not None:
        _, _, rule = str(changes.get("forgetting", {}).get("kind")).partition(":")
        if rule:
            changes.setdefault("variant", rule)
        default = configure(task, options.method, changes)
    elif stored is not None:
        default = overridden(stored, changes)
    else:
        raise InputError(
            f"Which task? Known: {', '.join(TASKS)}; or MODULE:FACTORY of your own "
            "environment. It comes first: driftrl run TASK. Only --resume --out DIR "
            "with a run in DIR needs none."
        )
    # Settings of users' classes are taken from the flags already.
    tables = to_dict(default)
    names = [name for name in _PLACEHOLDERS if _has_plugin(tables[name])]
    parsed = replace(default, **{name: _PLACEHOLDERS[name] for name in names})
    if options.help:
        _parser().print_help()
        print("\nSettings, with the defaults of this task and method:\n")
        flags = ["--help"]
    for value in filter(is_dataclass, (parsed, *vars(parsed).values())):
        tidy_help(type(value))
    config = tyro.cli(
        RunConfig,
        args=flags,
        prog=f"driftrl run {default.task}",
        default=parsed,
        config=(tyro.conf.AvoidSubcommands, tyro.conf.DisallowNone),
    )
    config = replace(config, **{name: getattr(default, name) for name in names})
    check_fits(config)
    return config


def _has_plugin(table: Any) -> bool:
    """Return whether a table, or one within it, is of a user's class."""
    if isinstance(table, list):
        return any(map(_has_plugin, table))
    if not isinstance(table, dict):
        return False
    return ":" in str(table.get("kind")) or any(map(_has_plugin, table.values()))


def _plugin_settings(table: str, flags: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Take the settings of a user's class, such as --drift.rate 3, from the flags."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in {word.partition("=")[0] for word in flags}:
        if flag.startswith(f"--{table}."):
            name = flag.removeprefix(f"--{table}.").replace("-", "_")
            parser.add_argument(flag, nargs="*", dest=name)
    given, rest = parser.parse_known_args(flags)
    settings: dict[str, Any] = {}
    for name, words in vars(given).items():
        values = [_value(word) for word in words]
        settings[name] = values[0] if len(values) == 1 else values or True
    return settings, rest


def _value(word: str) -> Any:
    """Read a word as a TOML value, or as plain text."""
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except (ValueError, RecursionError):
        return word

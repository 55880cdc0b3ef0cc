"""``driftrl run``: one method on one task, in one directory."""

import argparse
import os
import sys
import tomllib
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from driftrl.cli.on_robot import (
    check_answers_in_time,
    connect,
    learn_on_robot,
    task_of_robot,
)
from driftrl.cli.options import tidy_help
from driftrl.cli.progress import run_progress
from driftrl.config.run import RunConfig
from driftrl.config.toml import (
    from_dict,
    overridden,
    read_toml,
    to_dict,
    upgraded,
)
from driftrl.drift.schedules import Unknown
from driftrl.envs.custom import STEPS, is_custom
from driftrl.envs.tasks import check_fits, configure, task_named
from driftrl.errors import InputError, at_least, require
from driftrl.memory.forgetting import KeepAll
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS
from driftrl.records import BESIDE_SETTINGS, CONFIG_FILE
from driftrl.tracking import tracking
from driftrl.types import EpisodeRecord
from driftrl.video import headless, require_installed

if TYPE_CHECKING:
    from driftrl.robot.client import RemoteEnv
    from driftrl.robot.protocol import Welcome
    from driftrl.video import Camera

_METHOD = "sw-ombrl"
_KINDS = ("drift", "forgetting", "agent")
# Stand for users' objects while the flags are parsed.
_PLACEHOLDERS = {"drift": Unknown(), "forgetting": KeepAll()}


def main(argv: list[str]) -> int:
    """Run one configuration and say where its results are."""
    options, flags = _parsed(argv)
    if options.help and options.task is None and options.robot is None:
        _parser().print_help()
        return 0
    robot = _robot(options)
    config = _config(options, flags, None if robot is None else robot.robot)
    if robot is not None:
        check_answers_in_time(config, robot.robot)
    out = Path(options.out) if options.out else Path("runs") / config.name
    camera = _camera(options.video_every, config, out)
    continued = {"resume": options.resume, "change": options.change}
    try:
        with (
            run_progress(config, quiet=options.quiet) as progress,
            tracking(options.track, out, config, warn=progress.warn) as track,
        ):

            def show(record: EpisodeRecord) -> None:
                progress.show(record)
                track(record)

            if options.resume and not (out / CONFIG_FILE).is_file():
                progress.warn(f"{out} holds no run yet: a new one begins.")
            if robot is not None:
                from driftrl.training.session import Session

                session = Session(config, out, **continued, warn=progress.warn)
                learn_on_robot(session, robot, show, progress.warn)
            else:
                from driftrl.training.loop import run

                if notes := _assumed_length(config):
                    progress.warn(notes)
                run(
                    config,
                    out,
                    **continued,
                    on_episode=show,
                    warn=progress.warn,
                    watch=camera,
                )
    except KeyboardInterrupt:
        print(
            f"driftrl: stopped. Finished episodes are in {out}; the same command with "
            "--resume continues.",
            file=sys.stderr,
        )
        return 130
    print(f"Results are in {out}/episodes.jsonl")
    if camera is not None:
        print(f"Videos are in {camera.directory}")
    return 0


def _robot(options: argparse.Namespace) -> "RemoteEnv | None":
    if options.robot is None:
        return None
    require(
        options.video_every is None,
        "--video-every needs a simulator; leave it out with --robot.",
    )
    return connect(options.robot, options.token_file)


def _assumed_length(config: RunConfig) -> str:
    """Return what length of an episode is assumed, where an environment has none."""
    if not is_custom(config.task) or config.environment.sim_steps != STEPS:
        return ""
    return task_named(config.task).notes


def _camera(every: int | None, config: RunConfig, out: Path) -> "Camera | None":
    """Return what films the run, once it is known to work; None if not asked for."""
    if every is None:
        return None
    at_least("--video-every", every, 1)
    require_installed()
    headless(os.environ)
    from driftrl.video import Camera, check_video

    return Camera(out / "videos", every, config.episodes, check_video(config))


def _parsed(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of the command, and the flags of the configuration.

    A robot or a resumed run has its task already: then a bare word after a flag is the
    flag's value, as the 9 in ``--resume --out DIR --episodes 9``.
    """
    options, flags = _parser().parse_known_args(argv)
    known = options.robot is not None or _stored(options) is not None
    task = options.task or ""
    if known and argv[0].startswith("-") and not (task in TASKS or is_custom(task)):
        return _parser(with_task=False).parse_known_args(argv)
    return options, flags


def _parser(*, with_task: bool = True) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="driftrl run",
        description="Run one method on one task. Every setting is a flag, such as "
        "--episodes 20 --forgetting.window 3 --drift.rate 0.5: `driftrl run TASK "
        "--help` lists them.",
        epilog=f"Tasks: {', '.join(TASKS)}. Methods: {', '.join(METHODS)}.",
        add_help=False,
        allow_abbrev=False,
    )
    parser.set_defaults(task=None)

    def add(flag: str, metavar: str, text: str, **more: Any) -> None:
        parser.add_argument(flag, metavar=metavar, help=text, **more)

    def switch(flag: str, text: str, *short: str) -> None:
        parser.add_argument(*short, flag, action="store_true", help=text)

    if with_task:
        add("task", "TASK", "a task, or MODULE:FACTORY of your own", nargs="?")
    add("--method", "NAME", f"method (default: {_METHOD})")
    add("--config", "FILE", "TOML file with settings")
    add("--out", "DIR", "directory of the run (default: runs/<name of the run>)")
    switch("--resume", "continue the run in --out")
    switch("--change", "with --resume: continue with other settings")
    add("--video-every", "N", "film episodes 1, N + 1, … and the last", type=int)
    add("--robot", "ADDRESS", "drive the robot at tcp://HOST:PORT (see driftrl robot)")
    add("--token-file", "FILE", "the robot's token, if it asks for one")
    add("--track", "NAME", "also log to tensorboard or wandb, in OUT/NAME")
    switch("--quiet", "print no episodes")
    for table, example in zip(_KINDS, ("linear", "reset", "sac"), strict=True):
        text = f"which {table}, such as {example}"
        text += " or your own MODULE:NAME" if table in _PLACEHOLDERS else ""
        parser.add_argument(
            f"--{table}", f"--{table}.kind", metavar="KIND", help=text, dest=table
        )
    switch("--help", "show this help", "-h")
    return parser


def _stored(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the settings of the run that is to be resumed, if it is there."""
    path = Path(options.out or "") / CONFIG_FILE
    if not (options.resume and options.out and path.is_file()):
        return None
    return _settings_in(path)


def _settings_in(path: Path) -> dict[str, Any]:
    """Return the settings in a file, which may be that of a run."""
    table = upgraded(read_toml(path))
    return {k: v for k, v in table.items() if k not in BESIDE_SETTINGS}


def _config(
    options: argparse.Namespace, flags: list[str], robot: "Welcome | None"
) -> RunConfig:
    """Return the run that options and flags ask for."""
    changes = _settings_in(Path(options.config)) if options.config else {}
    stored = _stored(options) or {}
    for table in _KINDS:
        kind = getattr(options, table)
        if kind is not None:
            changes[table] = {"kind": kind}
        if isinstance(changes.get(table), str):
            changes[table] = {"kind": changes[table]}
        if _has_plugin(changes.get(table) or stored.get(table)):
            settings, flags = _plugin_settings(table, flags)
            changes[table] = {**changes.get(table, {}), **settings}
    default = _default(options, changes, robot)
    # Settings of users' classes are taken from the flags already.
    tables = to_dict(default)
    plugins = {
        table: getattr(default, table)
        for table in _PLACEHOLDERS
        if _has_plugin(tables[table])
    }
    parsed = replace(default, **{table: _PLACEHOLDERS[table] for table in plugins})
    if options.help:
        _parser().print_help()
        print("\nSettings, with the defaults of this task and method:\n")
        flags = ["--help"]
    if "forgetting" not in plugins:
        _check_rule_flags(default, flags)
    tidy_help(parsed)
    config = tyro.cli(
        RunConfig,
        args=flags,
        prog=f"driftrl run {default.task}",
        default=parsed,
        config=(tyro.conf.AvoidSubcommands,),
    )
    config = replace(config, **plugins)
    check_fits(config)
    return config


def _default(
    options: argparse.Namespace, changes: dict[str, Any], robot: "Welcome | None"
) -> RunConfig:
    """Return the run before its flags: of a robot, of a task, or the one resumed."""
    method, fresh = _METHOD, changes
    rule = changes.get("forgetting") or {}
    if _has_plugin(rule):
        method, name = "custom", str(rule["kind"]).partition(":")[2]
        fresh = {"variant": name, **changes}
    method = options.method or method
    if robot is not None:
        return configure(task_of_robot(robot, options.task), method, fresh)
    if options.task is not None and not options.task.startswith("-"):
        return configure(options.task, method, fresh)
    stored = _stored(options)
    if stored is None:
        raise InputError(
            f"Which task? Known: {', '.join(TASKS)}; or MODULE:FACTORY of your own "
            "environment. Only --resume --out DIR with a run in DIR needs none."
        )
    if options.method is not None:
        changes["method"] = options.method
    return overridden(from_dict(RunConfig, stored), changes)


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


def _check_rule_flags(config: RunConfig, flags: list[str]) -> None:
    """Refuse a flag of another method's forgetting rule, and say whose it is."""
    rule = config.forgetting
    for flag in flags:
        prefix, _, name = flag.partition("=")[0].replace("-", "_").rpartition(".")
        if prefix != "__forgetting" or name in _settings(rule):
            continue
        task = task_named("pendulum")
        rules = {other.name: other.forgetting(task) for other in METHODS.values()}
        owners = [method for method, other in rules.items() if name in _settings(other)]
        if owners:
            what = "keeps all data" if isinstance(rule, KeepAll) else f"has {rule!r}"
            raise InputError(
                f"{config.method} {what}; --forgetting.{name} applies to "
                f"{' and '.join(owners)}."
            )


def _settings(rule: Any) -> set[str]:
    return {item.name for item in fields(rule)} if is_dataclass(rule) else set()

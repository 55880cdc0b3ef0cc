"""``driftrl run``: one method on one task, in one directory."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from driftrl.cli.on_robot import (
    check_answers_in_time,
    connect,
    learn_on_robot,
    task_of_robot,
)
from driftrl.cli.progress import run_progress
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, overridden, read_toml
from driftrl.envs.custom import STEPS, is_custom
from driftrl.envs.tasks import check_fits, configure, task_named
from driftrl.errors import InputError, at_least, require
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS
from driftrl.records import BESIDE_SETTINGS, CONFIG_FILE
from driftrl.training.process import prepare
from driftrl.training.tracking import tracking
from driftrl.training.video import headless, require_installed
from driftrl.types import EpisodeRecord

if TYPE_CHECKING:
    from driftrl.robot.protocol import Welcome
    from driftrl.training.filming import Camera

_METHOD = "sw-ombrl"
_KINDS = ("drift", "forgetting", "agent")


def main(argv: list[str]) -> int:
    """Run one configuration and say where its results are."""
    own, rest = _parsed(argv)
    if own.help and own.task is None and own.robot is None:
        _parser().print_help()
        return 0
    require(
        own.robot is None or own.video_every is None,
        "A robot is not filmed by its learner: leave out --video-every.",
    )
    robot = None if own.robot is None else connect(own.robot, own.token_file)
    config = _config(own, rest, None if robot is None else robot.robot)
    if robot is not None:
        check_answers_in_time(config, robot.robot)
    out = Path(own.out) if own.out else Path("runs") / config.name
    prepare(os.environ)
    camera = _camera(own.video_every, config, out)
    continued = {"resume": own.resume, "change": own.change}
    try:
        with (
            run_progress(config, quiet=own.quiet) as progress,
            tracking(own.track, out, config, warn=progress.warn) as track,
        ):

            def show(record: EpisodeRecord) -> None:
                progress.show(record)
                track(record)

            if own.resume and not (out / CONFIG_FILE).is_file():
                progress.warn(f"{out} holds no run yet: a new one begins.")
            if robot is None and (assumed := _assumed(config)):
                progress.warn(assumed)
            if robot is not None:
                from driftrl.training.session import Session

                session = Session(config, out, **continued, warn=progress.warn)
                learn_on_robot(session, robot, show, progress.warn)
            else:
                from driftrl.training.loop import run

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
            f"driftrl: stopped. At most the running episode is lost; go on with the "
            f"same command and --resume (files are in {out}).",
            file=sys.stderr,
        )
        return 130
    print(f"Results are in {out}/episodes.jsonl")
    if camera is not None:
        print(f"Videos are in {camera.directory}")
    return 0


def _camera(every: int | None, config: RunConfig, out: Path) -> "Camera | None":
    """Return what films the run, once it is known that it can; None if not asked."""
    if every is None:
        return None
    at_least("--video-every", every, 1)
    require_installed()
    headless(os.environ)
    from driftrl.training.filming import Camera, try_out

    return Camera(out / "videos", every, config.episodes, try_out(config))


def _parsed(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the words that are ours and those that are the configuration's.

    Where a robot or the run that is resumed says which task it is, no bare word need be
    its name: in ``--resume --out DIR --episodes 9`` the 9 is none.
    """
    own, rest = _parser().parse_known_args(argv)
    told = own.robot is not None or _stored(own) is not None
    if told and argv[0].startswith("-") and not _is_task(own.task):
        return _parser(with_task=False).parse_known_args(argv)
    return own, rest


def _assumed(config: RunConfig) -> str:
    """Say which length of an episode is assumed, where a machine declares none."""
    if not is_custom(config.task) or config.environment.sim_steps != STEPS:
        return ""
    return task_named(config.task).notes


def _is_task(word: str | None) -> bool:
    return word is not None and (word in TASKS or is_custom(word))


def _stored(own: argparse.Namespace) -> dict[str, Any] | None:
    """Return the configuration of the run that is to be resumed, if it is there."""
    path = Path(own.out or "") / CONFIG_FILE
    if not (own.resume and own.out and path.is_file()):
        return None
    return _settings_in(path)


def _settings_in(path: Path) -> dict[str, Any]:
    """Return the settings in a file, which may be that of a run."""
    table = read_toml(path)
    return {k: v for k, v in table.items() if k not in BESIDE_SETTINGS}


def _parser(*, with_task: bool = True) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="driftrl run",
        description="Run one method on one task. Every field of the configuration is "
        "a flag, e.g. --episodes 20 --forgetting.window 3 --drift.rate 0.5: "
        "`driftrl run TASK --help` lists them.",
        epilog=f"Tasks: {', '.join(TASKS)}. Methods: {', '.join(METHODS)}.",
        add_help=False,
        allow_abbrev=False,
    )
    parser.set_defaults(task=None)
    if with_task:
        parser.add_argument(
            "task", nargs="?", help="name of the task, or MODULE:FACTORY of your own"
        )
    parser.add_argument("--method", help=f"name of the method (default: {_METHOD})")
    parser.add_argument("--config", help="TOML file whose settings are laid over these")
    parser.add_argument("--out", help="directory (default: runs/<name of the run>)")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run that is in --out"
    )
    parser.add_argument(
        "--change",
        action="store_true",
        help="with --resume: go on with other settings than it was begun with",
    )
    parser.add_argument(
        "--video-every",
        type=int,
        metavar="N",
        help="film the episodes 1, N + 1, 2N + 1, … and the last, into OUT/videos",
    )
    parser.add_argument(
        "--robot",
        metavar="ADDRESS",
        help="drive the robot there, e.g. tcp://127.0.0.1:5557 (see driftrl robot); "
        "it says what it is, so the task may be left out",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="the robot's token, if it asks for one"
    )
    parser.add_argument(
        "--track",
        metavar="NAME",
        help="write every episode for tensorboard or wandb too, into OUT/NAME; wandb "
        "stays offline unless WANDB_MODE says otherwise",
    )
    parser.add_argument("--quiet", action="store_true", help="print no episodes")
    for table in _KINDS:
        parser.add_argument(f"--{table}.kind", help=f"which {table}; then its fields")
    parser.add_argument("-h", "--help", action="store_true", help="show this help")
    return parser


def _default(own: argparse.Namespace, robot: "Welcome | None") -> RunConfig:
    """Return the run that the flags of the configuration are laid over."""
    changes = _settings_in(Path(own.config)) if own.config else {}
    for table in _KINDS:
        kind = getattr(own, f"{table}.kind")
        if kind is not None:
            changes[table] = {"kind": kind}
    if robot is not None:
        task = task_of_robot(robot, own.task)
        return configure(task, own.method or _METHOD, changes)
    if own.task is not None and not own.task.startswith("-"):
        return configure(own.task, own.method or _METHOD, changes)
    stored = _stored(own)
    if stored is None:
        raise InputError(
            f"Which task? Known: {', '.join(TASKS)}; or an environment of your own, "
            "MODULE:FACTORY. It may be left out with --resume --out DIR, if DIR holds "
            "a run."
        )
    if own.method is not None:
        changes["method"] = own.method
    return overridden(from_dict(RunConfig, stored), changes)


def _config(
    own: argparse.Namespace, rest: list[str], robot: "Welcome | None"
) -> RunConfig:
    default = _default(own, robot)
    if own.help:
        _parser().print_help()
        print("\nThe configuration, with this task's and method's defaults:\n")
        rest = ["--help"]
    config = tyro.cli(
        RunConfig,
        args=rest,
        prog=f"driftrl run {default.task}",
        default=default,
        config=(tyro.conf.AvoidSubcommands,),
    )
    check_fits(config)
    return config

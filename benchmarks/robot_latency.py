"""How fast a learner answers a robot: two processes at 30 Hz, as on a real machine.

The robot is ``driftrl robot TASK``; the learner is a session with the task's own agent,
which learns a little between episodes.  Printed: how long the learner thinks, how long
the robot waits for answers, and how many deadlines were missed.  ``--load 4`` starts
four busy processes beside them, to see that what is missed is counted.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from driftrl.training.process import prepare

prepare(os.environ)

from driftrl.config.run import RunConfig  # noqa: E402
from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.errors import EpisodeAborted  # noqa: E402
from driftrl.presets.tasks import TASKS  # noqa: E402
from driftrl.robot.client import RemoteEnv  # noqa: E402
from driftrl.robot.timing import Delays, undisturbed  # noqa: E402
from driftrl.training.loop import collect  # noqa: E402
from driftrl.training.session import Session  # noqa: E402

ADDRESS = "tcp://127.0.0.1:5561"
BUSY = "while True: pass"


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    task = "rccar" if "rccar" in TASKS else "pendulum-decay"
    parser.add_argument("--task", default=task)
    parser.add_argument("--method", default="sw-ombrl")
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--period", type=float, default=1 / 30, help="seconds")
    parser.add_argument("--updates", type=int, default=20, help="between episodes")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside")
    parser.add_argument("--attempts", type=int, default=0, help="at an end after these")
    return parser.parse_args()


@contextlib.contextmanager
def running(*command: str) -> Iterator[None]:
    """Run a program of Python within this, and leave its words unread."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def learn(
    config: RunConfig, robot: RemoteEnv, directory: Path, own: argparse.Namespace
) -> None:
    """Drive and learn, as ``driftrl run --robot`` does, within so many attempts."""
    attempts = own.attempts or 3 * own.episodes
    with Session(config, directory) as session:
        while session.number <= own.episodes and attempts > 0:
            attempts -= 1
            try:
                with undisturbed():
                    collect(session, robot, config.seed, place=session.place)
            except EpisodeAborted as aborted:
                session.abort_episode()
                print(aborted, flush=True)
                continue
            session.end_episode()
            session.learn(updates=own.updates)


def report(own: argparse.Namespace, robot: RemoteEnv, log: Path) -> Iterator[str]:
    """Yield what both sides counted."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    finished = [row for row in rows if row["event"] == "finished"]
    stops = [row for row in rows if row["event"] == "halted"]
    waits = [Delays(**row["answers"]) for row in finished]
    yield (
        f"{own.task} at {1 / own.period:.0f} Hz, {own.load} busy processes beside: "
        f"{len(finished)} episodes, {robot.thinking.count} actions"
    )
    yield f"the learner thinks   {robot.thinking}"
    if waits:
        median = sorted(wait.median for wait in waits)[len(waits) // 2]
        longest = max(wait.longest for wait in waits)
        yield (
            f"the robot waits      {1e3 * median:.2f} ms "
            f"(longest of an episode that ended {1e3 * longest:.2f})"
        )
    codes = sorted({row["code"] for row in stops})
    counted = {code: sum(row["code"] == code for row in stops) for code in codes}
    yield f"episodes stopped     {counted or 'none'}; counted by the learner: " + str(
        robot.aborted
    )
    if stops:
        worst = max(row["periods"] for row in stops)
        yield f"longest to the stop  {worst:.2f} periods after the last action"


def main() -> None:
    """Run robot, learner and load; print what was measured."""
    own = parsed()
    config = configure(
        own.task,
        own.method,
        {"episodes": own.episodes, "evaluation": {"episodes": 0}},
    )
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        log = Path(place) / "robot.jsonl"
        command = ["-m", "driftrl", "robot", own.task, "--address", ADDRESS]
        command += ["--period", str(own.period), "--log", str(log)]
        stack.enter_context(running(*command))
        robot = RemoteEnv(ADDRESS, away=120.0)
        stack.enter_context(contextlib.closing(robot))
        for _ in range(own.load):
            stack.enter_context(running("-c", BUSY))
        learn(config, robot, Path(place) / "run", own)
        for line in report(own, robot, log):
            print(line, flush=True)


if __name__ == "__main__":
    main()

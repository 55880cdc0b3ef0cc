"""How fast a machine that never stops is answered while a thread learns beside it.

A control loop at 30 Hz, in continuing operation with ``background = true``: printed are
the times of ``act`` within segments, those of the boundaries, missed deadlines, and the
share of the time in which the thread was learning.  ``--between`` learns without the
thread, to see that what is missed is counted.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from driftrl.training.process import prepare

prepare(os.environ)

import numpy as np  # noqa: E402

from driftrl.envs.drifting import ContinuingEnv, environment_of  # noqa: E402
from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.robot.timing import undisturbed  # noqa: E402
from driftrl.training.session import Session  # noqa: E402


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="pendulum-decay")
    parser.add_argument("--segments", type=int, default=12)
    parser.add_argument("--segment", type=int, default=150, help="decisions")
    parser.add_argument("--period", type=float, default=1 / 30, help="seconds")
    parser.add_argument("--between", action="store_true", help="learn without a thread")
    return parser.parse_args()


def drive(session: Session, env: ContinuingEnv, period: float) -> dict[str, np.ndarray]:
    """Run all segments at a fixed rate; return what each step took, in seconds."""
    acts, busy, boundaries, late = [], [], [], 0
    background = session.config.background
    due = time.perf_counter()
    while session.number <= session.config.episodes:
        begun = time.perf_counter()
        session.begin_episode()
        obs, _ = env.reset(seed=session.number, options=session.place)
        if session.number > 1:
            boundaries[-1] += time.perf_counter() - begun
        over = False
        while not over:
            late += time.perf_counter() > due + period
            time.sleep(max(0.0, due - time.perf_counter()))
            begun = time.perf_counter()
            action = session.act(obs)
            acts.append(time.perf_counter() - begun)
            busy.append(session._job is not None and not session._job.done())
            obs, reward, terminated, over, _ = env.step(action)
            session.observe(obs, float(reward), terminated, over)
            due = max(due, begun) + period if late else due + period
        begun = time.perf_counter()
        session.end_episode(theta=env.theta, machine=env.machine)
        if background:
            session.learn_beside()
        else:
            session.learn()
        boundaries.append(time.perf_counter() - begun)
    session.finish()
    return {
        "act": np.array(acts),
        "busy": np.array(busy),
        "boundary": np.array(boundaries[:-1]),
        "late": np.array(late),
    }


def main() -> None:
    """Drive, and print what was measured."""
    own = parsed()
    changes = {"episodes": own.segments, "continuing": True}
    changes |= {"background": not own.between}
    config = configure(own.task, "sw-ombrl", changes).in_segments(own.segment)
    if not own.between:  # as driftrl run --background does
        os.environ["NPROC"] = "2"
    env = environment_of(config)
    assert isinstance(env, ContinuingEnv)
    with (
        tempfile.TemporaryDirectory() as place,
        Session(config, Path(place) / "run") as session,
        undisturbed(),
    ):
        seen = drive(session, env, own.period)
    busy = seen["busy"]
    print(f"{own.task}: {len(busy)} actions, learning beside {100 * busy.mean():.0f} %")
    for name, times in (
        ("act", seen["act"]),
        ("act while learning", seen["act"][busy]),
        ("segment boundary", seen["boundary"]),
    ):
        if len(times):
            p50, p99, most = 1e3 * np.quantile(times, [0.5, 0.99, 1.0])
            print(f"{name:20} p50 {p50:.2f}  p99 {p99:.2f}  longest {most:.2f} ms")
    print(f"missed deadlines     {seen['late']} of {len(busy)}")


if __name__ == "__main__":
    main()

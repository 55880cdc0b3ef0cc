"""Episodes are filmed: which ones, how fast, and what is written in the picture.

Drawing reads the simulator's state and changes nothing, so a run that is filmed is the
same as one that is not.
"""

import contextlib
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gymnasium.error import DependencyNotInstalled

from driftrl.config.run import RunConfig
from driftrl.envs.custom import is_custom
from driftrl.envs.drifting import environment_of
from driftrl.errors import DriftrlError, InputError
from driftrl.training.loop import Env, OnReward, unwatched
from driftrl.training.video import (
    NOT_INSTALLED,
    Frame,
    annotated,
    recording,
    require_installed,
)

_DECISIONS_A_SECOND = 20.0  # where an environment does not say


class NoPicture(InputError):
    """The environment does not draw itself."""


def real_time(env: Env, action_repeat: int) -> float:
    """Return the decisions a second at which a film runs as fast as the machine."""
    rate = float(env.metadata.get("render_fps", _DECISIONS_A_SECOND))
    return rate / action_repeat


def caption(title: str, theta: float, step: int, total: float) -> list[str]:
    """Return what is written in a frame: what it shows, and how it goes."""
    known = "" if math.isnan(theta) else f"   θ = {theta:.4g}"
    lines = f"{title}{known}", f"step {step}   return {total:.1f}"
    return [line.replace("-", "−") for line in lines]


@contextlib.contextmanager
def filmed(path: Path, env: Env, title: str, fps: float) -> Iterator[OnReward]:
    """Film an episode that has just been reset: its start, then a frame a decision."""
    theta = float(env.get_wrapper_attr("theta"))
    step, total = 0, 0.0
    with recording(path, fps) as add:
        add(annotated(_picture(env), caption(title, theta, step, total)))

        def seen(reward: float) -> None:
            nonlocal step, total
            step, total = step + 1, total + reward
            add(annotated(_picture(env), caption(title, theta, step, total)))

        yield seen


def _picture(env: Env) -> Frame:
    frame: Frame = env.render()  # pyright: ignore[reportAssignmentType]
    return frame


@dataclass(frozen=True)
class Camera:
    """Films the executed episodes 1, N + 1, 2N + 1, … of a run, and its last."""

    directory: Path
    """Where the run's videos are; only the process that runs it may film there."""
    every: int
    """N."""
    last: int
    """Number of the last episode."""
    fps: float
    """Frames a second, a frame a decision."""

    def films(self, number: int) -> bool:
        """Say whether it is an episode's turn."""
        return (number - 1) % self.every == 0 or number == self.last

    @contextlib.contextmanager
    def __call__(self, env: Env, number: int) -> Iterator[OnReward]:
        """Film an episode that has just been reset, if it is its turn."""
        if not self.films(number):
            with unwatched(env, number) as seen:
                yield seen
            return
        # What a killed run left; `driftrl play` may be writing beside, by other names.
        for leftover in self.directory.glob(".[0-9]*.mp4.*.tmp"):
            leftover.unlink(missing_ok=True)
        path = self.directory / f"{number:06d}.mp4"
        with filmed(path, env, f"episode {number}", self.fps) as seen:
            yield seen


def try_out(config: RunConfig) -> float:
    """Draw and encode one frame of a run; return its frames a second in real time.

    Raises:
        NoPicture: The environment does not draw itself.
        InputError: Videos of it can't be made in this installation or on this machine.
    """
    require_installed()
    frame, fps = _first_picture(config)
    try:
        with (
            tempfile.TemporaryDirectory() as place,
            recording(Path(place) / "trial.mp4", fps) as add,
        ):
            add(annotated(frame, caption("trial", 0.0, 0, 0.0)))
    except (OSError, RuntimeError) as error:
        raise InputError(f"Videos can't be encoded here: {error}.") from error
    return fps


def _first_picture(config: RunConfig) -> tuple[Frame, float]:
    try:
        with contextlib.closing(environment_of(config, "rgb_array")) as env:
            env.reset(seed=0)
            frame = _drawn_by_itself(env, config.task)
            return frame, real_time(env, config.environment.action_repeat)
    except DriftrlError:
        raise
    except DependencyNotInstalled as error:
        raise InputError(NOT_INSTALLED) from error
    # Libraries of graphics fail each in its own way, some while they are imported.
    except Exception as error:
        raise InputError(
            f"Task {config.task!r} can't be drawn here: {type(error).__name__}: "
            f"{error}. Without a screen MuJoCo draws with EGL: install libegl1 (as "
            "Debian and Ubuntu name it), or set MUJOCO_GL to osmesa or glfw."
        ) from error


def _drawn_by_itself(env: Env, task: str) -> Frame:
    """Return the first picture, where an environment of one's own may draw none."""
    if not is_custom(task):
        return _picture(env)
    try:
        frame = env.render()
    except NotImplementedError:
        raise NoPicture(
            f"{task} has no render(), so there is no video of it."
        ) from None
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
        raise NoPicture(
            f"render() of {task} returned {type(frame).__name__}, and a video takes "
            "pictures of (height, width, 3): make the environment with "
            'render_mode="rgb_array".'
        )
    return frame

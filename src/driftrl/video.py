"""Videos of the newest policy of a run, driving once more.

What writes them is an extra of the installation and is imported where it is used.
"""

import contextlib
import ctypes
import functools
import importlib.util
import math
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from jaxtyping import UInt8

from driftrl.agents.base import Policy
from driftrl.config.run import RunConfig
from driftrl.drift.schedules import Constant
from driftrl.envs.drifting import environment_of
from driftrl.errors import DriftrlError, InputError, counted, require
from driftrl.io import flush_directory
from driftrl.records import RECORDS_FILE, read_records
from driftrl.training.assembly import initial_state, make_agent
from driftrl.training.checkpoint import load_checkpoint, newest
from driftrl.training.loop import Env, OnReward, Watch, evaluate, unwatched
from driftrl.training.run_directory import read_config, require_same_version

Frame = UInt8[np.ndarray, "height width 3"]

NOT_INSTALLED = "Videos need the extra 'video': pip install 'driftrl[video]'."
_STRIP_BRIGHTNESS = 0.3
_DEFAULT_FPS = 20.0  # where an environment does not declare its own
# How MuJoCo renders without a screen, and the library it needs.  Importing MuJoCo
# fails if it is asked to use one that is missing.
_OFF_SCREEN = {"egl": "libEGL.so.1", "osmesa": "libOSMesa.so.8"}


def headless(environment: MutableMapping[str, str]) -> None:
    """Render without a screen if there is none and the user has not chosen.

    Call it before MuJoCo and pygame are imported.
    """
    environment.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if environment.get("DISPLAY") or not sys.platform.startswith("linux"):
        return
    environment.setdefault("SDL_VIDEODRIVER", "dummy")
    for name, library in _OFF_SCREEN.items():
        with contextlib.suppress(OSError):
            ctypes.CDLL(library)
            environment.setdefault("MUJOCO_GL", name)


def annotated(frame: Frame, lines: Sequence[str]) -> Frame:
    """Return the frame with lines of text on a dark strip along its top."""
    from PIL import Image, ImageDraw

    height, width, _ = frame.shape
    margin, size = max(2, height // 60), max(8, height // 26)
    longest = max(_font(size).getlength(line) for line in lines)
    shrink = min(1.0, (width - 2 * margin) / longest)
    font = _font(max(1, int(size * shrink)))
    line_height = sum(font.getmetrics())
    strip = 2 * margin + line_height * len(lines)
    dark = np.array(frame)
    dark[:strip] = np.round(frame[:strip] * _STRIP_BRIGHTNESS).astype(np.uint8)
    image = Image.fromarray(dark)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        at = (margin, margin + number * line_height)
        draw.text(at, line, font=font, fill="white")
    return np.asarray(image)


@functools.cache
def _font(size: int) -> Any:
    import matplotlib
    from PIL import ImageFont

    # Pillow's own font has no θ; this one comes with Matplotlib.
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(path, size)


@contextlib.contextmanager
def recording(path: Path, fps: float) -> Iterator[Callable[[Frame], None]]:
    """Write the frames that are added to an mp4, ``fps`` of them a second.

    The file gets its name once it is complete and on the disk.  If the block is left
    by an exception, Ctrl-C included, there is no file, or the one there was before.
    ``OSError`` if the encoder fails, for instance because the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    encoder: subprocess.Popen[bytes] | None = None

    def add(frame: Frame) -> None:
        nonlocal encoder
        # The encoder stores colours for squares of two by two.
        odd = ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0))
        frame = np.pad(frame, odd, mode="edge")
        if encoder is None:
            encoder = _start_encoder(temporary, frame.shape, fps)
        assert encoder.stdin is not None
        try:
            encoder.stdin.write(frame.tobytes())
        except BrokenPipeError:
            _finish(encoder)

    try:
        yield add
        assert encoder is not None, "a video has at least one frame"
        _finish(encoder)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if encoder is not None and encoder.poll() is None:
            encoder.kill()
            encoder.communicate()
        temporary.unlink(missing_ok=True)
    flush_directory(path.parent)


def _start_encoder(
    path: Path, shape: tuple[int, ...], fps: float
) -> "subprocess.Popen[bytes]":
    import imageio_ffmpeg

    frames = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{shape[1]}x{shape[0]}"]
    # One thread, as the run has; H.264 in this layout plays everywhere.
    output = ["-an", "-threads", "1", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
    return subprocess.Popen(
        [
            *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y"),
            *(*frames, "-r", f"{fps:.6f}", "-i", "-"),
            *(*output, "-movflags", "+faststart", "-f", "mp4", str(path)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for driftrl, which then stops this
    )


def _finish(encoder: "subprocess.Popen[bytes]") -> None:
    """Let the encoder end its file; ``OSError`` with its last words if it fails."""
    _, log = encoder.communicate()
    if encoder.returncode != 0:
        reason = log.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"The video could not be written: {reason or 'no reason given'}")


@contextlib.contextmanager
def filmed(path: Path, env: Env, title: str, fps: float) -> Iterator[OnReward]:
    """Film an episode that has just been reset: its start, then a frame a decision."""
    theta = float(env.get_wrapper_attr("theta"))
    title += "" if math.isnan(theta) else f"   θ = {theta:.4g}"
    step, total = 0, 0.0
    with recording(path, fps) as add:

        def show() -> None:
            frame: Any = env.render()
            require(
                getattr(frame, "ndim", 0) == 3 and frame.shape[2] == 3,
                f"render() returned {type(frame).__name__}; a video needs frames of "
                "shape (height, width, 3). Make the environment with "
                'render_mode="rgb_array".',
            )
            lines = (title, f"step {step}   return {total:.1f}")
            add(annotated(frame, [line.replace("-", "−") for line in lines]))

        def on_reward(reward: float) -> None:
            nonlocal step, total
            step, total = step + 1, total + reward
            show()

        show()
        yield on_reward


def check_video(config: RunConfig) -> float:
    """Film the start of a run, or refuse; return its frames a second in real time."""
    if not all(importlib.util.find_spec(name) for name in ("imageio_ffmpeg", "PIL")):
        raise InputError(NOT_INSTALLED)
    try:
        with (
            contextlib.closing(environment_of(config, "rgb_array")) as env,
            tempfile.TemporaryDirectory() as directory,
        ):
            env.reset(seed=0)
            frames = float(env.metadata.get("render_fps", _DEFAULT_FPS))
            fps = frames / config.environment.action_repeat
            with filmed(Path(directory) / "check.mp4", env, config.task, fps):
                return fps
    except DriftrlError:
        raise
    except DependencyNotInstalled as error:
        raise InputError(NOT_INSTALLED) from error
    except NotImplementedError:
        raise InputError(
            f"{config.task} has no render(), so there is no video of it."
        ) from None
    # Graphics libraries fail each in its own way, some while they are imported.
    except Exception as error:
        raise InputError(
            f"{config.task!r} can't be filmed here: {type(error).__name__}: {error}. "
            "Without a screen MuJoCo renders with EGL: install libegl1 (its "
            "name in Debian and Ubuntu), or set MUJOCO_GL to osmesa or glfw."
        ) from error


@dataclass(frozen=True)
class Played:
    """One rollout of a run's newest policy."""

    learned: int  # Episodes before the checkpoint of the policy
    theta: float | None  # None where it is unknown
    value: float  # Its return
    video: Path | None  # None if there is no video
    unfilmed: str | None = None  # Why there is none


def play(
    directory: Path, *, theta: float | None = None, out: Path | None = None
) -> Played:
    """Roll out the newest policy of a run without exploration, and film it.

    The run may be finished or running; its files are only read.  The system is that of
    the last episode, or at ``theta``, and the rollout the one by which the policy would
    be evaluated there, with the same random streams.  Without the video extra, or if
    the environment does not render itself, it is rolled out all the same unless ``out``
    asks for a video.

    The video is in real time, and in the run's ``videos/`` unless ``out`` says
    otherwise.
    """
    config = read_config(directory)
    policy, learned = newest_policy(directory, config)
    # A rollout as long as a segment, from a start: it has to end.
    config = replace(config, continuing=False, background=False)
    rows = read_records(directory / RECORDS_FILE)[: learned - 1]
    clock = {"episode": learned, "steps": sum(row.steps for row in rows)}
    if theta is not None:
        config = replace(config, drift=Constant(value=theta))
    fps, unfilmed = _DEFAULT_FPS, None
    try:
        fps = check_video(config)
    except InputError as reason:
        if out is not None:
            raise
        unfilmed = str(reason)
    render_mode = "rgb_array" if unfilmed is None else None
    with contextlib.closing(environment_of(config, render_mode)) as env:
        env.reset(seed=0, options=clock)
        theta = None if math.isnan(env.theta) else env.theta
        watch: Watch = unwatched
        if unfilmed is None:
            at = "" if theta is None else f"-theta{theta:.4g}"
            out = path = out or directory / "videos" / f"play-{learned:06d}{at}.mp4"
            title = f"policy after {counted(learned, 'episode')}"
            watch = lambda env, _: filmed(path, env, title, fps)
        options: dict[str, Any] = {"place": clock, "watch": watch}
        value = evaluate(policy, env, episodes=1, seed=config.seed, **options)
    return Played(learned, theta, value, out, unfilmed)


def newest_policy(directory: Path, config: RunConfig) -> tuple[Policy, int]:
    """Return the policy of the newest readable checkpoint, and its episodes."""
    require_same_version(directory)
    agent = make_agent(config)
    template = initial_state(agent, config)
    load = lambda path, episodes: load_checkpoint(path, episodes, template)
    (state, _), episodes = newest(directory, load)
    return agent.policy(state), episodes

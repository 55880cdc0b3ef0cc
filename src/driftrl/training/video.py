"""Frames become an mp4, with a few words in the picture.

Nothing here knows what is filmed.  What it takes to write videos is an extra of the
installation, so it is imported where it is used.
"""

import contextlib
import ctypes
import functools
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from driftrl.errors import InputError
from driftrl.io import flush_directory

Frame = UInt8[np.ndarray, "height width 3"]
Add = Callable[[Frame], None]
"""Takes the next frame of a video."""

NOT_INSTALLED = "Videos need the extra 'video': pip install 'driftrl[video]'."
_STRIP_DARKNESS = 0.7
# How MuJoCo draws without a screen, and what it takes.  Importing MuJoCo fails if it is
# told to use what is not there.
_OFF_SCREEN = {"egl": "libEGL.so.1", "osmesa": "libOSMesa.so.8"}


def headless(environment: MutableMapping[str, str]) -> None:
    """Have pictures drawn without a screen if there is none and nothing is chosen.

    Counts if it is called before MuJoCo and pygame are imported.
    """
    environment.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if environment.get("DISPLAY") or not sys.platform.startswith("linux"):
        return
    environment.setdefault("SDL_VIDEODRIVER", "dummy")
    for name, library in _OFF_SCREEN.items():
        if _loads(library):
            environment.setdefault("MUJOCO_GL", name)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def require_installed() -> None:
    """Refuse to film without the packages that it takes."""
    if not all(importlib.util.find_spec(name) for name in ("imageio_ffmpeg", "PIL")):
        raise InputError(NOT_INSTALLED)


def annotated(frame: Frame, lines: Sequence[str]) -> Frame:
    """Return the frame with lines of text on a dark strip along its top."""
    from PIL import Image, ImageDraw

    height, width, _ = frame.shape
    margin = max(2, height // 60)
    font = _font_for(lines, max(8, height // 26), width - 2 * margin)
    line_height = sum(font.getmetrics())
    strip = frame[: 2 * margin + line_height * len(lines)]
    dark = np.array(frame)
    dark[: len(strip)] = np.round(strip * (1.0 - _STRIP_DARKNESS)).astype(np.uint8)
    picture = Image.fromarray(dark)
    pencil = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        place = (margin, margin + number * line_height)
        pencil.text(place, line, font=font, fill="white")
    return np.asarray(picture)


def _font_for(lines: Sequence[str], size: int, width: int) -> Any:
    """Return the font of a size, or of the largest one whose lines fit the width."""
    longest = max((_font(size).getlength(line) for line in lines), default=0.0)
    return _font(size if longest <= width else max(1, int(size * width / longest)))


@functools.cache
def _font(size: int) -> Any:
    import matplotlib
    from PIL import ImageFont

    # Pillow's own font has no θ; this one comes with Matplotlib.
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(path, size)


def evened(frame: Frame) -> UInt8[np.ndarray, "even_height even_width 3"]:
    """Return the frame with its last row or column doubled where a side is odd.

    The encoder stores colours for squares of two by two.
    """
    height, width, _ = frame.shape
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


@contextlib.contextmanager
def recording(path: Path, fps: float) -> Iterator[Add]:
    """Write the frames that are added to an mp4, ``fps`` of them a second.

    The file takes its name once it is complete and on the disk.  If the block is left
    by an exception, be it Ctrl-C, there is no file, or the one there was before.

    Raises:
        OSError: The encoder failed, for instance because the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    encoder = _Encoder(temporary, fps)
    try:
        yield encoder.add
        encoder.finish()
        os.replace(temporary, path)
    except BaseException:
        encoder.stop()
        temporary.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


class _Encoder:
    """An ffmpeg of its own, which starts with the first frame."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path = path
        self._fps = fps
        self._process: subprocess.Popen[bytes] | None = None
        self._shape: tuple[int, ...] = ()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()

    def add(self, frame: Frame) -> None:
        """Encode one more frame, of the size of the first."""
        frame = evened(frame)
        if self._process is None:
            self._shape = frame.shape
            self._process = self._start(frame.shape[1], frame.shape[0])
        assert frame.shape == self._shape, "all frames of a video have one size"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame.tobytes())
        except BrokenPipeError:
            self._process.wait()
            raise self._failure() from None

    def finish(self) -> None:
        """Close the file and force it to the disk."""
        assert self._process is not None, "a video has at least one frame"
        try:
            self._process.communicate()
        except BrokenPipeError:
            self._process.wait()
        if self._process.returncode != 0:
            raise self._failure()
        self._said.close()
        with open(self._path, "rb") as file:
            os.fsync(file.fileno())

    def stop(self) -> None:
        """End at once; what is written so far is of no use."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
        self._said.close()

    def _start(self, width: int, height: int) -> "subprocess.Popen[bytes]":
        import imageio_ffmpeg

        rate = f"{self._fps:.6f}"
        taken = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        # One thread, as the run has; H.264 in this layout plays everywhere.
        made = ["-an", "-threads", "1", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
        return subprocess.Popen(
            [
                *(imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y"),
                *(*taken, "-r", rate, "-i", "-"),
                *(*made, "-movflags", "+faststart", "-f", "mp4", str(self._path)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C is for driftrl, which then stops this
        )

    def _failure(self) -> OSError:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        reason = lines[-1].strip() if lines else "the encoder ended and said nothing"
        return OSError(f"A video could not be written: {reason}")

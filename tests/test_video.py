"""Frames become an mp4 that can be read back, or no file at all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from driftrl import video
from driftrl.envs.custom import sized_task
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.video import annotated, headless, recording

Read = Callable[[Path], tuple[float, np.ndarray]]


def grey(level: int, height: int = 100, width: int = 160) -> np.ndarray:
    return np.full((height, width, 3), level, np.uint8)


def test_text_stands_on_a_dark_strip_and_the_rest_is_left_alone() -> None:
    frame = grey(200)
    out = annotated(frame, ["θ = 1", "step 2"])
    assert out.shape == frame.shape and out.dtype == np.uint8
    changed = (out != frame).any(axis=(1, 2))
    rows = int(changed.sum())
    assert changed[:rows].all(), "the strip is along the top"
    assert 0.15 * 100 < rows < 0.35 * 100
    strip = out[:rows]
    assert (strip[:, -20:] == 60).all(), "200 · (1 − 0.7), where there is no text"
    assert strip[:, :40].max() == 255
    assert (frame == 200).all(), "the frame handed in is not changed"


@pytest.mark.parametrize("width", [100, 240])
def test_long_lines_are_made_to_fit(width: int) -> None:
    frame = grey(0, height=400, width=width)
    columns = annotated(frame, ["policy after 1000 episodes   θ = 1"]).max(axis=(0, 2))
    assert columns.max() > 100 and columns[-2:].max() == 0
    last = int(np.flatnonzero(columns)[-1])
    assert last > 0.7 * width, "no smaller than it must be"


def test_what_is_recorded_can_be_read_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], read_video: Read
) -> None:
    path = tmp_path / "new" / "film.mp4"
    levels = [20, 60, 100, 140, 180, 220, 250]
    with recording(path, 12.5) as add:
        for level in levels:
            add(grey(level, height=121, width=75))
        assert not path.exists(), "it has no name before it is complete"
    assert [one.name for one in path.parent.iterdir()] == ["film.mp4"]
    fps, frames = read_video(path)
    assert (fps, frames.shape) == (12.5, (7, 122, 76, 3))
    np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), levels, atol=2.0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_exception_leaves_what_was_there_before(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "film.mp4"
    for content in (None, b"old"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(error), recording(path, 10) as add:
            for _ in range(30):
                add(grey(100))
            raise error
        assert os.listdir(tmp_path) == ([] if content is None else ["film.mp4"])
    assert path.read_bytes() == b"old"


@pytest.mark.kill
def test_a_killed_recorder_leaves_no_video(tmp_path: Path) -> None:
    program = (
        "import time, numpy as np\n"
        "from pathlib import Path\n"
        "from driftrl.video import recording\n"
        f"with recording(Path({str(tmp_path / 'film.mp4')!r}), 10) as add:\n"
        "    for _ in range(30): add(np.zeros((64, 64, 3), np.uint8))\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    time.sleep(0.5)  # the encoder ends its file when nobody feeds it any more
    assert list(tmp_path.glob("*.mp4")) == []


# An encoder that fails at once, and one that does when it has read everything.
@pytest.mark.parametrize(("before", "soon"), [("", True), ("cat > /dev/null;", False)])
def test_an_encoder_that_fails_is_quoted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    before: str,
    soon: bool,
) -> None:
    encoder = tmp_path / "encoder"
    encoder.write_text(f"#!/bin/sh\n{before} echo 'No space left' >&2; exit 1\n")
    encoder.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(encoder))
    added = 0
    with (
        pytest.raises(OSError, match="No space left"),
        recording(tmp_path / "film.mp4", 10) as add,
    ):
        for _ in range(20):
            add(grey(100))
            added += 1
    assert (added < 20) is soon
    assert os.listdir(tmp_path) == ["encoder"]
    assert capfd.readouterr() == ("", "")


def loads(*libraries: str) -> Callable[[str], None]:
    def load(name: str) -> None:
        if not name.startswith(libraries):
            raise OSError(name)

    return load


@pytest.mark.parametrize(
    ("libraries", "given", "expected"),
    [
        (["libEGL", "libOSMesa"], {}, {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}),
        (["libOSMesa"], {}, {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "osmesa"}),
        (["nothing"], {}, {"SDL_VIDEODRIVER": "dummy"}),
        (["libEGL"], {"DISPLAY": ":0"}, {"DISPLAY": ":0"}),
        (
            ["libEGL"],
            {"MUJOCO_GL": "glfw", "SDL_VIDEODRIVER": "x11"},
            {"MUJOCO_GL": "glfw", "SDL_VIDEODRIVER": "x11"},
        ),
    ],
)
def test_without_a_screen_none_is_asked_for(
    libraries: list[str],
    given: dict[str, str],
    expected: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = SimpleNamespace(CDLL=loads(*libraries))
    monkeypatch.setattr(video, "ctypes", fake)
    monkeypatch.setattr(video, "sys", SimpleNamespace(platform="linux"))
    environment = dict(given)
    headless(environment)
    assert environment == {**expected, "PYGAME_HIDE_SUPPORT_PROMPT": "1"}


# What can be filmed.

ROOM = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Room(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}

"""


@pytest.mark.parametrize(
    ("render", "sentence"),
    [
        ("", "^no_render:Room has no render\\(\\), so there is no video of it.$"),
        ("    def render(self): return None", "returned NoneType"),
        ("    def render(self): return np.zeros((4, 4))", "render_mode=.rgb_array"),
    ],
)
def test_an_environment_of_ones_own_may_draw_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: str, sentence: str
) -> None:
    (tmp_path / "no_render.py").write_text(f"{ROOM}\n{render}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "no_render", raising=False)
    config = configure(sized_task("no_render:Room", (2, 1), 30), "sac")
    with pytest.raises(InputError, match=sentence):
        video.check_video(config)


@pytest.mark.parametrize("encoder", ["/no/such/encoder", "/bin/false"])
@pytest.mark.usefixtures("no_screen")
def test_what_can_not_be_encoded_is_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    assert video.check_video(configure("pendulum-decay", "sac")) > 0
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", encoder)
    with pytest.raises(InputError, match="can't be filmed here: "):
        video.check_video(configure("pendulum-decay", "sac"))

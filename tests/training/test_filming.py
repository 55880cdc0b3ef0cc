"""A run that is filmed: which episodes, what is in them, and that nothing changes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl import video
from driftrl.config.run import RunConfig
from driftrl.envs.custom import sized_task
from driftrl.envs.drifting import make_env
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.memory.episodes import load_episode
from driftrl.training import loop
from driftrl.training.learner import Learner
from driftrl.training.loop import Watch
from factories import rows_of

Read = Callable[[Path], tuple[float, np.ndarray]]
pytestmark = pytest.mark.usefixtures("no_screen")
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


def camera(directory: Path, every: int = 2) -> Watch:
    return video.camera(directory / "videos", every=every, last=5, fps=6.0)


def run(config: RunConfig, directory: Path, watch: Watch | None) -> list[dict]:
    loop.run(config, directory, resume=True, warn=lambda _: None, watch=watch)
    return rows_of(directory)


def videos(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / "videos"))


def interrupt(monkeypatch: pytest.MonkeyPatch, episode: int, step: int) -> None:
    """Press Ctrl-C in the middle of an episode."""
    honest, taken = Learner.observe, []

    def observe(
        self: Learner, obs: np.ndarray, reward: float, *over: bool, action: Any = None
    ) -> None:
        if self.number == episode:
            taken.append(reward)
        if len(taken) == step:
            raise KeyboardInterrupt
        honest(self, obs, reward, *over, action=action)

    monkeypatch.setattr(Learner, "observe", observe)


def test_filming_changes_nothing_and_survives_an_interrupt(
    tiny: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_video: Read,
) -> None:
    plain, whole, parts = (tmp_path / name for name in ("plain", "whole", "parts"))
    rows = run(tiny, plain, None)
    assert run(tiny, whole, camera(whole)) == rows
    assert not (plain / "videos").exists()
    assert videos(whole) == ["000001.mp4", "000003.mp4", "000005.mp4"]
    fps, frames = read_video(whole / "videos" / "000003.mp4")
    # The start, and 40/5 decisions.
    assert (fps, frames.shape) == (6.0, (1 + 8, 500, 500, 3))
    interrupt(monkeypatch, episode=3, step=4)
    with pytest.raises(KeyboardInterrupt):
        run(tiny, parts, camera(parts))
    assert videos(parts) == ["000001.mp4"], "nothing of episode 3, not even a part"
    monkeypatch.undo()
    # What a kill would leave, and what is being played meanwhile.
    (parts / "videos" / ".000003.mp4.0123456789abcdef.tmp").write_bytes(b"half")
    (parts / "videos" / ".play-000002.mp4.0123456789abcdef.tmp").write_bytes(b"half")
    assert run(tiny, parts, camera(parts)) == rows
    playing, *resumed = videos(parts)
    assert playing.startswith(".play") and resumed == videos(whole)
    for name in resumed:
        paths = (directory / "videos" / name for directory in (whole, parts))
        one, other = (path.read_bytes() for path in paths)
        assert one == other, f"{name} is the film of an uninterrupted run"


def test_frames_show_the_machine_as_it_moves(
    tiny: RunConfig, tmp_path: Path, read_video: Read
) -> None:
    run(tiny, tmp_path, camera(tmp_path, every=100))
    _, frames = read_video(tmp_path / "videos" / "000001.mp4")
    episode = load_episode(tmp_path / "memory", 1)
    states = np.concatenate([episode.obs[:1], episode.next_obs])
    assert np.std(states[:, 1]) > 0.05, "it moves"
    for frame, (cosine, sine, _) in zip(frames.astype(int), states, strict=True):
        red = (frame[..., 0] > frame[..., 1] + 60) & (np.arange(500) > 70)[:, None]
        row, column = np.argwhere(red).mean(axis=0)
        # Gymnasium draws the rod from the middle, counter-clockwise from upright.
        place = np.array([250 - row, 250 - column])
        np.testing.assert_allclose(
            place / np.linalg.norm(place), [cosine, sine], atol=0.05
        )


def test_drawing_changes_nothing_in_mujoco() -> None:
    drawn = make_env("halfcheetah", render_mode="rgb_array")
    plain = make_env("halfcheetah")
    start, same = (env.reset(seed=3)[0] for env in (drawn, plain))
    np.testing.assert_array_equal(start, same)
    try:
        assert drawn.render().shape == (480, 480, 3)
    except Exception as error:
        pytest.skip(f"there is nothing to draw with: {error}")
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = rng.uniform(-1, 1, 6)
        one, other = drawn.step(action), plain.step(action)
        drawn.render()
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1] == other[1]
    drawn.close()


@pytest.mark.parametrize(
    ("render", "sentence"),
    [
        ("", "^no_render:Room has no render\\(\\), so there is no video of it.$"),
        (
            "    def render(self): return None",
            "returned NoneType",
        ),
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
def test_what_can_not_be_encoded_is_refused_with_a_reason(
    tiny: RunConfig, monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    assert video.check_video(tiny) > 0
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", encoder)
    with pytest.raises(InputError, match="can't be filmed here: "):
        video.check_video(tiny)

"""``driftrl play`` as a user meets it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import driftrl
from driftrl import video
from driftrl.cli.main import main
from driftrl.config.toml import to_dict, toml_text
from driftrl.envs.drifting import freeze, make_env
from driftrl.envs.tasks import configure
from driftrl.training import assembly, loop
from driftrl.training.checkpoint import load_checkpoint
from driftrl.training.streams import Purpose, integer_for, key_for
from factories import Stop, stop_after

Read = Callable[[Path], tuple[float, np.ndarray]]
SETTINGS: dict[str, Any] = {
    "episodes": 4,
    "seed": 3,
    "environment": {"sim_steps": 12, "action_repeat": 2, "start": "random"},
    "drift": {"start": 1},
    "agent": {
        "sac": {"hidden": [8, 8], "batch_size": 4, "critic": "plain"},
        "learning": {"model_updates": 1, "policy_updates": 1, "learning_starts": 4},
    },
    "evaluation": {"episodes": 1},
}
CONFIG = configure("pendulum-decay", "sac", SETTINGS)
pytestmark = pytest.mark.usefixtures("no_screen")
RATE = make_env("pendulum").metadata["render_fps"]


@pytest.fixture(scope="session")
def halted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run of four episodes that was stopped after three."""
    directory = tmp_path_factory.mktemp("runs") / "halted"
    with pytest.raises(Stop):
        loop.run(CONFIG, directory, on_episode=stop_after(3))
    return directory


@pytest.fixture
def run(halted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(halted, tmp_path / "run"))


def play(directory: Path, *options: str) -> int:
    return main(["play", str(directory), *options])


def played(
    capsys: pytest.CaptureFixture[str], directory: Path, *options: str
) -> dict[str, Any]:
    assert play(directory, "--json", *options) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def files(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def by_hand(directory: Path, episode: int, theta: float) -> float:
    """Roll out the policy after three episodes in a loop of our own."""
    agent = assembly.make_agent(CONFIG)
    template = agent.initial_state(key=key_for(3, Purpose.LEARNING, 0))
    state, _ = load_checkpoint(directory / "checkpoint", 3, template)
    policy = agent.policy(state).deterministic()
    env = freeze(CONFIG.task, theta, CONFIG.environment)
    obs, _ = env.reset(seed=integer_for(3, Purpose.EVALUATION, episode, 0))
    total, truncated = 0.0, False
    for step in range(6):
        key = key_for(3, Purpose.EVALUATION, episode, 0, step)
        action, _ = policy.act(obs, None, key=key)
        obs, reward, _, truncated, _ = env.step(action)
        total += reward
    assert truncated
    return total


def test_plays_the_newest_policy_on_the_last_system(
    run: Path, capsys: pytest.CaptureFixture[str], read_video: Read
) -> None:
    before = files(run)
    document = played(capsys, run)
    theta = CONFIG.drift(3)
    assert document == {
        "return": by_hand(run, 3, theta),
        "learned": 3,
        "theta": theta,
        "video": document["video"],
        "unfilmed": None,
    }
    name = f"videos/play-000003-theta{theta:.4g}.mp4"
    assert document["video"] == str(run / name)
    fps, frames = read_video(run / name)
    assert frames.shape == (1 + 6, 500, 500, 3)
    assert fps == RATE / 2  # a decision is held for two steps
    after = files(run)
    assert {path: after[path] for path in after if path != name} == before


def test_options(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], read_video: Read
) -> None:
    out = tmp_path / "elsewhere" / "film.mp4"
    document = played(capsys, run, "--theta", "1.5", "--out", str(out))
    assert document["return"] == by_hand(run, 3, 1.5)
    assert document["video"] == str(out)
    assert len(read_video(out)[1]) == 1 + 6
    assert not (run / "videos").exists()


def test_checkpoints_replaced_while_they_are_read_are_looked_for_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = run / "checkpoint"

    def load(directory: Path, episodes: int, template: Any) -> Any:
        if episodes == 3:  # by the time it is read, the run is at 7
            for old in (2, 3):
                shutil.move(place / f"{old:06d}.npz", place / f"{old + 4:06d}.npz")
        return load_checkpoint(directory, episodes, template)

    monkeypatch.setattr(video, "load_checkpoint", load)
    assert video.newest_policy(run, CONFIG)[1] == 7


def refusal(capsys: pytest.CaptureFixture[str], directory: Path, *options: str) -> str:
    assert play(directory, *options) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err


def test_bad_input(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(run)
    assert "no config.toml" in refusal(capsys, run.parent)
    for options, value in [
        (("--out", "film.avi"), "film.avi"),
        (("--theta", "-1"), "-1"),
    ]:
        assert value in refusal(capsys, run, *options)
    shutil.rmtree(run / "checkpoint")
    assert "no checkpoint yet" in refusal(capsys, run)
    kept = {path for path in before if not path.startswith("checkpoint")}
    assert files(run).keys() == kept


def test_theta_of_a_clock_of_decisions(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = configure("pendulum-decay", "sac", {**SETTINGS, "clock": "steps"})
    table = to_dict(changed) | {"versions": {"driftrl": driftrl.__version__}}
    (run / "config.toml").write_text(toml_text(table))
    # Six decisions an episode.
    assert played(capsys, run)["theta"] == changed.drift(12)


def test_without_the_extra_a_policy_is_played_unfilmed(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["play", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "return" in printed and "driftrl[video]" in printed
    assert not (run / "videos").exists()

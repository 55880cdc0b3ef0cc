"""The files of a run: what is restored, what damage costs, what is refused."""

import os
import shutil
import tracemalloc
import zipfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden, read_toml, to_dict, toml_text
from driftrl.envs.tasks import configure
from driftrl.errors import CorruptFile, InputError
from driftrl.memory.episodes import EpisodeMemory, load_episode
from driftrl.memory.forgetting import Decision, Evidence, Window
from driftrl.records import load_run, read_records
from driftrl.training.checkpoint import load_arrays, save_checkpoint, saved_checkpoints
from driftrl.training.run_directory import Pending, RunDirectory, require_same_run
from driftrl.types import Episode
from factories import TINY, record

CONFIG = configure("pendulum", "sw-ombrl", TINY)
STEPS = 4


def state(number: int) -> dict[str, np.ndarray]:
    return {"x": np.full(3, float(number))}


def episode(number: int) -> Episode:
    draw = np.random.default_rng(number)
    shapes = {"obs": (STEPS, 3), "actions": (STEPS, 1), "next_obs": (STEPS, 3)}
    arrays = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    return Episode(**arrays, rewards=draw.normal(size=STEPS), terminated=False)


class Opened:
    """A run's directory, restored; context manager."""

    def __init__(
        self, path: Path, config: RunConfig = CONFIG, *, resume: bool = True, **how: Any
    ) -> None:
        self.warnings: list[str] = []
        self.memory = EpisodeMemory(3, 1)
        self.files = RunDirectory(
            path, config, resume=resume, warn=self.warnings.append, **how
        )
        try:
            self.state, _ = self.files.restore(state(0), self.memory)
        except BaseException:
            self.files.close()
            raise

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        self.files.close()

    @property
    def done(self) -> int:
        """Episodes that count; the state must be the one after them."""
        assert self.state["x"].tolist() == [float(len(self.memory))] * 3
        return len(self.memory)


def append(files: RunDirectory, number: int) -> None:
    row = record(number, steps=STEPS, return_executed=-number / 3)
    ended = Pending(episode(number), 0.0)
    files.append(row, ended, state(number), Decision(1))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three episodes, with checkpoints after the second and third."""
    with Opened(tmp_path / "run", resume=False) as opened:
        for number in (1, 2, 3):
            append(opened.files, number)
    return tmp_path / "run"


def content(path: Path) -> dict[str, bytes]:
    """Return every file but the lock."""
    files = [p for p in path.rglob("*") if p.is_file() and p.name != "lock"]
    return {str(p.relative_to(path)): p.read_bytes() for p in files}


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_run_is_restored_and_goes_on(run: Path) -> None:
    before = content(run)
    with Opened(run) as opened:
        assert opened.done == 3 and opened.warnings == []
        assert opened.memory.lengths == (STEPS,) * 3
        np.testing.assert_array_equal(
            opened.memory.since(2).rewards[:4], episode(2).rewards
        )
    assert content(run) == before
    with Opened(run) as opened:
        append(opened.files, 4)
    assert saved_checkpoints(run / "checkpoint") == [3, 4]
    assert len(read_records(run / "episodes.jsonl")) == 4


def test_what_no_checkpoint_covers_does_not_count(run: Path) -> None:
    with open(run / "episodes.jsonl", "ab") as file:
        file.write(b'{"episode": 4, "the')
    (run / "memory" / "000004.npz").write_bytes(b"half")
    (run / "memory" / ".000004.npz.1234.tmp").write_bytes(b"half")
    with Opened(run) as opened:
        assert opened.done == 3
    assert len((run / "episodes.jsonl").read_bytes().splitlines()) == 3
    assert list(run.rglob("*.tmp")) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: flip(run / "checkpoint" / "000003.npz", 200),
        lambda run: (run / "checkpoint" / "000003.npz").write_bytes(b"PK no archive"),
        # The last row: torn, or with one bit flipped in its return or its braces.
        lambda run: os.truncate(
            run / "episodes.jsonl", (run / "episodes.jsonl").stat().st_size - 20
        ),
        lambda run: flip(
            run / "episodes.jsonl",
            (run / "episodes.jsonl").read_text().rindex("-1.0") + 1,
        ),
        lambda run: flip(
            run / "episodes.jsonl", (run / "episodes.jsonl").read_text().rindex("{")
        ),
    ],
)
def test_damage_at_the_end_costs_one_episode(run: Path, damage: Any) -> None:
    damage(run)
    with Opened(run) as opened:
        assert opened.done == 2 and len(opened.warnings) == 1
        append(opened.files, 3)
    assert len(read_records(run / "episodes.jsonl")) == 3
    with Opened(run) as opened:
        assert opened.done == 3 and opened.warnings == []


@pytest.mark.parametrize("name", ["²", "4.npz", "00000a.npz", "000004.old"])
def test_other_entries_are_no_checkpoints(run: Path, name: str) -> None:
    (run / "checkpoint" / name).touch()
    with Opened(run) as opened:
        assert opened.done == 3


def empty_both(run: Path) -> None:
    for number in ("000002", "000003"):
        (run / "checkpoint" / f"{number}.npz").write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        empty_both,
        lambda run: shutil.rmtree(run / "checkpoint"),
        lambda run: (run / "episodes.jsonl").unlink(),
        lambda run: flip(run / "episodes.jsonl", 0),
        lambda run: os.truncate(run / "episodes.jsonl", 500),
        lambda run: (run / "memory" / "000003.npz").unlink(),
        lambda run: (run / "memory" / "000003.npz").write_bytes(b"no archive"),
    ],
)
@pytest.mark.parametrize("change", [False, True])
def test_damage_beyond_repair_is_refused_and_nothing_is_written(
    run: Path, damage: Any, change: bool
) -> None:
    damage(run)
    before = content(run)
    config = replace(CONFIG, forgetting=Window(4 if change else 2), episodes=9)
    with pytest.raises(CorruptFile):
        Opened(run, config, change=True)
    assert content(run) == before


def test_a_run_without_a_checkpoint_yet_begins_anew(tmp_path: Path) -> None:
    with Opened(tmp_path, resume=False) as opened:
        append(opened.files, 1)
    shutil.rmtree(tmp_path / "checkpoint")
    flip(tmp_path / "episodes.jsonl", 0)
    with Opened(tmp_path) as opened:
        assert opened.done == 0
    assert (tmp_path / "episodes.jsonl").read_bytes() == b""


def test_a_compressed_memory_file_is_refused_unread(run: Path) -> None:
    """A zip bomb: 60 MB of zeros in 0.06 MB."""
    path = run / "memory" / "000003.npz"
    header = {"descr": "<f8", "fortran_order": False, "shape": (2_500_000, 3)}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("obs.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(60):
            member.write(bytes(10**6))
    tracemalloc.start()
    with pytest.raises(CorruptFile):
        load_episode(run / "memory", 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_a_fifo_as_lock_is_refused(run: Path) -> None:
    (run / "lock").unlink()
    os.mkfifo(run / "lock")
    with pytest.raises(InputError, match="lock"):
        Opened(run)


def test_two_processes_cannot_share_a_directory(run: Path) -> None:
    with Opened(run), pytest.raises(InputError, match="Another process"):
        Opened(run)
    Opened(run).files.close()


@pytest.mark.parametrize("version", ["0.1.0", "0.3.1", None])
def test_a_run_of_another_version_is_read_but_not_resumed(
    run: Path, version: str | None
) -> None:
    table = read_toml(run / "config.toml")
    table["versions"].pop("driftrl")
    if version is not None:
        table["versions"]["driftrl"] = version
    table["environment"]["steps"] = table["environment"].pop("sim_steps")
    (run / "config.toml").write_text(toml_text(table))
    before = content(run)
    assert len(load_run(run).records) == 3
    for refused in (Opened, require_same_run):
        with pytest.raises(InputError, match=version or "unknown version"):
            refused(run, CONFIG)
    assert content(run) == before


def test_begun_runs_need_resume_and_others_are_refused(run: Path) -> None:
    before = content(run)
    with pytest.raises(InputError, match="3 episodes"):
        Opened(run, resume=False)
    for changes in ({"forgetting": {"window": 3}}, {"seed": 4}, {"episodes": 2}):
        with pytest.raises(InputError):
            Opened(run, overridden(CONFIG, changes))
    for changes in ({"seed": 4}, {"episodes": 2}):
        with pytest.raises(InputError, match=next(iter(changes))):
            Opened(run, overridden(CONFIG, changes), change=True)
    with pytest.raises(InputError, match=r"forgetting\.window is 2 there and 3 here"):
        require_same_run(run, overridden(CONFIG, {"forgetting": {"window": 3}}))
    require_same_run(run, overridden(CONFIG, {"episodes": 50}))
    assert content(run) == before


def test_changes_are_noted(run: Path) -> None:
    with Opened(run, overridden(CONFIG, {"episodes": 50})) as opened:
        assert opened.done == 3
    with Opened(
        run, overridden(CONFIG, {"episodes": 60, "drift": {"start": 9}}), change=True
    ) as opened:
        assert opened.done == 3
    stored = read_toml(run / "config.toml")
    assert stored["episodes"] == 60
    assert stored["changes"] == [
        {"from_episode": 4, "what": ["episodes from 5 to 50"]},
        {
            "from_episode": 4,
            "what": ["drift.start from 2 to 9", "episodes from 50 to 60"],
        },
    ]


def test_a_state_that_does_not_fit_changed_settings_is_refused(run: Path) -> None:
    before = content(run)
    files = RunDirectory(
        run, replace(CONFIG, episodes=9), resume=True, change=True, warn=print
    )
    with closing(files), pytest.raises(InputError, match="can't go on"):
        files.restore({"y": np.zeros(3)}, EpisodeMemory(3, 1))
    assert content(run) == before


def test_a_directory_without_an_episode_is_free(tmp_path: Path) -> None:
    Opened(tmp_path, resume=False).files.close()
    other = overridden(CONFIG, {"forgetting": {"window": 3}, "seed": 7})
    with Opened(tmp_path, other, resume=False) as opened:
        assert opened.done == 0
    assert read_toml(tmp_path / "config.toml")["seed"] == 7
    assert "changes" not in read_toml(tmp_path / "config.toml")


def test_only_files_of_runs_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# by hand\n" + toml_text(to_dict(CONFIG)))
    before = path.read_bytes()
    with pytest.raises(InputError):
        Opened(tmp_path, overridden(CONFIG, {"forgetting": {"window": 3}}))
    assert path.read_bytes() == before
    with Opened(tmp_path) as opened:
        append(opened.files, 1)
    path.unlink()
    with pytest.raises(InputError, match="no config.toml"):
        Opened(tmp_path)


def test_a_pending_episode_belongs_to_its_system(tmp_path: Path) -> None:
    with Opened(tmp_path, resume=False) as opened:
        opened.files.save_pending(1, Pending(episode(1), 0.25))
    with pytest.raises(InputError, match="different run"):
        Opened(tmp_path, overridden(CONFIG, {"forgetting": {"window": 3}}))
    with Opened(tmp_path) as opened:
        pending = opened.files.load_pending(1)
        assert pending is not None and pending[1] == 0.25
        np.testing.assert_array_equal(pending[0].rewards, episode(1).rewards)
    for damaged in (b"[" * 100_000, b"{}", b""):
        (tmp_path / "pending" / "theta.json").write_bytes(damaged)
        with Opened(tmp_path) as opened:
            assert opened.files.load_pending(1) is None
            assert len(opened.warnings) == 1
    noisy = overridden(CONFIG, {"environment": {"noise_std": 0.1}})
    with Opened(tmp_path, noisy, change=True) as opened:
        assert opened.files.load_pending(1) is None
    assert not (tmp_path / "pending").exists()


def test_the_newest_two_checkpoints_are_kept_and_a_full_disk_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        save_checkpoint(tmp_path, number, state(number), Decision(1))
    with monkeypatch.context() as patch:

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(tmp_path, 4, state(4), Decision(1))
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["000002", "000003"]
    np.testing.assert_array_equal(load_arrays(tmp_path, 3)["x"], state(3)["x"])


@dataclass(frozen=True)
class Back:
    """Keeps nothing until an episode, then everything: m(n) falls."""

    until: int = 3
    kind = "back"

    def first_retained(self, n: int, evidence: Evidence) -> int:
        assert len(evidence.episodes) == n - 1
        return n if n <= self.until else 1


def test_a_users_rule_is_stored_and_sees_the_same_evidence(tmp_path: Path) -> None:
    config = replace(CONFIG, forgetting=Back())
    with Opened(tmp_path, config, resume=False) as opened:
        for number in (1, 2, 3, 4):
            append(opened.files, number)
            opened.memory.append(episode(number))
        live = opened.memory.evidence
    stored = read_toml(tmp_path / "config.toml")["forgetting"]
    assert stored == {"kind": f"{__name__}:Back", "until": 3}
    with Opened(tmp_path, config) as opened:
        evidence = opened.memory.evidence
        assert evidence.lengths == live.lengths
        assert evidence.returns == tuple(-n / 3 for n in (1, 2, 3, 4))
        for one, other in zip(evidence.episodes, live.episodes, strict=True):
            np.testing.assert_array_equal(one.obs, other.obs)
        assert len(opened.memory.since(1)) == 4 * STEPS

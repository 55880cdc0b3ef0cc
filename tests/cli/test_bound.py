"""The bound in the report: of which runs it is drawn, and with what numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from driftrl.cli.bound import bound_columns
from driftrl.cli.recorded import compare
from driftrl.config.toml import to_dict, toml_text
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import save_episode
from driftrl.models.lived_bound import lived_bound
from driftrl.records import RecordWriter
from driftrl.types import Episode, EpisodeRecord

THETAS = np.array([2.0, 2.0, 2.0, 0.5, 0.5])
Make = Callable[..., Path]


def lived(number: int, draw: np.random.Generator) -> Episode:
    obs, actions = draw.uniform(-1, 1, (6, 3)), draw.uniform(-1, 1, (6, 1))
    after = 0.9 * obs + 0.1 * THETAS[number - 1] * actions
    return Episode(obs, actions, -np.abs(obs[:, 0]), after, False)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(
        method: str,
        seed: int,
        first_retained: tuple[int, ...],
        variant: str = "",
        loss: float = 0.0,
    ) -> Path:
        settings = {"episodes": 5, "seed": seed, "variant": variant}
        config = configure("pendulum", method, settings)
        directory = tmp_path / config.name
        directory.mkdir()
        (directory / "config.toml").write_text(toml_text(to_dict(config)))
        draw = np.random.default_rng(seed)
        with RecordWriter(directory / "episodes.jsonl") as writer:
            for number, first in enumerate(first_retained, start=1):
                episode = lived(number, draw)
                save_episode(directory / "memory", number, episode)
                writer.append(row(number, first, loss))
        return directory

    return made


def row(number: int, first: int, loss: float) -> EpisodeRecord:
    return EpisodeRecord(
        episode=number,
        theta=float(THETAS[number - 1]),
        steps=6,
        return_executed=-1500.0 - number - loss,
        return_eval=None,
        terminated=False,
        first_retained=first,
        transitions=6 * (number - first),
        optimism=1.0,
        model_error=None,
        coverage=None,
        epistemic_std=None,
        wall_s=1.0,
    )


ALL, WINDOW = (1, 1, 1, 1, 1), (1, 1, 1, 2, 3)


def test_columns_are_the_bounds_of_each_run(make: Make, tmp_path: Path) -> None:
    for seed in (0, 1):
        make("sombrl", seed, ALL)
        make("sw-ombrl", seed, WINDOW)
    study = compare(tmp_path).studies[0]
    kept, window = bound_columns(study)
    assert (kept.method, window.method) == ("sombrl", "sw-ombrl")
    np.testing.assert_allclose(
        np.cumsum(window.regret, axis=1), study.methods[1].curves
    )
    for seed in (0, 1):
        draw = np.random.default_rng(seed)
        episodes = [lived(number, draw) for number in range(1, 6)]
        expected = lived_bound(episodes, np.array(WINDOW), THETAS)
        np.testing.assert_allclose(window.uncertainty[seed], expected.uncertainty)
        np.testing.assert_allclose(window.drift_term[seed], expected.terms.drift)
        assert window.most[seed] == expected.most


def test_only_runs_of_a_gaussian_process_with_episodes_and_regret(
    make: Make, tmp_path: Path
) -> None:
    run = make("sombrl", 0, ALL)
    study = compare(tmp_path).studies[0]
    assert len(bound_columns(study)) == 1
    assert bound_columns(compare(tmp_path, returns_only=True).studies[0]) == ()
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace('kind = "gp"', 'kind = "sac"'))
    assert bound_columns(compare(tmp_path).studies[0]) == ()
    (run / "config.toml").write_text(config)
    (run / "memory").rename(run / "elsewhere")
    assert bound_columns(compare(tmp_path).studies[0]) == ()


def test_of_many_methods_the_baseline_and_the_best_are_shown(
    make: Make, tmp_path: Path
) -> None:
    make("sombrl", 0, ALL, loss=99.0)
    for window, loss in ((1, 40.0), (2, 10.0), (3, 20.0), (4, 50.0), (5, 30.0)):
        make("sw-ombrl", 0, WINDOW, f"w={window}", loss)
    shown = [one.method for one in bound_columns(compare(tmp_path).studies[0])]
    assert shown == ["sombrl", "sw-ombrl w=2", "sw-ombrl w=3", "sw-ombrl w=5"]

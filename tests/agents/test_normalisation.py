"""Mean and spread of a ring: at once, in blocks, and by NumPy."""

from collections.abc import Callable, Iterator
from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents import normalisation
from driftrl.agents.normalisation import statistics_of
from driftrl.agents.replay import Replay, make_replay
from driftrl.config.deep import EnsembleConfig
from driftrl.models import ensemble
from driftrl.models.ensemble import Statistics
from driftrl.types import Data

MODEL = ensemble.initial_state(
    2, 1, EnsembleConfig(members=2, hidden=(4,)), key=jax.random.key(0)
)


def transitions(rows: int) -> Data:
    """Return rows far from zero, and an action that never varies."""
    rng = np.random.default_rng(rows)
    obs = rng.normal(np.array([300.0, -5.0]), size=(rows, 2)).astype(np.float32)
    changes = rng.normal(size=(rows, 2)).astype(np.float32)
    return Data(
        obs,
        np.full((rows, 1), 0.3, np.float32),
        rng.normal(size=rows),
        obs + changes,
        np.zeros(rows, bool),
    )


def turned(replay: Replay, start: int) -> Replay:
    """Return the same transitions, in a ring that begins elsewhere, NaN for padding."""
    padding = jnp.arange(len(replay.data.rewards)) >= replay.size
    data = jax.tree.map(
        lambda column: jnp.roll(
            jnp.where(padding.reshape(-1, *[1] * (column.ndim - 1)), jnp.nan, column),
            start,
            axis=0,
        ),
        replay.data,
    )
    return Replay(data, jnp.asarray(start, jnp.int32), replay.size)


Measure = Callable[[ensemble.EnsembleState, Replay], Statistics]


@pytest.fixture(params=["at once", "in blocks"])
def measure(request: pytest.FixtureRequest) -> Iterator[Measure]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in blocks":
            patch.setattr(normalisation, "_AT_ONCE", 10)
            patch.setattr(normalisation, "_BLOCK", 8)
        # Of a function of its own: the other's trace is of the other way.
        yield jax.jit(lambda *given: unwrap(statistics_of)(*given))


def assert_close(found: Statistics, rows: Data) -> None:
    inputs = np.concatenate([rows.obs, rows.actions], axis=1).astype(np.float64)
    changes = rows.next_obs - rows.obs
    outputs = np.concatenate([changes, rows.rewards[:, None]], axis=1)
    expected = (
        *(inputs.mean(axis=0), inputs.std(axis=0).clip(min=1e-3)),
        *(outputs.mean(axis=0), outputs.std(axis=0)),
    )
    for one, other in zip(jax.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# 24 rows are three blocks, 17 are two and a row; 30 rows in all are almost four.
@pytest.mark.parametrize("size", [1, 7, 17, 24, 30])
def test_against_numpy(measure: Measure, size: int) -> None:
    rows = transitions(size)
    found = measure(MODEL, make_replay(rows, 30))
    if size > 1:
        assert_close(found, rows)
    for start in (0, 13, 29):
        again = measure(MODEL, turned(make_replay(rows, 30), start))
        for one, other in zip(
            jax.tree.leaves(found), jax.tree.leaves(again), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_nothing_measured_leaves_all_as_it_is(measure: Measure) -> None:
    found = measure(MODEL, make_replay(transitions(0), 30))
    assert found.input_mean.tolist() == [0.0] * 3
    assert found.output_std.tolist() == [1.0] * 3

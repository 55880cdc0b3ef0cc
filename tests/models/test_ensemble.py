"""The ensemble: normalisation, predictions of single networks, losses by hand."""

import functools
import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from driftrl.config.deep import EnsembleConfig
from driftrl.models import ensemble
from driftrl.models.ensemble import (
    EnsemblePrediction,
    EnsembleState,
    Samples,
    Statistics,
)
from driftrl.models.networks import MLP
from factories import same

S, A, E = 3, 2, 4
SMALL = EnsembleConfig(members=E, hidden=(8, 7), learning_rate=1e-2)
KEY = jax.random.key(7)
STATISTICS = Statistics(
    input_mean=jnp.array([0.5, -1.0, 2.0, 0.0, 0.1]),
    input_std=jnp.array([1.0, 2.0, 0.5, 0.6, 0.7]),
    output_mean=jnp.array([0.1, 0.2, -0.3, 5.0]),
    output_std=jnp.array([0.2, 3.0, 0.01, 2.0]),
)


# Compiled whole, these take less time than their pieces one by one.
predict = jax.jit(ensemble.predict)
measure = jax.jit(
    lambda state, *data: replace(state, statistics=ensemble.statistics(*data))
)
judge = jax.jit(ensemble.regression_loss)


def random(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def transitions(rows: int, seed: int = 0) -> Samples:
    return Samples(random(rows, S + A, seed=seed), random(rows, S + 1, seed=seed + 50))


def normalised_state(config: EnsembleConfig = SMALL) -> EnsembleState:
    return replace(ensemble.initial_state(S, A, config, key=KEY), statistics=STATISTICS)


def member(state: EnsembleState, index: int) -> MLP:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], state.members)


def answering(
    sizes: tuple[int, int], config: EnsembleConfig, biases: list[list[float]]
) -> EnsembleState:
    """Make members that give the same raw outputs, their biases, to everything."""
    fresh = ensemble.initial_state(*sizes, config, key=KEY)
    state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), fresh)
    state = eqx.tree_at(
        lambda s: (s.members.layers[-1].bias, s.statistics),
        state,
        (np.array(biases, np.float32), jax.tree.map(np.ones_like, state.statistics)),
    )
    return jax.tree.map(jnp.asarray, state)


# ---- data and normalisation --------------------------------------------------------


def test_an_offset_costs_no_precision() -> None:
    column = np.random.default_rng(0).normal(size=(50_000, 1)).astype(np.float32)
    far = (column + np.float32(4096.0)).astype(np.float32)
    data = Samples(jnp.asarray(far), jnp.asarray(far))
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    found = measure(state, data, jnp.asarray(50_000)).statistics
    exact = far.astype(np.float64)
    np.testing.assert_allclose(found.input_mean, exact.mean(0), rtol=0, atol=5e-4)
    np.testing.assert_allclose(found.input_std, exact.std(0), rtol=1e-4)


def test_small_spreads_are_raised() -> None:
    rows = jnp.array([[1.0, -1e-5], [1.0, 1e-5]])
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    found = measure(state, Samples(rows, rows), jnp.asarray(2))
    np.testing.assert_allclose(found.statistics.input_std, [1e-3, 1e-3])
    np.testing.assert_allclose(found.statistics.output_std, [1e-6, 1e-5])


# ---- predictions -------------------------------------------------------------------


def by_hand(
    state: EnsembleState, obs: jax.Array, action: jax.Array
) -> dict[str, np.ndarray]:
    """Ask the networks one by one, outside of any vmap."""
    known = state.statistics
    z = (jnp.concatenate([obs, action]) - known.input_mean) / known.input_std
    raw = np.stack([member(state, index)(z) for index in range(E)])
    outputs = np.asarray(known.output_mean) + np.asarray(known.output_std) * raw
    nexts = np.asarray(obs) + outputs[:, :S]
    return {
        "mean": nexts.mean(axis=0),
        "reward": outputs[:, S].mean(),
        "epistemic_std": outputs.std(axis=0, ddof=0),
        "aleatoric_std": 1e-3 * np.asarray(known.output_std),
        "scale": np.asarray(known.output_std),
        "member_means": nexts,
        "member_rewards": outputs[:, S],
    }


def test_prediction_is_that_of_single_networks() -> None:
    state = normalised_state()
    obs, actions = random(6, S), random(6, A, seed=1)
    many = jax.jit(jax.vmap(functools.partial(ensemble.predict, state)))(obs, actions)
    for row in range(6):
        expected = by_hand(state, obs[row], actions[row])
        one = predict(state, obs[row], actions[row])
        for field in EnsemblePrediction._fields:
            for found in (getattr(one, field), getattr(many, field)[row]):
                np.testing.assert_allclose(
                    found, expected[field], rtol=2e-4, atol=1e-5, err_msg=field
                )


def test_learned_noise_is_averaged_as_a_variance() -> None:
    config = replace(SMALL, members=2, loss="likelihood")
    # Well inside the bounds the log std is the network's own answer.
    logs = np.array([[-2.0, -2.5, -3.0, -2.0], [-2.0, -3.5, -3.0, -4.0]])
    means = [[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]]
    state = answering((S, A), config, np.concatenate([means, logs], axis=1).tolist())
    state = replace(state, statistics=STATISTICS)
    found = predict(state, jnp.zeros(S), jnp.zeros(A))
    scale = np.asarray(STATISTICS.output_std)
    expected = scale * np.sqrt(np.exp(2 * logs).mean(axis=0))
    np.testing.assert_allclose(found.aleatoric_std, expected, rtol=0.03)
    np.testing.assert_allclose(found.epistemic_std, scale * [0, 0, 1, 1], rtol=1e-6)


# ---- losses ------------------------------------------------------------------------


def loss_of(state: EnsembleState, batch: Samples) -> float:
    return float(judge(state.members, state.statistics, batch))


def test_squared_error_by_hand() -> None:
    config = EnsembleConfig(members=2, hidden=(3,))
    state = answering((1, 1), config, [[1.0, 0.0], [0.0, -2.0]])
    state = measure(
        state,
        Samples(jnp.zeros((2, 2)), jnp.array([[8.0, 0.0], [12.0, 8.0]])),
        jnp.asarray(2),
    )  # means 10 and 4, spreads 2 and 4
    batch = Samples(jnp.zeros((2, 2)), jnp.array([[14.0, 4.0], [10.0, 8.0]]))
    # Normalised (2, 0) and (0, 1).  Errors of the first member (1, 0), (−1, 1), of the
    # second (2, 2), (0, 3): squares 3 and 17 over 8 numbers.
    assert loss_of(state, batch) == pytest.approx(20.0 / 8.0, rel=1e-6)


def test_likelihood_by_hand() -> None:
    config = EnsembleConfig(members=2, hidden=(3,), loss="likelihood")
    raw = [[1.0, 0.0, 0.5, -1.0], [0.0, -2.0, -3.0, 2.0]]
    state = answering((1, 1), config, raw)
    # The outputs are normalised by mean 1 and spread 1.
    batch = Samples(jnp.zeros((1, 2)), jnp.array([[3.0, 2.0]]))

    def soft(value: float) -> float:
        return math.log1p(math.exp(value))

    low, high = math.log(1e-3), math.log(10.0)
    total = 0.0
    for mean, log, target in [
        (1.0, 0.5, 2.0),
        (0.0, -1.0, 1.0),
        (0.0, -3.0, 2.0),
        (-2.0, 2.0, 1.0),
    ]:
        std = math.exp(low + soft(high - soft(high - log) - low))
        total -= norm.logpdf(target, mean, std)
    assert loss_of(state, batch) == pytest.approx(total / 4.0, rel=1e-5)


def test_separate_batches_are_judged_by_their_own_members() -> None:
    state = normalised_state()
    batches = [transitions(6, seed=seed) for seed in range(E)]
    stacked: Samples = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
    alone = [
        loss_of(
            replace(
                state, members=jax.tree.map(lambda x, e=e: x[e : e + 1], state.members)
            ),
            batch,
        )
        for e, batch in enumerate(batches)
    ]
    assert loss_of(state, stacked) == pytest.approx(np.mean(alone), rel=1e-5)
    assert loss_of(state, batches[0]) != pytest.approx(np.mean(alone), rel=1e-2)


def test_the_average_of_what_is_trained_predicts() -> None:
    averaged = replace(SMALL, averaging=0.25)
    plain, slow = normalised_state(), normalised_state(averaged)
    assert plain.trained is None
    expected = slow.members
    for seed in range(3):
        batch = transitions(5, seed)
        plain, _ = ensemble.update(plain, batch, SMALL)
        slow, _ = ensemble.update(slow, batch, averaged)
        assert same(slow.trained, plain.members)
        expected = jax.tree.map(
            lambda new, old: 0.25 * new + 0.75 * old, plain.members, expected
        )
    for got, wanted in zip(
        *map(jax.tree.leaves, (slow.members, expected)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    # Other statistics change neither of both as a function.
    other = replace(STATISTICS, output_std=2.0 * STATISTICS.output_std)
    obs, action = random(S), random(A)

    def mean(state: EnsembleState) -> jax.Array:
        return ensemble.predict(state, obs, action).mean

    assert slow.trained is not None
    raw = replace(slow, members=slow.trained)
    refitted = ensemble.refit(slow, other)
    assert refitted.trained is not None
    np.testing.assert_allclose(mean(refitted), mean(slow), rtol=1e-5)
    np.testing.assert_allclose(
        mean(replace(refitted, members=refitted.trained)), mean(raw), rtol=1e-5
    )
    assert float(jnp.abs(mean(raw) - mean(slow)).max()) > 1e-4

"""The ensemble: against single networks, hand-computed losses and known systems."""

import math
from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.stats import norm

from driftrl.config_deep import EnsembleConfig
from driftrl.errors import InputError
from driftrl.models import ensemble
from driftrl.models.ensemble import (
    EnsemblePrediction,
    EnsembleState,
    Samples,
    Statistics,
)
from driftrl.models.networks import MLP

S, A, E = 3, 2, 4
SMALL = EnsembleConfig(members=E, hidden=(8, 7), learning_rate=1e-2)
KEY = jax.random.key(7)
STATISTICS = Statistics(
    input_mean=jnp.array([0.5, -1.0, 2.0, 0.0, 0.1]),
    input_std=jnp.array([1.0, 2.0, 0.5, 0.6, 0.7]),
    output_mean=jnp.array([0.1, 0.2, -0.3, 5.0]),
    output_std=jnp.array([0.2, 3.0, 0.01, 2.0]),
)


def random(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def transitions(rows: int, seed: int = 0) -> Samples:
    parts = random(rows, 2 * S + A + 1, seed=seed)
    return ensemble.samples_of(
        parts[:, :S], parts[:, S : S + A], parts[:, S + A], parts[:, S + A + 1 :]
    )


def normalised_state(config: EnsembleConfig = SMALL) -> EnsembleState:
    return replace(ensemble.initial_state(S, A, config, key=KEY), statistics=STATISTICS)


def member(state: EnsembleState, index: int) -> MLP:
    return jax.tree.map(lambda leaf: leaf[index], state.members)


def answering(
    sizes: tuple[int, int], config: EnsembleConfig, biases: list[list[float]]
) -> EnsembleState:
    """Make members that give the same raw outputs, their biases, to everything."""
    shapes = jax.eval_shape(
        lambda key: ensemble.initial_state(*sizes, config, key=key), KEY
    )
    state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    state = eqx.tree_at(
        lambda s: s.members.layers[-1].bias, state, jnp.array(biases, jnp.float32)
    )
    return replace(state, statistics=jax.tree.map(jnp.ones_like, state.statistics))


def assert_same(found: object, expected: object) -> None:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for left, right in pairs:
        np.testing.assert_array_equal(left, right)


# ---- data and normalisation --------------------------------------------------------


def test_samples_by_hand() -> None:
    found = ensemble.samples_of(
        jnp.array([[1.0, 2.0]]),
        jnp.array([[0.5]]),
        jnp.array([-3.0]),
        jnp.array([[1.5, 1.0]]),
    )
    np.testing.assert_array_equal(found.inputs, [[1.0, 2.0, 0.5]])
    np.testing.assert_array_equal(found.outputs, [[0.5, -1.0, -3.0]])


@pytest.mark.parametrize("size", [2, 17, 40])
def test_statistics_are_those_of_the_valid_rows(size: int) -> None:
    data = transitions(40)
    padded = Samples(
        *(jnp.where(jnp.arange(40)[:, None] < size, x, jnp.nan) for x in data)
    )
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    found = ensemble.with_statistics(state, padded, jnp.asarray(size)).statistics
    x, y = np.asarray(data.inputs)[:size], np.asarray(data.outputs)[:size]
    np.testing.assert_allclose(found.input_mean, x.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.input_std, x.std(0), rtol=1e-5)
    np.testing.assert_allclose(found.output_mean, y.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.output_std, y.std(0), rtol=1e-5)


def test_statistics_forget_what_was_forgotten() -> None:
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    old, new = transitions(30), transitions(30, seed=1)
    shifted = Samples(100.0 + 50.0 * old.inputs, 1e3 * old.outputs)
    size = jnp.asarray(30)
    after = ensemble.with_statistics(
        ensemble.with_statistics(state, shifted, size), new, size
    )
    assert_same(after, ensemble.with_statistics(state, new, size))


def test_statistics_of_no_rows_change_nothing() -> None:
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    blank = Samples(jnp.full((4, S + A), jnp.nan), jnp.full((4, S + 1), jnp.nan))
    assert_same(ensemble.with_statistics(state, blank, jnp.asarray(0)), state)


def test_an_offset_costs_no_precision() -> None:
    column = np.random.default_rng(0).normal(size=(50_000, 1)).astype(np.float32)
    far = (column + np.float32(4096.0)).astype(np.float32)
    data = Samples(jnp.asarray(far), jnp.asarray(far))
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    found = ensemble.with_statistics(state, data, jnp.asarray(50_000)).statistics
    exact = far.astype(np.float64)
    np.testing.assert_allclose(found.input_mean, exact.mean(0), rtol=0, atol=5e-4)
    np.testing.assert_allclose(found.input_std, exact.std(0), rtol=1e-4)


def test_small_spreads_are_raised() -> None:
    rows = jnp.array([[1.0, -1e-5], [1.0, 1e-5]])
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    found = ensemble.with_statistics(state, Samples(rows, rows), jnp.asarray(2))
    np.testing.assert_allclose(found.statistics.input_std, [1e-3, 1e-3])
    np.testing.assert_allclose(found.statistics.output_std, [1e-6, 1e-5])


# ---- members -----------------------------------------------------------------------


def test_members_start_apart() -> None:
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    assert [layer.weight.shape for layer in state.members.layers] == [
        (E, S + A, 8),
        (E, 8, 7),
        (E, 7, S + 1),
    ]
    for layer in state.members.layers:
        for one in range(E):
            for other in range(one):
                assert float(jnp.abs(layer.weight[one] - layer.weight[other]).max()) > (
                    0.01
                )
            wide = np.asarray(layer.weight[one])
            gram = wide @ wide.T if len(wide) <= len(wide.T) else wide.T @ wide
            np.testing.assert_allclose(gram, 2.0 * np.eye(len(gram)), atol=1e-5)


def test_same_key_same_members() -> None:
    once, again = (ensemble.initial_state(S, A, SMALL, key=KEY) for _ in range(2))
    assert_same(once, again)
    other = ensemble.initial_state(S, A, SMALL, key=jax.random.key(8))
    first, second = (s.members.layers[0].weight for s in (once, other))
    assert float(jnp.abs(first - second).max()) > 0.01


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0)])
def test_empty_spaces_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="at least one state and one action dimension"):
        ensemble.initial_state(*sizes, SMALL, key=KEY)


# ---- predictions -------------------------------------------------------------------


def by_hand(
    state: EnsembleState, obs: np.ndarray, action: np.ndarray
) -> EnsemblePrediction:
    """Ask the networks one by one, outside of any vmap."""
    known = state.statistics
    z = (np.concatenate([obs, action]) - known.input_mean) / known.input_std
    raw = np.stack([np.asarray(member(state, index)(z)) for index in range(E)])
    outputs = np.asarray(known.output_mean) + np.asarray(known.output_std) * raw
    return EnsemblePrediction(
        mean=obs + outputs[:, :S].mean(0),
        reward=outputs[:, S].mean(),
        epistemic_std=outputs.std(axis=0, ddof=0),
        aleatoric_std=1e-3 * np.asarray(known.output_std),
        scale=np.asarray(known.output_std),
        member_means=obs + outputs[:, :S],
        member_rewards=outputs[:, S],
    )  # pyright: ignore[reportArgumentType]


def test_prediction_is_that_of_single_networks() -> None:
    state = normalised_state()
    obs, actions = random(6, S), random(6, A, seed=1)
    many = jax.jit(jax.vmap(lambda o, a: ensemble.predict(state, o, a)))(obs, actions)
    for row in range(6):
        expected = by_hand(state, np.asarray(obs[row]), np.asarray(actions[row]))
        one = ensemble.predict(state, obs[row], actions[row])
        for field in EnsemblePrediction._fields:
            for found in (getattr(one, field), getattr(many, field)[row]):
                np.testing.assert_allclose(
                    found, getattr(expected, field), rtol=2e-4, atol=1e-5, err_msg=field
                )


def test_learned_noise_is_averaged_as_a_variance() -> None:
    config = replace(SMALL, members=2, loss="likelihood")
    # Well inside the bounds the log std is the network's own answer.
    logs = np.array([[-2.0, -2.5, -3.0, -2.0], [-2.0, -3.5, -3.0, -4.0]])
    means = [[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]]
    state = answering((S, A), config, np.concatenate([means, logs], axis=1).tolist())
    state = replace(state, statistics=STATISTICS)
    found = ensemble.predict(state, jnp.zeros(S), jnp.zeros(A))
    scale = np.asarray(STATISTICS.output_std)
    expected = scale * np.sqrt(np.exp(2 * logs).mean(axis=0))
    np.testing.assert_allclose(found.aleatoric_std, expected, rtol=0.03)
    np.testing.assert_allclose(found.epistemic_std, scale * [0, 0, 1, 1], rtol=1e-6)


@pytest.mark.parametrize(("raw", "bound"), [(-500.0, 1e-3), (500.0, 10.0)])
def test_learned_noise_is_bounded_softly(raw: float, bound: float) -> None:
    config = replace(SMALL, members=2, loss="likelihood")

    def noise(raw: jax.Array) -> jax.Array:
        means = jnp.zeros((2, S + 1))
        logs = jnp.full((2, S + 1), raw)
        return ensemble._split(jnp.concatenate([means, logs], axis=1), STATISTICS)[1]  # pyright: ignore[reportReturnType]

    state = answering((S, A), config, [[0.0] * (S + 1) + [raw] * (S + 1)] * 2)
    state = replace(state, statistics=STATISTICS)
    found = ensemble.predict(state, jnp.zeros(S), jnp.zeros(A))
    scale = np.asarray(STATISTICS.output_std)
    np.testing.assert_allclose(found.aleatoric_std, bound * scale, rtol=1e-3)
    edge = jnp.asarray(math.log(bound))
    assert float(jax.grad(lambda r: noise(r)[0, 0])(edge)) == pytest.approx(
        0.5, abs=0.01
    )


def test_slope_is_finite_where_all_agree() -> None:
    state = normalised_state()
    same = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), state.members
    )
    same = replace(state, members=same)

    def unknown(action: jax.Array) -> jax.Array:
        return jnp.sum(ensemble.predict(same, jnp.zeros(S), action).epistemic_std)

    value, slope = jax.value_and_grad(unknown)(jnp.zeros(A))
    assert float(value) == pytest.approx(0.0, abs=1e-5)
    assert np.isfinite(slope).all()


# ---- losses ------------------------------------------------------------------------


def loss_of(state: EnsembleState, batch: Samples) -> float:
    return float(ensemble.regression_loss(state.members, state.statistics, batch))


def test_squared_error_by_hand() -> None:
    config = EnsembleConfig(members=2, hidden=(3,))
    state = answering((1, 1), config, [[1.0, 0.0], [0.0, -2.0]])
    state = ensemble.with_statistics(
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


# ---- learning ----------------------------------------------------------------------


def manual_steps(
    state: EnsembleState, batches: list[Samples], config: EnsembleConfig
) -> list[MLP]:
    """Train the members one by one with plain Adam; clip their joint gradient."""
    known = state.statistics
    adam = optax.adam(config.learning_rate)

    @jax.jit
    def slope(network: MLP, batch: Samples) -> MLP:
        def loss(network: MLP) -> jax.Array:
            z = (batch.inputs - known.input_mean[None]) / known.input_std[None]
            y = (batch.outputs - known.output_mean[None]) / known.output_std[None]
            return jnp.mean((jax.vmap(network)(z) - y) ** 2) / E

        return jax.grad(loss)(network)

    @jax.jit
    def step(
        network: MLP, memory: optax.OptState, gradient: MLP, shrink: jax.Array
    ) -> tuple[MLP, optax.OptState]:
        gradient = jax.tree.map(lambda leaf: shrink * leaf, gradient)
        with jax.numpy_dtype_promotion("standard"):
            change, memory = adam.update(gradient, memory)  # pyright: ignore[reportArgumentType]
            return optax.apply_updates(network, change), memory  # pyright: ignore[reportArgumentType, reportReturnType]

    networks = [member(state, index) for index in range(E)]
    memories = [adam.init(network) for network in networks]  # pyright: ignore[reportArgumentType]
    for batch in batches:
        slopes = [slope(network, batch) for network in networks]
        size = math.sqrt(sum(float((x**2).sum()) for x in jax.tree.leaves(slopes)))
        shrink = jnp.asarray(min(1.0, config.gradient_clip / size))
        for e in range(E):
            networks[e], memories[e] = step(networks[e], memories[e], slopes[e], shrink)
    return networks


@pytest.mark.parametrize("clip", [1e6, 0.5])
def test_an_update_is_that_of_single_networks(clip: float) -> None:
    config = replace(SMALL, gradient_clip=clip)
    state = normalised_state(config)
    # Adam forgets a constant factor of the gradients; batches of different difficulty
    # are shortened by different factors.
    batches = [
        Samples(batch.inputs, factor * batch.outputs)
        for factor, batch in zip(
            (100.0, 1.0, 30.0),
            (transitions(10, seed) for seed in range(3)),
            strict=True,
        )
    ]
    expected = manual_steps(state, batches, config)
    before = loss_of(state, batches[0])
    update = jax.jit(ensemble.update, static_argnums=2)
    for number, batch in enumerate(batches):
        state, metrics = update(state, batch, config)
        if number == 0:
            assert float(metrics.loss) == pytest.approx(before, rel=1e-5)
            assert float(metrics.gradient_norm) > 0.5  # the smaller limit does act
    assert int(state.updates) == 3
    for index in range(E):
        for found, wanted in zip(
            jax.tree.leaves(member(state, index)),
            jax.tree.leaves(expected[index]),
            strict=True,
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-5)


def test_training_is_a_loop_of_updates() -> None:
    data = transitions(50)
    size = jnp.asarray(33)
    state = ensemble.with_statistics(normalised_state(), data, size)
    found, metrics = ensemble.train(
        state, data, size, SMALL, updates=4, batch=16, key=KEY
    )
    losses = []
    update = jax.jit(ensemble.update, static_argnums=2)
    for key in jax.random.split(KEY, 4):
        batch = ensemble.draw(data, size, SMALL, 16, key=key)
        state, seen = update(state, batch, SMALL)
        losses.append(float(seen.loss))
    assert float(metrics.loss) == pytest.approx(np.mean(losses), rel=1e-4)
    for left, right in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)


def test_same_key_same_training() -> None:
    data, size = transitions(50), jnp.asarray(50)
    state = normalised_state()

    def trained(key: jax.Array) -> EnsembleState:
        return ensemble.train(state, data, size, SMALL, updates=3, batch=8, key=key)[0]

    assert_same(trained(KEY), trained(KEY))
    weights = [trained(jax.random.key(k)).members.layers[0].weight for k in (1, 2)]
    assert float(jnp.abs(weights[0] - weights[1]).max()) > 1e-4


def test_rows_are_drawn_from_the_valid_ones_alone() -> None:
    rows = jnp.arange(100.0)[:, None]
    data = Samples(rows, rows)
    drawn = ensemble.draw(data, jnp.asarray(7), SMALL, 500, key=KEY)
    assert drawn.inputs.shape == (500, 1)
    np.testing.assert_array_equal(np.unique(np.asarray(drawn.inputs)), np.arange(7.0))
    np.testing.assert_array_equal(drawn.inputs, drawn.outputs)


def test_separate_batches_differ() -> None:
    rows = jnp.arange(1000.0)[:, None]
    config = replace(SMALL, separate_batches=True)
    drawn = ensemble.draw(
        Samples(rows, rows), jnp.asarray(1000), config, 64, key=KEY
    ).inputs
    assert drawn.shape == (E, 64, 1)
    for one in range(E):
        for other in range(one):
            shared = np.intersect1d(np.asarray(drawn[one]), np.asarray(drawn[other]))
            assert len(shared) < 16  # 4 are expected


def test_another_size_compiles_nothing() -> None:
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if "backend_compile" in event:
            compiled.append(event)

    data = transitions(64)
    measure = jax.jit(ensemble.with_statistics)
    config = replace(SMALL, hidden=(9,))  # compiled by no other test
    state = ensemble.initial_state(S, A, config, key=KEY)
    sizes = [jnp.asarray(size) for size in (10, 11, 64)]
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for number, size in enumerate(sizes):
            if number == 1:
                assert compiled  # the listener does hear
                compiled.clear()
            state = measure(state, data, size)
            state, _ = ensemble.train(
                state, data, size, config, updates=2, batch=4, key=KEY
            )
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


# ---- known systems -----------------------------------------------------------------

LINEAR = np.array(
    [[0.1, 0.2, -0.1, 1.0], [-0.3, 0.1, 0.0, 0.5], [1.0, 0.5, 0.2, -1.0]], np.float32
).T[:, :3]


def linear_system(rows: int, noise: tuple[float, float, float], seed: int) -> Samples:
    """Two states, two actions; changes and reward are linear, plus noise."""
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1.0, 1.0, (rows, 4)).astype(np.float32)
    outputs = inputs @ LINEAR + np.array([5.0, 0.0, -20.0], np.float32)
    outputs += rng.normal(size=(rows, 3)).astype(np.float32) * np.array(
        noise, np.float32
    )
    return Samples(jnp.asarray(inputs), jnp.asarray(outputs))


@pytest.fixture(scope="module")
def trained() -> Callable[[str, bool], EnsembleState]:
    """Train on a linear system: without noise by squares, with it by likelihood."""

    def train(loss: str, separate: bool) -> EnsembleState:
        config = EnsembleConfig(
            hidden=(32, 32),
            learning_rate=3e-3,
            loss=loss,  # pyright: ignore[reportArgumentType]
            separate_batches=separate,
        )
        noise = (0.0, 0.0, 0.0) if loss == "mse" else (0.05, 0.2, 0.8)
        data, size = linear_system(1000, noise, seed=0), jnp.asarray(1000)
        state = ensemble.initial_state(2, 2, config, key=KEY)
        state = ensemble.with_statistics(state, data, size)
        return ensemble.train(
            state, data, size, config, updates=600, batch=128, key=KEY
        )[0]

    return train


@pytest.mark.parametrize("separate", [False, True])
def test_learns_a_linear_system(
    trained: Callable[[str, bool], EnsembleState], separate: bool
) -> None:
    state = trained("mse", separate)
    fresh = linear_system(200, (0.0, 0.0, 0.0), seed=1)
    ask = jax.vmap(lambda z: ensemble.predict(state, z[:2], z[2:]))
    near = ask(fresh.inputs)
    changes = np.concatenate(
        [near.mean - fresh.inputs[:, :2], near.reward[:, None]], axis=1
    )
    error = (changes - np.asarray(fresh.outputs)) / np.asarray(near.scale)
    assert np.sqrt(np.mean(error**2)) < 0.05
    # What was seen is known, what lies three times as far out is not.
    far = ask(4.0 * jnp.sign(fresh.inputs))
    unknown = [np.mean(np.asarray(p.epistemic_std / p.scale)) for p in (near, far)]
    assert unknown[1] > 5.0 * unknown[0]


def test_likelihood_finds_the_noise(
    trained: Callable[[str, bool], EnsembleState],
) -> None:
    state = trained("likelihood", False)
    fresh = linear_system(200, (0.0, 0.0, 0.0), seed=1)
    found = jax.vmap(lambda z: ensemble.predict(state, z[:2], z[2:]))(fresh.inputs)
    noise = np.asarray(found.aleatoric_std).mean(axis=0)
    np.testing.assert_allclose(noise, [0.05, 0.2, 0.8], rtol=0.15)
    changes = np.asarray(found.mean - fresh.inputs[:, :2])
    error = changes - np.asarray(fresh.outputs)[:, :2]
    assert (np.sqrt(np.mean(error**2, axis=0)) < [0.03, 0.1]).all()

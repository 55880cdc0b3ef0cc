"""Dynamics and reward as an ensemble of networks; disagreement is the uncertainty.

Inputs are z = (obs, action), outputs y = (state difference, reward), both normalised by
the retained data alone.  Members differ by their initial parameters and, optionally,
by the batches they learn from.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from driftrl.config.deep import EnsembleConfig
from driftrl.models.networks import (
    HIDDEN_GAIN,
    MLP,
    adam,
    apply_gradients,
    polyak_update,
    refit_inputs,
    refit_outputs,
    safe_sqrt,
    stacked,
)

# Floor of an input's std: with narrow data, every other query would otherwise lie
# thousands of standard deviations away.
SMALLEST_INPUT_STD = 1e-3
# An output may be small, in its units; this only guards the division.
SMALLEST_OUTPUT_STD = 1e-6
# Noise that the squared-error loss assumes, in units of the spread of an output.
ASSUMED_NOISE = 1e-3
_SMALL_GAIN = 0.1  # of the last layer, where the noise is learned for every output
_FIRST_LOG_STD = -1.0  # before learning, where the noise is learned for every output
# Bounds of a learned log σ_al, in the same units: from that noise to ten spreads.
LOG_STD_RANGE = (math.log(ASSUMED_NOISE), math.log(10.0))


class Samples(NamedTuple):
    """Inputs and outputs to learn from, in their own units.

    One leading axis for a batch shared by all members, two for separate batches.
    """

    inputs: Float[Array, "*E N D"]
    outputs: Float[Array, "*E N O"]


class Statistics(eqx.Module):
    """Mean and spread of the retained data, which normalise inputs and outputs."""

    input_mean: Float[Array, " D"]
    input_std: Float[Array, " D"]
    output_mean: Float[Array, " O"]
    output_std: Float[Array, " O"]

    @property
    def of_obs(self) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
        """Mean and spread of the observations."""
        states = len(self.output_mean) - 1
        return self.input_mean[:states], self.input_std[:states]

    def with_plain_actions(self) -> "Statistics":
        """Return the statistics that leave actions, which lie in [−1, 1], as they are.

        An action that a policy hardly varies would else be magnified, and with it the
        slope of the model by that action.
        """
        states = len(self.output_mean) - 1
        return replace(
            self,
            input_mean=self.input_mean.at[states:].set(0.0),
            input_std=self.input_std.at[states:].set(1.0),
        )

    def normalised_obs(self, obs: Float[Array, " S"]) -> Float[Array, " S"]:
        """Return an observation as actor and critics take it."""
        mean, std = self.of_obs
        return (obs - mean) / std


class ConstantNoise(MLP):
    """A network with one learned log σ of every output, the same for all inputs."""

    log_std: Float[Array, " O"]

    def __init__(self, sizes: Sequence[int], *args: Any, **settings: Any):
        super().__init__(sizes, *args, **settings)
        self.log_std = jnp.asarray(np.full(sizes[-1], _FIRST_LOG_STD), jnp.float32)


class EnsembleState(eqx.Module):
    """Everything that learning changes; a pytree of arrays."""

    members: MLP
    """What predicts: all networks as one, every parameter with a leading axis E."""
    trained: MLP | None
    """What is trained, where its average predicts; None: the members themselves."""
    optimiser: PyTree
    updates: Int[Array, ""]
    """Number of updates so far."""
    statistics: Statistics
    """Recomputed whenever the retained data change."""


class EnsemblePrediction(NamedTuple):
    """Belief about one transition, in its own units; the last output is the reward."""

    mean: Float[Array, " S"]
    """μ(x, u): the expected next state, the mean over the members."""
    reward: Float[Array, ""]
    """The expected reward."""
    epistemic_std: Float[Array, " O"]
    """σ(x, u) of every output: the disagreement of the members."""
    aleatoric_std: Float[Array, " O"]
    """σ_al of every output: the learned noise, or a constant part of the scale."""
    scale: Float[Array, " O"]
    """Spread of every output in the retained data: σ/scale has no unit."""
    member_means: Float[Array, "E S"]
    """The next state that each member expects."""
    member_rewards: Float[Array, " E"]
    """The reward that each member expects."""


# Which axis of a batch of predictions counts the rows.
ROWS = EnsemblePrediction(0, 0, 0, 0, 0, 1, 1)  # pyright: ignore[reportArgumentType]


def initial_state(
    state_size: int, action_size: int, config: EnsembleConfig, *, key: Key[Array, ""]
) -> EnsembleState:
    """Return fresh networks, drawn independently, without normalisation."""
    inputs, outputs = state_size + action_size, state_size + 1
    width = 2 * outputs if config.loss == "likelihood" else outputs
    sizes = (inputs, *config.hidden, width)
    noisy = config.loss == "homoscedastic"
    kind, gain = (ConstantNoise, _SMALL_GAIN) if noisy else (MLP, HIDDEN_GAIN)

    def make(key: Key[Array, ""]) -> MLP:
        return kind(sizes, jax.nn.silu, last_gain=gain, key=key)

    members = stacked([make(k) for k in jax.random.split(key, config.members)])
    return _init_state(members, inputs, outputs, config)


@partial(jax.jit, static_argnames=("inputs", "outputs", "config"))
def _init_state(
    members: MLP, inputs: int, outputs: int, config: EnsembleConfig
) -> EnsembleState:
    return EnsembleState(
        members=members,
        trained=members if config.averaging < 1 else None,
        optimiser=optimiser(config).init(members),  # pyright: ignore[reportArgumentType]
        updates=jnp.zeros((), jnp.int32),
        statistics=Statistics(
            input_mean=jnp.zeros(inputs),
            input_std=jnp.ones(inputs),
            output_mean=jnp.zeros(outputs),
            output_std=jnp.ones(outputs),
        ),
    )


def optimiser(config: EnsembleConfig) -> optax.GradientTransformation:
    """Return Adam behind a limit on the joint norm of all members' gradients."""
    return adam(config.learning_rate, config.gradient_clip, config.weight_decay)


def samples_of(
    obs: Float[Array, "*N S"],
    actions: Float[Array, "*N A"],
    rewards: Float[Array, "*N"],
    next_obs: Float[Array, "*N S"],
) -> Samples:
    """Return z = (x, u) and y = (x' − x, r) of transitions, one row each."""
    return Samples(
        inputs=jnp.concatenate([obs, actions], axis=-1),
        outputs=jnp.concatenate([next_obs - obs, rewards[..., None]], axis=-1),
    )


def statistics(data: Samples, size: Int[Array, ""]) -> Statistics:
    """Return mean and spread of the first ``size`` rows of ``data``."""
    valid = (jnp.arange(len(data.inputs)) < size)[:, None]
    count = jnp.maximum(size, 1).astype(data.inputs.dtype)

    def moments(values: Float[Array, "N D"]) -> tuple[Array, Array]:
        # Subtract the first row, so that a large offset costs no precision.
        shifted = jnp.where(valid, values - values[:1], 0.0)
        shift = jnp.sum(shifted, axis=0) / count
        squares = jnp.where(valid, (shifted - shift[None]) ** 2, 0.0)
        return values[0] + shift, jnp.sum(squares, axis=0) / count

    mean, variance = zip(*map(moments, data), strict=True)
    return statistics_from(Samples(*mean), Samples(*variance), size)


def statistics_from(
    mean: Samples, variance: Samples, size: Int[Array, ""]
) -> Statistics:
    """Return the statistics of ``size`` rows; none leave everything as it is."""

    def limited(
        mean: Float[Array, " D"], variance: Float[Array, " D"], smallest: float
    ) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
        std = jnp.maximum(jnp.sqrt(variance), smallest)
        return jnp.where(size > 0, mean, 0.0), jnp.where(size > 0, std, 1.0)

    return Statistics(
        *limited(mean.inputs, variance.inputs, SMALLEST_INPUT_STD),
        *limited(mean.outputs, variance.outputs, SMALLEST_OUTPUT_STD),
    )


def refit(state: EnsembleState, statistics: Statistics) -> EnsembleState:
    """Normalise by other statistics without changing what the members predict.

    Exact for the means, and for the noise as far as its bounds leave it alone.
    """
    old, new = state.statistics, statistics
    inputs = [(part.input_mean, part.input_std) for part in (old, new)]
    outputs = [(part.output_mean, part.output_std) for part in (old, new)]
    shift = jnp.log(old.output_std / new.output_std)
    if state.members.layers[-1].bias.shape[-1] > len(shift):
        outputs = [  # log σ shifts and does not scale
            (jnp.concatenate([mean, noise]), jnp.concatenate([std, jnp.ones_like(std)]))
            for (mean, std), noise in zip(outputs, (shift, 0.0 * shift), strict=True)
        ]

    def same_function(members: MLP) -> MLP:
        members = refit_inputs(members, *inputs)
        if isinstance(members, ConstantNoise):
            log_std = members.log_std + shift[None]
            members = eqx.tree_at(lambda member: member.log_std, members, log_std)
        return refit_outputs(members, *outputs)

    trained = None if state.trained is None else same_function(state.trained)
    members = same_function(state.members)
    return replace(state, members=members, trained=trained, statistics=statistics)


def predict(
    state: EnsembleState, obs: Float[Array, " S"], action: Float[Array, " A"]
) -> EnsemblePrediction:
    """Predict one transition, with one pass of every member."""
    known = state.statistics
    z = (jnp.concatenate([obs, action]) - known.input_mean) / known.input_std
    raw = jax.vmap(lambda member: member(z))(state.members)
    return _belief(state.members, known, obs, raw)


def predict_batch(
    state: EnsembleState, obs: Float[Array, "B S"], actions: Float[Array, "B A"]
) -> EnsemblePrediction:
    """Predict a batch of transitions: every array has an axis B, after that of members.

    The same as ``predict`` of every row, by batched products.
    """
    known = state.statistics
    inputs = jnp.concatenate([obs, actions], axis=1)
    z = _normalised(inputs, known.input_mean, known.input_std)
    # A copy for each member, as in ``regression_loss``.
    copies = jnp.broadcast_to(z, state.members.layers[0].bias.shape[:1] + z.shape)
    raw = jax.vmap(lambda member, rows: jax.vmap(member)(rows))(state.members, copies)
    return _belief(state.members, _for_rows(known, len(obs)), obs, raw)


def predict_in_turn(
    state: EnsembleState,
    obs: Float[Array, "B S"],
    actions: Float[Array, "B A"],
    turn: int,
) -> tuple[Float[Array, "B S"], Float[Array, " B"]]:
    """Predict next states and rewards of a batch, every row by one member.

    The members share the rows, which are as many for each; at another turn, another
    member has them.
    """
    known = state.statistics
    means = _in_turns(state, obs, actions, [turn])[0, :, : len(known.output_mean)]
    outputs = known.output_mean[None] + known.output_std[None] * means
    return obs + outputs[:, :-1], outputs[:, -1]


def predict_by_pairs(
    state: EnsembleState,
    obs: Float[Array, "B S"],
    actions: Float[Array, "B A"],
    turn: int,
) -> EnsemblePrediction:
    """Predict a batch by two members a row: what one expects, and how they differ.

    Mean and reward are those of ``predict_in_turn``; the other member is the next one.
    Of the values v and v' of both, σ = √((E − 1)/2E)·|v − v'|.  On average over all
    pairs σ² is the variance of the E members; neighbours are as good as any other pair.
    """
    raw = _in_turns(state, obs, actions, [turn, turn + 1])
    belief = _belief(state.members, _for_rows(state.statistics, len(obs)), obs, raw)
    count = state.members.layers[0].bias.shape[0]
    of_pair = math.sqrt(2.0 * (count - 1) / count)  # two members differ by 2σ of both
    return belief._replace(
        mean=belief.member_means[0],
        reward=belief.member_rewards[0],
        epistemic_std=of_pair * belief.epistemic_std,
    )


def constant_noise(state: EnsembleState) -> Float[Array, " O"]:
    """Return σ_al of every output of networks with ``ConstantNoise``."""
    known, bias = state.statistics, state.members.layers[-1].bias
    _, log_stds = _split(state.members, jnp.zeros_like(bias), known)
    assert log_stds is not None
    return known.output_std * jnp.sqrt(jnp.mean(jnp.exp(2.0 * log_stds), axis=0))


def _in_turns(
    state: EnsembleState,
    obs: Float[Array, "B S"],
    actions: Float[Array, "B A"],
    turns: Sequence[int],
) -> Float[Array, "T B W"]:
    """Return for each turn the output of the member whose turn it is with each row.

    All turns are one batched product, with the rows brought to the members: small
    products are slow, and so is moving the parameters.
    """
    known = state.statistics
    inputs = jnp.concatenate([obs, actions], axis=1)
    z = _normalised(inputs, known.input_mean, known.input_std)
    count = state.members.layers[0].bias.shape[0]
    shares = z.reshape(count, -1, z.shape[1])
    rows = jnp.concatenate([jnp.roll(shares, -turn, axis=0) for turn in turns], axis=1)
    raw = jax.vmap(lambda member, rows: jax.vmap(member)(rows))(state.members, rows)
    parts = jnp.split(raw, len(turns), axis=1)
    back = [jnp.roll(part, turn, 0) for part, turn in zip(parts, turns, strict=True)]
    return jnp.stack(back).reshape(len(turns), len(z), -1)


def _for_rows(known: Statistics, rows: int) -> Statistics:
    return jax.tree.map(lambda part: jnp.broadcast_to(part, (rows, *part.shape)), known)


def _belief(
    members: MLP,
    known: Statistics,
    obs: Float[Array, "*B S"],
    raw: Float[Array, "E *B W"],
) -> EnsemblePrediction:
    means, log_stds = _split(members, raw, known)
    if log_stds is None:
        noise = jnp.full_like(known.output_std, ASSUMED_NOISE)
    else:
        noise = jnp.sqrt(jnp.mean(jnp.exp(2.0 * log_stds), axis=0))
    outputs = known.output_mean[None] + known.output_std[None] * means
    centre = jnp.mean(outputs, axis=0)
    return EnsemblePrediction(
        mean=obs + centre[..., :-1],
        reward=centre[..., -1],
        epistemic_std=known.output_std * disagreement(means),
        aleatoric_std=known.output_std * noise,
        scale=known.output_std,
        member_means=obs[None] + outputs[..., :-1],
        member_rewards=outputs[..., -1],
    )


def disagreement(values: Float[Array, "E *B O"]) -> Float[Array, "*B O"]:
    """Return the standard deviation over the members, σ_j = √(mean_e (v_ej − v̄_j)²).

    The members are the whole population: the mean divides by E.
    """
    return safe_sqrt(jnp.var(values, axis=0))


def regression_loss(
    members: MLP, statistics: Statistics, batch: Samples
) -> Float[Array, ""]:
    """Return the mean loss over members, batch and outputs, in normalised units.

    With the error ε = y − μ: ε², or where the members predict a log σ, the negative
    log likelihood ½(ε/σ)² + log σ + ½ log 2π; both where σ is the same for all inputs,
    the second for σ alone.
    """
    inputs = _normalised(batch.inputs, statistics.input_mean, statistics.input_std)
    outputs = _normalised(batch.outputs, statistics.output_mean, statistics.output_std)
    # A shared batch is repeated: batched products are faster than one product of all
    # first layers, whose result would have to be transposed.
    members_axis = members.layers[0].bias.shape[:1]
    inputs = jnp.broadcast_to(inputs, members_axis + inputs.shape[-2:])
    outputs = jnp.broadcast_to(outputs, members_axis + outputs.shape[-2:])

    def member_loss(
        member: MLP, inputs: Float[Array, "B D"], outputs: Float[Array, "B O"]
    ) -> Float[Array, ""]:
        raw = jax.vmap(member)(inputs)
        mean, log_std = _split(member, raw, statistics)
        error = outputs - mean
        if log_std is None:
            return jnp.mean(error**2)
        likelihood = lambda error: (
            jnp.mean(0.5 * (error * jnp.exp(-log_std)) ** 2 + log_std)
            + 0.5 * math.log(2.0 * math.pi)
        )
        if isinstance(member, ConstantNoise):
            # The likelihood would weigh outputs by their noise, which learns worse.
            return jnp.mean(error**2) + likelihood(jax.lax.stop_gradient(error))
        return likelihood(error)

    return jnp.mean(jax.vmap(member_loss)(members, inputs, outputs))


def update(
    state: EnsembleState, batch: Samples, config: EnsembleConfig
) -> tuple[EnsembleState, Float[Array, ""]]:
    """Take one gradient step of all members on a batch; return the loss as well."""
    before = state.members if state.trained is None else state.trained
    loss, gradient = jax.value_and_grad(regression_loss)(
        before, state.statistics, batch
    )
    after, memory = apply_gradients(
        optimiser(config), gradient, state.optimiser, before
    )
    members, trained = after, None
    if state.trained is not None:
        members, trained = polyak_update(after, state.members, config.averaging), after
    state = replace(
        state,
        members=members,
        trained=trained,
        optimiser=memory,
        updates=state.updates + 1,
    )
    return state, loss


def _split(
    members: MLP, raw: Float[Array, "*R W"], statistics: Statistics
) -> tuple[Float[Array, "*R O"], Float[Array, "*N O"] | None]:
    """Separate means from softly bounded log standard deviations, if there are any.

    log σ = l + softplus(h − softplus(h − s) − l) for the raw output s and the bounds
    [l, h]: about s well inside the bounds, with a positive slope everywhere.
    """
    count = statistics.output_mean.shape[-1]
    means, free = raw[..., :count], raw[..., count:]
    if isinstance(members, ConstantNoise):
        log_std = members.log_std  # of one member, or of all, before the rows' axes
        rows = raw.ndim - log_std.ndim
        free = log_std.reshape(*log_std.shape[:-1], *[1] * rows, count)
    elif raw.shape[-1] == count:
        return raw, None
    low, high = LOG_STD_RANGE
    below = high - jax.nn.softplus(high - free)
    return means, low + jax.nn.softplus(below - low)


def _normalised(
    values: Float[Array, "*B D"], mean: Float[Array, " D"], std: Float[Array, " D"]
) -> Float[Array, "*B D"]:
    shape = (1,) * (values.ndim - 1) + mean.shape
    return (values - mean.reshape(shape)) / std.reshape(shape)

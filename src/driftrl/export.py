"""The newest policy and model of a run as files that NumPy alone evaluates.

Only the networks are read, from the arrays of a checkpoint: neither the agent nor the
machine that it was learned on has to be built again.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from driftrl.agents.base import interval_scale
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.errors import InputError, require
from driftrl.exported import Model, Policy, PolicyError, bounded, to_bytes
from driftrl.io import write_atomically
from driftrl.models.ensemble import ASSUMED_NOISE
from driftrl.onnx_export import to_onnx
from driftrl.records import readable_records
from driftrl.training.checkpoint import load_arrays, newest
from driftrl.training.run_directory import read_config

Arrays = Mapping[str, np.ndarray]
Bounds = tuple[np.ndarray, np.ndarray]
Layers = tuple[np.ndarray, ...]
_FORMATS = {".npz": to_bytes, ".onnx": to_onnx}


def export(directory: Path, to: Path, bounds: Bounds | None = None) -> Policy:
    """Write the newest policy of a run to a file, .npz or .onnx, and return it.

    The run may be under way; it is only read.  ``bounds`` are what actions of −1 and 1
    command, by default those that the run has recorded.
    """
    config, agent, arrays, episodes = _learned(directory, to, "policy")
    repeat = config.environment.action_repeat
    if "best_actor.layers.0.bias" in arrays:
        layers = mode_layers(*_layers(arrays, "best_actor"))
    elif isinstance(agent, EnsembleAgentConfig) and agent.policy_gradient == "model":
        weights, biases = mode_layers(*_layers(arrays, "average_actor"))
        layers = plain_inputs(weights, biases, arrays)
    else:
        layers = mode_layers(*_layers(arrays, "policy.actor"))
    low, high = bounds or machine_bounds(config) or (None, None)
    try:
        activation = agent.sac.activation
        policy = Policy(config.task, episodes, *layers, low, high, repeat, activation)
    except PolicyError as error:
        raise InputError(f"{directory} can't be exported. {error}") from error
    write_atomically(to, _FORMATS[to.suffix](policy))
    return policy


def export_model(directory: Path, to: Path) -> Model:
    """Write the newest model of a run to a file, .npz or .onnx, and return it."""
    config, agent, arrays, episodes = _learned(directory, to, "model")
    if isinstance(agent, SACAgentConfig):
        raise InputError(f"The run in {directory} has agent.kind = 'sac', no model.")
    weights, biases = plain_inputs(*_layers(arrays, "model.members"), arrays)
    mean, spread = (
        arrays[f"model.statistics.output_{name}"].astype(np.float64)
        for name in ("mean", "std")
    )
    # In an output's own units; a log σ behind them stays in units of the spread.
    unit, shift = np.ones(biases[-1].shape[1]), np.zeros(biases[-1].shape[1])
    unit[: len(spread)], shift[: len(spread)] = spread, mean
    weights = (*weights[:-1], weights[-1] * unit)
    biases = (*biases[:-1], biases[-1] * unit + shift)
    noise = None
    if (log_std := arrays.get("model.members.log_std")) is not None:
        deviation = np.exp(bounded(log_std.astype(np.float64)))
        noise = spread * np.sqrt(np.mean(deviation**2, axis=0))
    elif len(unit) == len(spread):
        noise = ASSUMED_NOISE * spread
    rows, _ = readable_records(directory / "episodes.jsonl")
    scale = interval_scale([row.error_quantile for row in rows[:episodes]])
    repeat = config.environment.action_repeat
    made = (config.task, episodes, weights, biases, spread, noise, scale, repeat)
    model = Model(*made)
    write_atomically(to, _FORMATS[to.suffix](model))
    return model


def _learned(
    directory: Path, to: Path, what: str
) -> tuple[RunConfig, EnsembleAgentConfig | SACAgentConfig, Arrays, int]:
    """Return settings, agent, arrays and episodes of a run that has learned."""
    formats = " or ".join(_FORMATS)
    require(to.suffix in _FORMATS, f"The {what} goes to {formats}, received {to}.")
    require(to.parent.is_dir(), f"There is no directory {to.parent}; make it first.")
    config = read_config(directory)
    if isinstance(config.agent, GPAgentConfig):
        raise InputError(
            f"The run in {directory} has agent.kind = 'gp', which plans every action "
            "with its data and has no networks to export; run 'ensemble' or 'sac'."
        )
    require(
        not config.environment.limits.limits_actions,
        f"The run in {directory} has limits of actions, which an exported policy would "
        "not keep: drive with Session.resume or Trained.act.",
    )
    arrays, episodes = newest(directory, load_arrays)
    if config.initial.controller:
        arrays = {k.removeprefix("learned."): array for k, array in arrays.items()}
    require(
        int(arrays["policy.updates"]) > 0,
        f"The policy of the run in {directory} has not been trained yet: episodes so "
        f"far {episodes}, and learning begins with "
        f"{config.agent.learning.learning_starts} transitions "
        "(agent.learning.learning_starts). Let the run go on.",
    )
    return config, config.agent, arrays, episodes


def _layers(arrays: Arrays, network: str) -> tuple[Layers, Layers]:
    """Return the weights and biases of a network, by a checkpoint's arrays."""
    name = network + ".layers.{}.{}"
    count = sum(name.format(n, "bias") in arrays for n in range(len(arrays)))
    weights, biases = (
        tuple(arrays[name.format(n, part)].astype(np.float64) for n in range(count))
        for part in ("weight", "bias")
    )
    return weights, biases


def mode_layers(weights: Layers, biases: Layers) -> tuple[Layers, Layers]:
    """Return the layers that give a policy's mode, before tanh.

    The network's outputs are μ, then log σ; the mode tanh(μ) needs the first half.
    """
    actions = len(biases[-1]) // 2
    last = weights[-1][:, :actions], biases[-1][:actions]
    return (*weights[:-1], last[0]), (*biases[:-1], last[1])


def plain_inputs(
    weights: Layers, biases: Layers, arrays: Arrays
) -> tuple[Layers, Layers]:
    """Return layers that take their first inputs as they are, not normalised."""
    mean, std = (
        arrays[f"model.statistics.input_{name}"][: weights[0].shape[-2]]
        for name in ("mean", "std")
    )
    first = weights[0] / std[:, None].astype(np.float64)
    bias = biases[0] - mean.astype(np.float64) @ first
    return (first, *weights[1:]), (bias, *biases[1:])


def machine_bounds(config: RunConfig) -> Bounds | None:
    """Return what actions of −1 and 1 command on the machine of a run.

    None for a task of driftrl, and for a machine that is commanded in [−1, 1].
    """
    low, high = config.environment.low, config.environment.high
    return (np.array(low), np.array(high)) if low and high else None

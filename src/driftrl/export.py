"""The newest policy of a run as a file that a robot evaluates with NumPy alone.

Only the policy's network is read, from the arrays of a checkpoint: neither the agent
nor the machine that it was learned on has to be built again.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.errors import InputError, require
from driftrl.exported import Policy, PolicyError, to_bytes
from driftrl.io import write_atomically
from driftrl.training.checkpoint import load_arrays, newest
from driftrl.training.run_directory import read_config

Bounds = tuple[np.ndarray, np.ndarray]
Layers = tuple[np.ndarray, ...]


def export(directory: Path, to: Path, bounds: Bounds | None = None) -> Policy:
    """Write the newest policy of a run to a file, .npz or .onnx, and return it.

    The run may be under way; it is only read.  ``bounds`` are what actions of −1 and 1
    command, by default those that the run has recorded.
    """
    formats = " or ".join(_FORMATS)
    require(to.suffix in _FORMATS, f"--to must end in {formats}, received {to}.")
    require(to.parent.is_dir(), f"There is no directory {to.parent}; make it first.")
    config = read_config(directory)
    if isinstance(config.agent, GPAgentConfig):
        raise InputError(
            f"The run in {directory} has agent.kind = 'gp', which plans every action "
            "and has no policy network to export; run 'ensemble' or 'sac'."
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
    agent, repeat = config.agent, config.environment.action_repeat
    if isinstance(agent, EnsembleAgentConfig) and agent.policy_gradient == "model":
        layers = plain_inputs(*actor_layers(arrays, "average_actor"), arrays)
    else:
        layers = actor_layers(arrays)
    low, high = bounds or machine_bounds(config) or (None, None)
    try:
        activation = config.agent.sac.activation
        policy = Policy(config.task, episodes, *layers, low, high, repeat, activation)
    except PolicyError as error:
        raise InputError(f"{directory} can't be exported. {error}") from error
    write_atomically(to, _FORMATS[to.suffix](policy))
    return policy


def actor_layers(
    arrays: Mapping[str, np.ndarray], actor: str = "policy.actor"
) -> tuple[Layers, Layers]:
    """Return the weights and biases of the policy's mode, by a checkpoint's arrays.

    The network's outputs are μ, then log σ; the mode tanh(μ) needs the first half.
    """
    name = actor + ".layers.{}.{}"
    count = sum(name.format(n, "bias") in arrays for n in range(len(arrays)))
    weights = [arrays[name.format(n, "weight")] for n in range(count)]
    biases = [arrays[name.format(n, "bias")] for n in range(count)]
    actions = len(biases[-1]) // 2
    weights[-1], biases[-1] = weights[-1][:, :actions], biases[-1][:actions]
    return tuple(weights), tuple(biases)


def plain_inputs(
    weights: Layers, biases: Layers, arrays: Mapping[str, np.ndarray]
) -> tuple[Layers, Layers]:
    """Return layers that take an observation as it is, not a normalised one."""
    mean, std = (
        arrays[f"model.statistics.input_{name}"][: len(weights[0])].astype(np.float64)
        for name in ("mean", "std")
    )
    first = weights[0] / std[:, None]
    bias = biases[0] - mean @ first
    return (first, *weights[1:]), (bias, *biases[1:])


def machine_bounds(config: RunConfig) -> Bounds | None:
    """Return what actions of −1 and 1 command on the machine of a run.

    None for a task of driftrl, and for a machine that is commanded in [−1, 1].
    """
    low, high = config.environment.low, config.environment.high
    return (np.array(low), np.array(high)) if low and high else None


def to_onnx(policy: Policy) -> bytes:
    """Return a policy as a model of ONNX, from ``obs`` to ``action`` in [−1, 1].

    What else a policy knows is in the model's properties, as text.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ModuleNotFoundError:
        raise InputError(
            "Files of ONNX need the extra 'onnx': pip install 'driftrl[onnx]'."
        ) from None
    nodes, constants, flow = [], [], "obs"
    for n, layer in enumerate(zip(policy.weights, policy.biases, strict=True)):
        constants += [
            numpy_helper.from_array(np.asarray(array, np.float32), f"{name}_{n}")
            for name, array in zip(("weight", "bias"), layer, strict=True)
        ]
        last = n == len(policy.weights) - 1
        nodes += [
            helper.make_node("MatMul", [flow, f"weight_{n}"], [f"product_{n}"]),
            helper.make_node("Add", [f"product_{n}", f"bias_{n}"], [f"sum_{n}"]),
        ]
        flow = "action" if last else f"layer_{n}"
        if last or policy.activation == "relu":
            kind = "Tanh" if last else "Relu"
            nodes.append(helper.make_node(kind, [f"sum_{n}"], [flow]))
        else:
            nodes += [
                helper.make_node("Sigmoid", [f"sum_{n}"], [f"share_{n}"]),
                helper.make_node("Mul", [f"sum_{n}", f"share_{n}"], [flow]),
            ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
        for name, size in (("obs", policy.sizes[0]), ("action", policy.sizes[-1]))
    ]
    graph = helper.make_graph(nodes, "policy", ends[:1], ends[1:], constants)
    # Every runtime since 2022 knows these versions.
    versions = {"opset_imports": [helper.make_opsetid("", 17)], "ir_version": 8}
    model = helper.make_model(graph, producer_name="driftrl", **versions)
    known = {name: getattr(policy, name) for name in ("task", "episode", "repeat")}
    if policy.low is not None and policy.high is not None:
        known |= {"low": policy.low.tolist(), "high": policy.high.tolist()}
    helper.set_model_props(model, {name: str(value) for name, value in known.items()})
    checker.check_model(model)
    return model.SerializeToString()


_FORMATS = {".npz": to_bytes, ".onnx": to_onnx}

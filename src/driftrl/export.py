"""The newest policy of a run as a file that a robot evaluates with NumPy alone.

Only the policy's network is read, from the arrays of a checkpoint: neither the agent
nor the machine that it was learned on has to be built again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.errors import InputError, require
from driftrl.exported import ACTIVATION, Policy, PolicyError, to_bytes
from driftrl.io import write_atomically
from driftrl.memory.forgetting import ENDLESS, max_transitions
from driftrl.records import RECORDS_FILE, read_records
from driftrl.training.assembly import MORE_DATA
from driftrl.training.checkpoint import load_arrays, newest
from driftrl.video import config_of

Bounds = tuple[np.ndarray, np.ndarray]
ONNX_OPSET = 17
"""Of the operators in an ONNX file; known to every runtime since 2022."""


def export(directory: Path, to: Path, bounds: Bounds | None = None) -> Policy:
    """Write the newest policy of a run to a file, and return it.

    Args:
        directory: The run, finished or under way; it is read and not changed.
        to: The file, of NumPy (.npz) or of ONNX (.onnx).
        bounds: What actions of −1 and 1 command; by default ``machine_bounds``.
    """
    require(
        to.suffix in _FORMATS,
        f"--to must end in {' or '.join(_FORMATS)}, received {to}.",
    )
    require(
        to.parent.is_dir(),
        f"There is no directory {to.parent} to write {to.name} to; make it first.",
    )
    policy = newest_exported(directory, bounds)
    write_atomically(to, _FORMATS[to.suffix](policy))
    return policy


def newest_exported(directory: Path, bounds: Bounds | None = None) -> Policy:
    """Return the policy of a run's newest readable checkpoint, without exploration.

    Raises:
        InputError: The run has no policy network, or has not learned one yet.
        CorruptFile: No checkpoint can be read.
    """
    config = config_of(directory)
    if isinstance(config.agent, GPAgentConfig):
        raise InputError(
            f"The run in {directory} has agent.kind = 'gp', which plans every action "
            "with its model and has no policy network to export; run agent.kind = "
            "'ensemble' or 'sac'."
        )
    arrays, episodes = newest(directory, load_arrays)
    require(
        int(arrays["policy.updates"]) > 0,
        f"The policy of the run in {directory} has not been trained yet, and acts at "
        f"random: episodes so far {episodes}, and learning begins with "
        f"{config.agent.learning.learning_starts} transitions "
        f"(agent.learning.learning_starts). {_to_be_trained(directory, config)}",
    )
    weights, biases = actor_layers(arrays)
    low, high = bounds or machine_bounds(config) or (None, None)
    try:
        repeat = config.environment.action_repeat
        return Policy(config.task, episodes, weights, biases, low, high, repeat)
    except PolicyError as error:
        raise InputError(
            f"The run in {directory} can't be exported. {error}"
        ) from error


def _to_be_trained(directory: Path, config: RunConfig) -> str:
    """Say what lets a run begin to learn: time, unless it forgets too soon for that."""
    assert not isinstance(config.agent, GPAgentConfig)
    records = directory / RECORDS_FILE
    lengths = [row.steps for row in read_records(records)] if records.is_file() else []
    longest = max(lengths, default=config.environment.steps)
    learning = config.agent.learning
    within = longest if learning.when == "step" else 0
    held = max_transitions(config.forgetting, ENDLESS, longest) + within
    if held >= learning.learning_starts:
        return "Let the run go on."
    return (
        f"It never would: this run retains at most {held:g}, in episodes of up to "
        f"{longest} steps so far. {MORE_DATA}"
    )


def actor_layers(
    arrays: Mapping[str, np.ndarray],
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return the weights and biases of the policy's mode, by a checkpoint's arrays.

    The network's outputs are μ, then log σ; the mode tanh(μ) needs the first half.
    """
    name = "policy.actor.layers.{}.{}"
    count = sum(name.format(n, "bias") in arrays for n in range(len(arrays)))
    weights = [arrays[name.format(n, "weight")] for n in range(count)]
    biases = [arrays[name.format(n, "bias")] for n in range(count)]
    actions = len(biases[-1]) // 2
    weights[-1], biases[-1] = weights[-1][:, :actions], biases[-1][:actions]
    return tuple(weights), tuple(biases)


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
    for n, pair in enumerate(zip(policy.weights, policy.biases, strict=True)):
        names = (f"weight_{n}", f"bias_{n}")
        constants += [
            numpy_helper.from_array(np.asarray(array, np.float32), name)
            for array, name in zip(pair, names, strict=True)
        ]
        last = n == len(policy.weights) - 1
        product, total, out = f"product_{n}", f"sum_{n}", f"layer_{n}"
        out = "action" if last else out
        nodes += [
            helper.make_node("MatMul", [flow, names[0]], [product]),
            helper.make_node("Add", [product, names[1]], [total]),
            helper.make_node("Tanh" if last else ACTIVATION.title(), [total], [out]),
        ]
        flow = out
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])
        for name, size in (("obs", policy.sizes[0]), ("action", policy.sizes[-1]))
    ]
    graph = helper.make_graph(nodes, "policy", ends[:1], ends[1:], constants)
    opset = helper.make_opsetid("", ONNX_OPSET)
    # The version that came with the operators: a newer one would only shut out readers.
    model = helper.make_model(
        graph, opset_imports=[opset], ir_version=8, producer_name="driftrl"
    )
    helper.set_model_props(model, _properties(policy))
    checker.check_model(model)
    return model.SerializeToString()


def _properties(policy: Policy) -> dict[str, str]:
    names = ("task", "episode", "repeat")
    told: dict[str, Any] = {name: getattr(policy, name) for name in names}
    if policy.low is not None and policy.high is not None:
        told |= {"low": policy.low.tolist(), "high": policy.high.tolist()}
    return {name: str(value) for name, value in told.items()}


_FORMATS = {".npz": to_bytes, ".onnx": to_onnx}

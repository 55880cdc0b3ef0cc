"""A policy or a model as a file of ONNX, for runtimes and languages without NumPy."""

from typing import Any

import numpy as np

from driftrl.errors import InputError
from driftrl.exported import LOG_STD_RANGE, Model, Policy

# Every runtime since 2022 knows these versions.
_VERSIONS = {"opset": 17, "ir": 8}


class _Graph:
    """Nodes and constants, named by their number."""

    def __init__(self) -> None:
        try:
            import onnx
        except ModuleNotFoundError:
            raise InputError(
                "Files of ONNX need the extra 'onnx': pip install 'driftrl[onnx]'."
            ) from None
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, kind: str, *inputs: Any, to: str | None = None, **facts: Any) -> str:
        """Append a node; return the name of its output.  Arrays become constants."""
        names = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        to = to or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, names, [to], **facts))
        return to

    def _constant(self, array: Any, kind: Any = np.float32) -> str:
        name = f"constant_{len(self._constants)}"
        values = np.asarray(array)
        values = values.astype(np.int64 if values.dtype.kind == "i" else kind)
        self._constants.append(self._onnx.numpy_helper.from_array(values, name))
        return name

    def silu(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))

    def dense(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        return self.add("Add", self.add("MatMul", x, weight), bias)

    def mean(self, x: str) -> str:
        """Return the mean over the members, which are the first axis."""
        return self.add("ReduceMean", x, axes=[0], keepdims=0)

    def part(self, x: str, first: int, last: int, to: str | None = None) -> str:
        """Return columns, the last axis, of an array."""
        ends = (np.array([first]), np.array([last]), np.array([-1]))
        return self.add("Slice", x, *ends, to=to)

    def to_bytes(
        self, ends: tuple[dict[str, Any], ...], facts: dict[str, Any]
    ) -> bytes:
        """Return the file, of inputs and outputs by name and shape."""
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        inputs, outputs = (
            [
                helper.make_tensor_value_info(name, kind, size)
                for name, size in e.items()
            ]
            for e in ends
        )
        graph = helper.make_graph(
            self._nodes, "learned", inputs, outputs, self._constants
        )
        model = helper.make_model(
            graph,
            producer_name="driftrl",
            opset_imports=[helper.make_opsetid("", _VERSIONS["opset"])],
            ir_version=_VERSIONS["ir"],
        )
        told = {name: str(value) for name, value in facts.items() if value is not None}
        helper.set_model_props(model, told)
        self._onnx.checker.check_model(model)
        return model.SerializeToString()


def to_onnx(learned: Policy | Model) -> bytes:
    """Return a policy or a model as a file of ONNX.

    A policy maps ``obs`` to ``action`` in [−1, 1]; a model maps rows of ``obs`` and
    ``action`` to rows of ``next_obs``, ``reward``, ``epistemic_std`` and ``noise_std``.
    What else they know is in the file's properties, as text.
    """
    return _policy(learned) if isinstance(learned, Policy) else _model(learned)


def _policy(policy: Policy) -> bytes:
    graph, flow = _Graph(), "obs"
    activation = graph.silu
    if policy.activation == "relu":
        activation = lambda x: graph.add("Relu", x)
    *hidden, last = zip(policy.weights, policy.biases, strict=True)
    for layer in hidden:
        flow = activation(graph.dense(flow, *layer))
    graph.add("Tanh", graph.dense(flow, *last), to="action")
    known = {name: getattr(policy, name) for name in ("task", "episode", "repeat")}
    if policy.low is not None and policy.high is not None:
        known |= {"low": policy.low.tolist(), "high": policy.high.tolist()}
    sizes = policy.sizes
    return graph.to_bytes(({"obs": [sizes[0]]}, {"action": [sizes[-1]]}), known)


def _model(model: Model) -> bytes:
    graph, states = _Graph(), len(model.spread) - 1
    actions = model.weights[0].shape[1] - states
    rows = graph.add("Concat", "obs", "action", axis=1)
    flow = graph.add("Unsqueeze", rows, np.array([0]))
    *hidden, last = zip(model.weights, model.biases, strict=True)
    for weight, bias in hidden:
        flow = graph.silu(graph.dense(flow, weight, bias[:, None]))
    made = graph.dense(flow, last[0], last[1][:, None])
    means = graph.part(made, 0, states + 1)
    centre = graph.mean(means)
    graph.add("Add", "obs", graph.part(centre, 0, states), to="next_obs")
    graph.part(centre, states, states + 1, to="reward")
    apart = graph.part(graph.add("Sub", means, centre), 0, states)
    deviation = graph.add("Sqrt", graph.mean(graph.add("Mul", apart, apart)))
    graph.add("Mul", deviation, np.array(model.scale), to="epistemic_std")
    if model.noise is None:
        low, high = map(np.array, LOG_STD_RANGE)
        free = graph.part(made, states + 1, 2 * states + 1)
        below = graph.add("Softplus", graph.add("Sub", high, free))
        above = graph.add("Softplus", graph.add("Sub", high - low, below))
        spread = graph.add("Exp", graph.add("Add", low, above))
        noise = graph.add("Sqrt", graph.mean(graph.add("Mul", spread, spread)))
        graph.add("Mul", noise, model.scale * model.spread[:-1], to="noise_std")
    else:
        none = graph.add("Mul", "obs", np.array(0.0))
        graph.add("Add", none, model.scale * model.noise[:-1], to="noise_std")
    takes = {"obs": ["rows", states], "action": ["rows", actions]}
    names = ("next_obs", "epistemic_std", "noise_std")
    gives = {name: ["rows", states] for name in names} | {"reward": ["rows", 1]}
    known = {name: getattr(model, name) for name in ("task", "episode", "repeat")}
    return graph.to_bytes((takes, gives), known)

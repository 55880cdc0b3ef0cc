"""A policy that driftrl has learned, evaluated with NumPy alone.

This file stands by itself: copy it to the robot, beside the policy that
``driftrl export RUN --to policy.npz`` has written.  There it is::

    from exported import load_policy

    policy = load_policy("policy.npz")
    action = policy(observation)  # in [−1, 1]
    command = policy.command(observation)  # in the machine's own units
"""

import io
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

VERSION = 3
"""Of the file's format; another one is refused."""


# x·(1 + tanh(x/2))/2 is x/(1 + exp(−x)) without its overflow.
_ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: 0.5 * x * (1.0 + np.tanh(0.5 * x)),
}


class PolicyError(ValueError):
    """A file is no policy, or what is observed or asked for does not fit it."""


@dataclass(frozen=True, eq=False)
class Policy:
    """Dense layers with an activation between them and tanh at the end.

    Layers map x ↦ xW + b; the last gives the mode of the policy's distribution.
    Observations go in as they were observed: the policy normalises nothing.
    """

    task: str
    """What it was learned on."""
    episode: int
    """Episodes learned from when it was exported."""
    weights: tuple[np.ndarray, ...]
    """W of every layer, inputs × outputs."""
    biases: tuple[np.ndarray, ...]
    """b of every layer."""
    low: np.ndarray | None = None
    """What an action of −1 commands, in the machine's own units, if known."""
    high: np.ndarray | None = None
    """What an action of 1 commands."""
    repeat: int = 1
    """Steps of the machine for which one action is held, as while it was learned."""
    activation: str = "relu"
    """Between the layers: "relu", max(0, x), or "silu", x/(1 + exp(−x))."""

    def __post_init__(self) -> None:
        if (problem := _problem(self)) is not None:
            raise PolicyError(f"The policy can't be evaluated: {problem}.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers observed, units of every hidden layer, and actions."""
        return len(self.weights[0]), *(len(bias) for bias in self.biases)

    def __call__(self, obs: Any) -> np.ndarray:
        """Return the action in [−1, 1] for one observation."""
        # More digits than the policy was learned with: an overflow would be a NaN.
        x = np.asarray(obs, np.float64)
        if x.shape != (self.sizes[0],):
            shapes = f"shape ({self.sizes[0]},), received {x.shape}"
            raise PolicyError(f"An observation of this policy has {shapes}.")
        for wrong in np.flatnonzero(~np.isfinite(x)):
            raise PolicyError(f"Number {wrong} of the observation is {x[wrong]}.")
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = _ACTIVATIONS[self.activation](x @ weight + bias)
        return np.tanh(x @ self.weights[-1] + self.biases[-1])

    def command(self, obs: Any) -> np.ndarray:
        """Return what to command the machine, in its own units, within its bounds."""
        if self.low is None or self.high is None:
            raise PolicyError(
                "This policy does not know the bounds of its machine: export it again "
                "with --low and --high, or call it, for actions in [−1, 1]."
            )
        share = 0.5 * (self(obs) + 1.0)
        return np.clip(self.low + share * (self.high - self.low), self.low, self.high)


def load_policy(path: str | Path) -> Policy:
    """Read a policy that ``driftrl export`` has written; ``PolicyError`` if it's none.

    A file that can't be read is an ``OSError``.
    """
    data = Path(path).read_bytes()
    try:
        stored = _arrays(data)
        if stored["version"] != VERSION:
            known = f"this reader knows format {VERSION}"
            raise ValueError(f"it has format {stored['version']}, and {known}")
        layers = range(int(stored["layers"]))
        return Policy(
            task=str(stored["task"]),
            episode=int(stored["episode"]),
            weights=tuple(stored[f"weight_{n}"].astype(np.float64) for n in layers),
            biases=tuple(stored[f"bias_{n}"].astype(np.float64) for n in layers),
            low=stored.get("low"),
            high=stored.get("high"),
            repeat=int(stored["repeat"]),
            activation=str(stored["activation"]),
        )
    # Whatever a damaged archive makes zipfile and NumPy raise: of a dozen kinds.
    except Exception as error:
        missing = "it has no " if isinstance(error, KeyError) else ""
        reason = missing + (str(error).strip(" .") or type(error).__name__)
        raise PolicyError(
            f"{path} is no policy of driftrl, or it is damaged ({reason}); export it "
            "again."
        ) from error


def to_bytes(policy: Policy) -> bytes:
    """Return the content of the file that ``load_policy`` reads."""
    arrays: dict[str, Any] = {
        "version": np.int64(VERSION),
        "task": np.str_(policy.task),
        "episode": np.int64(policy.episode),
        "layers": np.int64(len(policy.weights)),
        "repeat": np.int64(policy.repeat),
        "activation": np.str_(policy.activation),
    }
    for number, pair in enumerate(zip(policy.weights, policy.biases, strict=True)):
        arrays |= zip((f"weight_{number}", f"bias_{number}"), pair, strict=True)
    if policy.low is not None and policy.high is not None:
        arrays |= {"low": policy.low, "high": policy.high}
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if (torn := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"the sum of {torn} does not match")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _problem(policy: Policy) -> str | None:
    """Return the first thing that is wrong with the shapes and numbers of a policy."""
    shapes = [array.shape for array in policy.weights]
    widths = [array.shape for array in policy.biases]
    if not shapes or any(len(shape) != 2 for shape in shapes):
        return f"weights must be matrices, at least one, received shapes {shapes}"
    if widths != [(shape[1],) for shape in shapes]:
        return f"biases of shapes {widths} do not fit weights of shapes {shapes}"
    if any(left[1] != right[0] for left, right in pairwise(shapes)):
        return f"weights of shapes {shapes} do not follow one another"
    bounds = [bound for bound in (policy.low, policy.high) if bound is not None]
    if len(bounds) == 1 or any(bound.shape != widths[-1] for bound in bounds):
        given = [bound.shape for bound in bounds]
        return f"low and high must have shape {widths[-1]} both, received {given}"
    numbers = [*policy.weights, *policy.biases, *bounds]
    if not all(np.isfinite(array).all() for array in numbers):
        return "some of its numbers are not finite"
    if bounds and not (bounds[0] <= bounds[1]).all():
        return "low is above high"
    if policy.activation not in _ACTIVATIONS:
        return f"its activation is {policy.activation!r}"
    if policy.repeat < 1:
        return f"repeat must be at least 1, received {policy.repeat}"
    return None

"""A policy and a model that driftrl has learned, evaluated with NumPy alone.

This file stands by itself: copy it to the robot, beside what
``driftrl export RUN --to policy.npz --model model.npz`` has written.  There it is::

    from exported import load_model, load_policy

    policy = load_policy("policy.npz")
    action = policy(observation)  # in [−1, 1]
    command = policy.command(observation)  # in the machine's own units
    prediction = load_model("model.npz")(observation, action)
"""

import io
import math
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VERSION = 3
"""Of the file's format; another one is refused."""


# x·(1 + tanh(x/2))/2 is x/(1 + exp(−x)) without its overflow.
_ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: 0.5 * x * (1.0 + np.tanh(0.5 * x)),
}


# Bounds of a model's log σ, in units of the spread of an output: see ``bounded``.
LOG_STD_RANGE = (np.log(1e-3), np.log(10.0))


class PolicyError(ValueError):
    """A file is no policy or model, or what is observed or asked for does not fit."""


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


class Prediction(NamedTuple):
    """What a model expects of one transition, or of many: then every array has rows."""

    next_obs: np.ndarray
    """The expected next observation μ."""
    reward: np.ndarray
    """The expected reward."""
    epistemic_std: np.ndarray
    """σ of every observed number: how much the members of the ensemble disagree."""
    noise_std: np.ndarray
    """σ of the noise of every observed number, as far as it was learned."""


@dataclass(frozen=True, eq=False)
class Model:
    """The dynamics and the reward as an ensemble of networks, with SiLU between layers.

    Both σ are multiplied by ``scale``, with which μ ± 2·√(σ² + σ_noise²) has held about
    95 % of the run's latest episodes before they were learned.
    """

    task: str
    """What it was learned on."""
    episode: int
    """Episodes learned from when it was exported."""
    weights: tuple[np.ndarray, ...]
    """W of every layer, members × inputs × outputs; inputs are (obs, action)."""
    biases: tuple[np.ndarray, ...]
    """b of every layer, members × outputs; outputs are (change of obs, reward)."""
    spread: np.ndarray
    """Unit of every output's noise."""
    noise: np.ndarray | None = None
    """The noise, if it is the same everywhere; None: the last layer gives log σ too."""
    scale: float = 1.0
    """Factor of σ."""
    repeat: int = 1
    """Steps of the machine for which one action is held, as while it was learned."""

    def __call__(self, obs: Any, action: Any) -> Prediction:
        """Predict from one observation and one action in [−1, 1], or rows of both."""
        obs, action = np.asarray(obs, np.float64), np.asarray(action, np.float64)
        states = len(self.spread) - 1
        sizes = (states, self.weights[0].shape[1] - states)
        if (obs.shape[-1:], action.shape[-1:]) != ((sizes[0],), (sizes[1],)):
            raise PolicyError(
                f"This model takes {sizes[0]} observed numbers and {sizes[1]} actions, "
                f"received arrays of shapes {obs.shape} and {action.shape}."
            )
        x = np.concatenate([obs, action], axis=-1)[..., None, None, :]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = _ACTIVATIONS["silu"](x @ weight + bias[:, None])
        made = (x @ self.weights[-1] + self.biases[-1][:, None])[..., 0, :]
        means, free = made[..., : states + 1], made[..., states + 1 :]
        centre, noise = means.mean(axis=-2), self.noise
        if noise is None:
            deviation = np.exp(bounded(free))
            noise = self.spread * np.sqrt(np.mean(deviation**2, axis=-2))
        return Prediction(
            next_obs=obs + centre[..., :-1],
            reward=centre[..., -1],
            epistemic_std=self.scale * means.std(axis=-2)[..., :-1],
            noise_std=np.broadcast_to(self.scale * noise[..., :-1], obs.shape),
        )


def bounded(free: np.ndarray) -> np.ndarray:
    """Return log σ within its bounds l and h: l + softplus(h − softplus(h − s) − l)."""
    low, high = LOG_STD_RANGE
    below = high - np.logaddexp(0.0, high - free)
    return low + np.logaddexp(0.0, below - low)


def load_policy(path: str | Path) -> Policy:
    """Read a policy that ``driftrl export`` has written; ``PolicyError`` if it's none.

    A file that can't be read is an ``OSError``.
    """
    return _load(Path(path), Policy)


def load_model(path: str | Path) -> Model:
    """Read a model that ``driftrl export`` has written; see ``load_policy``."""
    return _load(Path(path), Model)


def to_bytes(learned: Policy | Model) -> bytes:
    """Return the content of the file that ``load_policy`` or ``load_model`` reads."""
    fields = dict(vars(learned))
    layers = zip(fields.pop("weights"), fields.pop("biases"), strict=True)
    arrays: dict[str, Any] = {"version": VERSION, "layers": len(learned.weights)}
    arrays |= {name: value for name, value in fields.items() if value is not None}
    for number, pair in enumerate(layers):
        arrays |= zip((f"weight_{number}", f"bias_{number}"), pair, strict=True)
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _load(path: Path, kind: Any) -> Any:
    data = path.read_bytes()
    try:
        stored = read_arrays(data)
        if (version := stored.pop("version")) != VERSION:
            raise ValueError(f"it has format {version}, and this reader {VERSION}")
        layers = range(int(stored.pop("layers")))
        fields: dict[str, Any] = {
            name: array if array.ndim else array.item()
            for name, array in stored.items()
            if not name.startswith(("weight_", "bias_"))
        }
        for part, name in (("weights", "weight"), ("biases", "bias")):
            arrays = [stored[f"{name}_{n}"].astype(np.float64) for n in layers]
            fields[part] = tuple(arrays)
        learned = kind(**fields)
        if isinstance(learned, Model):  # a policy checks itself
            states = len(learned.spread) - 1
            actions = learned.weights[0].shape[1] - states
            made = learned(np.zeros(states), np.zeros(actions))
            if not all(np.isfinite(part).all() for part in made):
                raise ValueError("some of its numbers are not finite")
            if made.epistemic_std.shape != (states,):
                raise ValueError("its layers do not fit one another")
        return learned
    # Whatever a damaged archive makes zipfile and NumPy raise: of a dozen kinds.
    except Exception as error:
        missing = "it has no " if isinstance(error, KeyError) else ""
        reason = missing + (str(error).strip(" .") or type(error).__name__)
        raise PolicyError(
            f"{path} is no {kind.__name__.lower()} of driftrl, or it is damaged "
            f"({reason}); export it again."
        ) from error


def read_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an archive that ``numpy.savez`` has written.

    They are not larger in memory than in their file: what is compressed, or says that
    it is larger, is refused unread.  A damaged archive raises errors of many types.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is no archive")  # NumPy would advise to unpickle it
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        members = archive.zip.infolist()
        # Counted 12 bytes before the end: a flipped bit before that can hide some.
        if int.from_bytes(content[-12:-10], "little") != len(members):
            raise ValueError("some of its arrays are not listed")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("the archive is compressed")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("the archive says that it is larger than its file")
        if (torn := archive.zip.testzip()) is not None:
            raise ValueError(f"the checksum of {torn} does not match")
        for member in members:
            with archive.zip.open(member) as file:
                if np.lib.format.read_magic(file) != (1, 0):
                    raise ValueError(f"{member.filename} has an unknown format")
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                if math.prod(shape) * dtype.itemsize > member.file_size:
                    raise ValueError(f"{member.filename} says that it is larger")
        return {name: archive[name] for name in archive.files}


def _problem(policy: Policy) -> str | None:
    """Return the first thing that is wrong with the shapes and numbers of a policy."""
    if not policy.weights:
        return "it needs at least one layer"
    shapes = [array.shape for array in (*policy.weights, *policy.biases)]
    sizes = policy.sizes
    if shapes != [*pairwise(sizes), *((size,) for size in sizes[1:])]:
        return f"weights and biases of shapes {shapes} are no layers"
    bounds = [bound for bound in (policy.low, policy.high) if bound is not None]
    if len(bounds) == 1 or any(bound.shape != shapes[-1] for bound in bounds):
        given = [bound.shape for bound in bounds]
        return f"low and high must have shape {shapes[-1]} both, received {given}"
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

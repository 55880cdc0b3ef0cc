"""``driftrl export``: the newest policy and model of a run, for a robot."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from driftrl.cli.options import print_json
from driftrl.errors import counted, require
from driftrl.exported import Policy
from driftrl.io import page

_NO_BOUNDS = (
    f"not known: policy.command needs --low and --high ({page('your_machine.md')})."
)


def main(
    directory: Annotated[Path, tyro.conf.Positional],
    *,
    to: Path | None = None,
    model: Path | None = None,
    low: tuple[float, ...] = (),
    high: tuple[float, ...] = (),
    json: bool = False,
) -> None:
    """Write the newest policy of a run, without exploration, or its model to files.

    They need neither driftrl nor JAX to be evaluated.  The run is not disturbed.

    Args:
        directory: Directory of a run, finished or under way.
        to: The policy's file: .npz for NumPy, or .onnx (needs the extra 'onnx').
        model: The model's file, of the same kinds: next observation, reward and σ.
        low: What actions of −1 command, in the machine's own units (default: what the
            run has recorded of its machine).
        high: What actions of 1 command.
        json: Print one JSON document instead of sentences.
    """
    from driftrl import exported
    from driftrl.export import export, export_model

    require(bool(low) == bool(high), "--low and --high need one another; received one.")
    require(bool(to or model), "Give --to for the policy, --model for the model.")
    document: dict[str, Any] = {}
    if to is not None:
        policy = export(directory, to, (np.array(low), np.array(high)) if low else None)
        names = ("task", "episode", "sizes", "repeat", "low", "high")
        facts = {name: getattr(policy, name) for name in names}
        document |= {"policy": str(to)} | {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in facts.items()
        }
        if not json:
            _describe(policy, to)
    if model is not None:
        made = export_model(directory, model)
        members, inputs, _ = made.weights[0].shape
        facts = {"members": members, "scale": made.scale}
        document |= {"task": made.task, "episode": made.episode, "model": str(model)}
        document |= facts
        if not json:
            learned, states = counted(made.episode, "episode"), len(made.spread) - 1
            print(f"The model of {made.task} after {learned} is in {model}")
            print(
                f"From {states} observations and {inputs - states} actions in [−1, 1] "
                f"it expects the next observation and the reward; {members} members "
                f"say how sure that is (σ is multiplied by {made.scale:.2f}, as the "
                "latest episodes asked for)."
            )
    if json:
        print_json(document)
    elif ".npz" in {path.suffix for path in (to, model) if path is not None}:
        print(f"NumPy reads it with one file of driftrl: {exported.__file__}")


def _describe(policy: Policy, to: Path) -> None:
    inputs, *units, outputs = policy.sizes
    learned = counted(policy.episode, "episode")
    print(f"The policy of {policy.task} after {learned} is in {to}")
    print(
        f"It maps {inputs} observations to {outputs} actions in [−1, 1], through "
        f"layers of {' and '.join(map(str, units))} units; the machine's own bounds "
        f"are {_NO_BOUNDS if policy.low is None else 'in it too.'}"
    )
    if policy.repeat > 1:
        print(f"An action is to be held for {policy.repeat} steps of the machine.")

"""``driftrl export``: the newest policy and model of a run, for a robot."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.errors import require
from driftrl.io import page

_NO_BOUNDS = (
    "The machine's bounds are not known: policy.command needs --low and --high "
    f"({page('your_machine.md')})."
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
        json: Print one JSON document instead of a table.
    """
    from driftrl import exported
    from driftrl.export import export, export_model

    require(bool(low) == bool(high), "--low and --high need one another; received one.")
    require(bool(to or model), "Give --to for the policy, --model for the model.")
    document: dict[str, Any] = {}
    notes: list[str] = []
    if to is not None:
        policy = export(directory, to, (np.array(low), np.array(high)) if low else None)
        names = ("task", "episode", "sizes", "repeat", "low", "high")
        facts = {name: getattr(policy, name) for name in names}
        document |= {"policy": str(to)} | {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in facts.items()
        }
        notes += [_NO_BOUNDS] if policy.low is None else []
    if model is not None:
        made = export_model(directory, model)
        facts = {"members": len(made.weights[0]), "scale": made.scale}
        document |= {"task": made.task, "episode": made.episode, "model": str(model)}
        document |= facts
    if json:
        print_json(document)
        return
    print_table(["", "exported"], list(document.items()))
    if ".npz" in {path.suffix for path in (to, model) if path is not None}:
        notes.append(f"NumPy reads it with one file of driftrl: {exported.__file__}")
    print(*notes, sep="\n")

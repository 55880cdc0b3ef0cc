"""``driftrl export``: the newest policy of a run, for a robot."""

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from driftrl.cli.options import print_json
from driftrl.errors import counted, require
from driftrl.io import page

_NO_BOUNDS = (
    f"not known: policy.command needs --low and --high ({page('your_machine.md')})."
)


def main(
    directory: Annotated[Path, tyro.conf.Positional],
    *,
    to: Path,
    low: tuple[float, ...] = (),
    high: tuple[float, ...] = (),
    json: bool = False,
) -> None:
    """Write the newest policy of a run, without exploration, to a file.

    The file needs neither driftrl nor JAX to be evaluated.  The run is not disturbed.

    Args:
        directory: Directory of a run, finished or under way.
        to: The file to write: .npz for NumPy, or .onnx (needs the extra 'onnx').
        low: What actions of −1 command, in the machine's own units (default: what the
            run has recorded of its machine).
        high: What actions of 1 command.
        json: Print one JSON document instead of sentences.
    """
    from driftrl import exported
    from driftrl.export import export

    require(bool(low) == bool(high), "--low and --high need one another; received one.")
    policy = export(directory, to, (np.array(low), np.array(high)) if low else None)
    bounds = [b if b is None else b.tolist() for b in (policy.low, policy.high)]
    if json:
        names = ("task", "episode", "sizes", "repeat")
        document = {name: getattr(policy, name) for name in names}
        print_json(document | {"policy": str(to), "low": bounds[0], "high": bounds[1]})
        return
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
    if to.suffix == ".npz":
        print(f"It needs NumPy and one file of driftrl: {exported.__file__}")

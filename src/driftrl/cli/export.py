"""``driftrl export``: the newest policy of a run, for a robot."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from driftrl.cli.options import parse, print_json
from driftrl.errors import counted, require

_NO_BOUNDS = "not known: policy.command needs --low and --high (docs/your_machine.md)."


@dataclass(frozen=True)
class Arguments:
    """Which run, and where the policy goes."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a run, finished or under way."""
    to: Path
    """The file to write: .npz for NumPy, or .onnx (needs the extra 'onnx')."""
    low: tuple[float, ...] = ()
    """What actions of −1 command, in the machine's own units (default: what the run
    has recorded of its machine)."""
    high: tuple[float, ...] = ()
    """What actions of 1 command."""
    json: bool = False
    """Print one JSON document instead of sentences."""


def main(argv: list[str]) -> int:
    """Write the policy and say what it takes and gives."""
    summary = (
        "Write the newest policy of a run, without exploration, to a file that needs "
        "neither driftrl nor JAX to be evaluated. The run is not disturbed."
    )
    arguments = parse(Arguments, argv, "export", summary)
    from driftrl import exported
    from driftrl.export import export

    given = [np.array(bound) for bound in (arguments.low, arguments.high) if bound]
    require(len(given) != 1, "--low and --high need one another; received one alone.")
    policy = export(
        arguments.directory, arguments.to, (given[0], given[1]) if given else None
    )
    low, high = (b if b is None else b.tolist() for b in (policy.low, policy.high))
    if arguments.json:
        names = ("task", "episode", "sizes", "repeat")
        document = {name: getattr(policy, name) for name in names}
        document |= {"policy": str(arguments.to), "low": low, "high": high}
        print_json(document)
        return 0
    inputs, *units, outputs = policy.sizes
    learned = counted(policy.episode, "episode")
    print(f"The policy of {policy.task} after {learned} is in {arguments.to}")
    print(
        f"It maps {inputs} observations to {outputs} actions in [−1, 1], through "
        f"layers of {' and '.join(map(str, units))} units; the machine's own bounds "
        f"are {_NO_BOUNDS if low is None else 'in it too.'}"
    )
    if policy.repeat > 1:
        print(f"An action is to be held for {policy.repeat} steps of the machine.")
    if arguments.to.suffix == ".npz":
        print(f"It needs NumPy and one file of driftrl: {exported.__file__}")
    return 0

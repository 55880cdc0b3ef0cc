"""Make the table of optima that ships with the package, or add to it.

::

    python -m driftrl.oracles.build_table --action-repeat 5 --theta 1.25 1.75

computes J*(θ) at θ = 0.5, 0.6, …, 5.0 and at those that are named, as far as the table
does not have them yet.  The file is written after every value: after an interruption
the same command goes on where it stopped.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from driftrl.config.run import EnvironmentConfig
from driftrl.errors import DriftrlError
from driftrl.io import write_atomically
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.table import SHIPPED, Tables, find, parse, render
from driftrl.training.process import prepare

DEFAULT_THETAS = tuple(round(0.1 * tenths, 1) for tenths in range(5, 51))
SHIPPED_ANGLES = 720
DIGITS = 6  # after the point; no value is known better
ABOUT = (
    "J*(θ) of the pendulum: the best return of an episode, as achieved on the true "
    "dynamics by dynamic programming, iCEM, and polishing with L-BFGS-B. "
    "The commands make this file from nothing; other --theta are added to it."
)


def command_for(environment: EnvironmentConfig, optima: Sequence[Optimum]) -> str:
    """Return the command that computes a table of this content from nothing."""
    command = (
        f"python -m driftrl.oracles.build_table --steps {environment.sim_steps} "
        f"--action-repeat {environment.action_repeat} --start {environment.start}"
    )
    thetas = sorted({one.theta for one in optima} - set(DEFAULT_THETAS))
    return command + (f" --theta {' '.join(map(repr, thetas))}" if thetas else "")


def write(path: Path, tables: Tables) -> None:
    """Write tables with their provenance."""
    commands = [command_for(environment, tables[environment]) for environment in tables]
    write_atomically(path, render(tables, {"about": ABOUT, "commands": commands}))


def rounded(optimum: Optimum) -> Optimum:
    """Round a value down and its error up, so that neither says more than before."""
    unit = 10.0**-DIGITS
    return replace(
        optimum,
        value=round(optimum.value - 0.5 * unit, DIGITS),
        error=round(optimum.error + unit, DIGITS),
        spread=round(optimum.spread, DIGITS),
        found={name: round(value, DIGITS) for name, value in optimum.found.items()},
    )


def build(path: Path, environment: EnvironmentConfig, thetas: Sequence[float]) -> None:
    """Add to the file what it lacks of an environment's J*(θ).

    What ships may take longer to compute: it has SHIPPED_ANGLES, whatever the repeat.
    """
    from driftrl.oracles.pendulum import default_grid, optimal_return

    usual = default_grid(environment.action_repeat)
    grid = replace(usual, angles=SHIPPED_ANGLES)
    tables = parse(path.read_bytes()) if path.exists() else {}
    optima = tables.setdefault(environment, [])
    missing = [theta for theta in thetas if find(optima, theta) is None]
    started = time.monotonic()
    for done, theta in enumerate(missing, start=1):
        optimum = rounded(optimal_return(theta, environment, grid))
        optima.append(optimum)
        write(path, tables)
        left = (time.monotonic() - started) / done * (len(missing) - done)
        print(
            f"{environment.start}, repeat {environment.action_repeat}, "
            f"{done}/{len(missing)}: J*({theta:g}) = {optimum.value:.3f} "
            f"± {optimum.error:.3f}, {optimum.method}; {left / 60:.0f} min left",
            file=sys.stderr,
            flush=True,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments and build."""
    parser = argparse.ArgumentParser(
        prog="python -m driftrl.oracles.build_table",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--action-repeat", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--start", nargs="+", default=["hanging", "random"])
    parser.add_argument("--theta", type=float, nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the file to add to")
    arguments = parser.parse_args(argv)
    prepare(os.environ)
    thetas = sorted({*DEFAULT_THETAS, *arguments.theta})
    try:
        for start in arguments.start:
            for repeat in arguments.action_repeat:
                environment = EnvironmentConfig(arguments.steps, repeat, start)
                build(arguments.out, environment, thetas)
    except DriftrlError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compute J*(θ) of the pendulum for the files that ship with driftrl.

    python experiments/pendulum_oracle.py --action-repeat 5 --theta 1.25 1.75

adds J*(θ) at θ = 0.5, 0.6, …, 5.0 and at the named θ to the shipped file of that
environment.  The file is written after every value, so the command can be repeated
after an interruption.  Values are rounded down and errors up to six digits.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path

from driftrl.config.run import EnvironmentConfig
from driftrl.io import write_atomically
from driftrl.oracles.table import SHIPPED, Optimum, StoredOracle, render
from driftrl.training.process import prepare

DEFAULT_THETAS = tuple(round(0.1 * tenths, 1) for tenths in range(5, 51))
ANGLES = 720  # finer than the default grid, which has to be quick
DIGITS = 6


def rounded(optimum: Optimum) -> Optimum:
    """Round a value down and its error up, so that neither claims more than before."""
    unit = 10.0**-DIGITS
    candidates = {k: round(v, DIGITS) for k, v in optimum.candidates.items()}
    return replace(
        optimum,
        value=round(optimum.value - 0.5 * unit, DIGITS),
        error=round(optimum.error + unit, DIGITS),
        std=round(optimum.std, DIGITS),
        candidates=candidates,
    )


def main() -> None:
    """Parse the arguments and compute what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sim-steps", type=int, default=200)
    parser.add_argument("--action-repeat", type=int, default=5)
    parser.add_argument("--theta", type=float, nargs="*", default=[])
    parser.add_argument("--only", action="store_true", help="compute --theta only")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="directory to add to")
    arguments = parser.parse_args()
    prepare(os.environ)
    from driftrl.oracles.pendulum import default_grid, optimal_return

    environment = EnvironmentConfig(arguments.sim_steps, arguments.action_repeat)
    oracle = StoredOracle("pendulum", environment, shipped=arguments.out)
    stored = oracle.stored.items()  # the user's cache has a coarser grid
    oracle.stored = {key: one for key, one in stored if one.source == "shipped"}
    values = [*oracle.stored.values()]
    usual = () if arguments.only else DEFAULT_THETAS
    missing = oracle.missing(sorted({*usual, *arguments.theta}))
    grid = replace(default_grid(environment.action_repeat), angles=ANGLES)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for done, theta in enumerate(missing, start=1):
        optimum = rounded(optimal_return(theta, environment, grid))
        values.append(optimum)
        write_atomically(arguments.out / oracle.cache_file.name, render(values))
        print(
            f"{done}/{len(missing)}: J*({theta:g}) = {optimum.value:.3f} "
            f"± {optimum.error:.3f}, {optimum.method}",
            flush=True,
        )


if __name__ == "__main__":
    main()

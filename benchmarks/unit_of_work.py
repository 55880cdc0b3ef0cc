"""A unit of practice of the deep agent, against its matrix products."""

import sys

from driftrl.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench"]))

"""``python -m driftrl`` is the command line."""

import sys

from driftrl.cli.main import main

sys.exit(main())

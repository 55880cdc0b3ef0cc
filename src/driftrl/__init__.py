"""driftrl controls systems whose dynamics change while it learns them.

The agent at episode n learns from episodes m(n) … n−1 alone; every method is one choice
of m(n).  Importing this package is cheap: what is slow to load waits until it is used.
"""

from driftrl.envs.registration import register

__version__ = "0.1.0"

register()

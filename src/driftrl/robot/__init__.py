"""A machine on the other side of a wire: real time, safety, and a small protocol."""

from importlib.util import find_spec

from driftrl.errors import require

require(
    find_spec("zmq") is not None and find_spec("msgspec") is not None,
    "Robots need the extra 'robot': pip install 'driftrl[robot]'.",
)

"""How data lies in the page: compressed, once, and read by its own code alone."""

import base64
import gzip
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from plotly.graph_objects import Figure

_DIGITS = 7
_LEVEL = 6


def compact(values: Iterable[float]) -> list[float | None]:
    """Return numbers to seven digits, and None for those that are unknown."""
    return [
        float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
        for value in values
    ]


def packed_bytes(identifier: str, compressed: bytes) -> str:
    """Return an element that holds bytes, which gzip has compressed, and does nothing.

    Neither the alphabet of base64 nor an identifier of ours can end the element.
    """
    text = base64.b64encode(compressed).decode()
    return f'<script type="application/gzip" id="{identifier}">{text}</script>'


def packed_document(identifier: str, document: Mapping[str, Any]) -> str:
    """Return an element that holds a JSON document, compressed."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    compressed = gzip.compress(text.encode(), _LEVEL, mtime=0)
    return packed_bytes(identifier, compressed)


def plain_figures(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """Return figures as plain data, by the key of their box on the page."""
    return {key: figure.to_plotly_json() for key, figure in figures.items()}

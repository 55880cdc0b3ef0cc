"""How long things take, as a person says it."""

import pytest

from driftrl.cli.progress import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"),
        (0.3, "less than 1 s"),
        (42.4, "42 s"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said

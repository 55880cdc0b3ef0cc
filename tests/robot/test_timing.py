"""The robot's clock, and what is said of delays."""

import gc
from typing import Any

import pytest

from driftrl.errors import InputError
from driftrl.robot.timing import Delays, Timing, delays_of, undisturbed


def test_percentiles_are_measured_values() -> None:
    seconds = [k / 1000 for k in range(200, 0, -1)]
    assert delays_of(seconds) == Delays(200, 0.101, 0.199, 0.2)
    assert delays_of([0.5]) == Delays(1, 0.5, 0.5, 0.5)
    assert str(delays_of([0.0015])) == "1.50 ms (99 %: 1.50, longest 1.50)"
    assert delays_of([]).count == 0 and str(delays_of([])) == "none"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"period": 0.0}, "period"),
        ({"patience": -1.0}, "patience"),
        ({"reset": 0.0}, "reset"),
        ({"deadline": 1.0}, "deadline"),
    ],
)
def test_clocks_make_sense(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Timing(**settings)


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_left_as_it_was_found(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(RuntimeError, match="mine"), undisturbed():
            assert not gc.isenabled()
            raise RuntimeError("mine")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()

"""The picture of the RC car shows where it is, how it came, and where it must park."""

import numpy as np
import pytest

from driftrl.envs.drifting import make_env
from driftrl.envs.rccar_drawing import PIXELS_PER_METRE, VIEW, Frame, draw


def differs(first: Frame, second: Frame) -> np.ndarray:
    return (first.astype(int) != second).any(axis=2)


def at(x: float, y: float, heading: float) -> np.ndarray:
    return np.array([[x, y, heading, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize(("x", "y"), [(1.0, 0.5), (-0.8, -1.5), (2.2, 1.1)])
def test_the_car_is_where_it_is(x: float, y: float) -> None:
    changed = differs(draw(at(-9.0, 0.0, 0.0)), draw(at(x, y, 0.7)))
    down, along = (np.median(axis) / PIXELS_PER_METRE for axis in np.nonzero(changed))
    assert (VIEW[0][0] + along, VIEW[1][1] - down) == pytest.approx((x, y), abs=0.05)


def test_drawing_changes_nothing() -> None:
    seen, unseen = make_env("rccar", render_mode="rgb_array"), make_env("rccar")
    seen.reset(seed=1)
    unseen.reset(seed=1)
    pictures = []
    for number in range(12):
        pictures.append(seen.render())
        action = np.array([0.5, 1.0]) * (-1) ** (number // 4)
        np.testing.assert_array_equal(seen.step(action)[0], unseen.step(action)[0])
    assert differs(pictures[0], pictures[-1]).any()
    assert unseen.render() is None

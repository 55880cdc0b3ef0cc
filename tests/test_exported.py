"""The policy that goes to a robot: one file, NumPy alone, nothing taken on trust."""

import io
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import driftrl.exported
from driftrl.exported import Policy, PolicyError, load_policy, read_arrays, to_bytes

SOURCE = Path(str(driftrl.exported.__file__))
RNG = np.random.default_rng(0)


def policy(*sizes: int, bounds: tuple[Any, Any] = (None, None)) -> Policy:
    pairs = list(pairwise(sizes))
    weights = tuple(RNG.normal(size=pair).astype(np.float32) for pair in pairs)
    biases = tuple(RNG.normal(size=pair[1]).astype(np.float32) for pair in pairs)
    return Policy("wheel", 7, weights, biases, *bounds, repeat=3)


BOUNDED = policy(3, 4, 2, bounds=(np.array([-2.0, 0.0]), np.array([2.0, 10.0])))


def stored(path: Path, one: Policy = BOUNDED) -> Path:
    path.write_bytes(to_bytes(one))
    return path


def with_arrays(path: Path, **changes: Any) -> Path:
    """Write the bounded policy with arrays replaced, or left out where None."""
    with np.load(io.BytesIO(to_bytes(BOUNDED)), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez(path, **kept)
    return path


# ---- what it computes ----------------------------------------------------------------


def test_by_hand() -> None:
    one = Policy(
        task="t",
        episode=1,
        weights=(np.array([[1.0, -1.0], [0.5, 0.0]]), np.array([[2.0], [3.0]])),
        biases=(np.array([0.0, 0.25]), np.array([-1.0])),
        low=np.array([10.0]),
        high=np.array([30.0]),
    )
    # Hidden: 0.5 + 0.5·1 = 1, and −0.5 + 0.25 < 0; out: tanh(2·1 − 1).
    assert one.sizes == (2, 2, 1)
    assert one([0.5, 1.0]) == pytest.approx(np.tanh([1.0]), abs=1e-15)
    assert one.command([0.5, 1.0]) == pytest.approx(20 + 10 * np.tanh([1.0]))


def test_a_file_gives_back_the_very_policy(tmp_path: Path) -> None:
    again = load_policy(stored(tmp_path / "p.npz"))
    assert (again.task, again.episode, again.sizes) == ("wheel", 7, (3, 4, 2))
    assert again.repeat == 3
    assert again.low is not None and again.high is not None
    assert (again.low.tolist(), again.high.tolist()) == ([-2, 0], [2, 10])
    for old, new in zip(BOUNDED.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new)
    for obs in RNG.normal(size=(50, 3)):
        np.testing.assert_allclose(again(obs), BOUNDED(obs), rtol=0, atol=1e-15)
    assert to_bytes(again) == to_bytes(load_policy(stored(tmp_path / "q.npz", again)))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6, 1e38, 1e300])
def test_commands_keep_to_the_bounds_however_large_the_observation(
    scale: float,
) -> None:
    for obs in scale * RNG.normal(size=(50, 3)):
        assert (np.abs(BOUNDED(obs)) <= 1).all()
        command = BOUNDED.command(obs)
        assert ((BOUNDED.low <= command) & (command <= BOUNDED.high)).all()


# ---- what it refuses -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("obs", "value"), [([0.0, np.nan, 0.0], "Number 1"), ([0.0, 0.0], r"\(2,\)")]
)
def test_observations_that_it_refuses(obs: Any, value: str) -> None:
    for act in (BOUNDED, BOUNDED.command):
        with pytest.raises(PolicyError, match=value):
            act(obs)


def test_a_policy_without_bounds_commands_nothing() -> None:
    with pytest.raises(PolicyError):
        policy(3, 2).command(np.zeros(3))


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"version": 1}, "format 1"),
        ({"version": None}, "'version"),
        ({"bias_1": None}, "'bias_1'"),
        ({"layers": 0}, "at least one"),
        ({"weight_1": np.zeros((5, 2))}, r"\(5, 2\)"),
        ({"weight_1": np.zeros(8)}, r"\(8,\)"),
        ({"bias_0": np.zeros(3)}, r"\(3,\)"),
        ({"bias_0": np.full(4, np.nan)}, "not finite"),
        ({"weight_0": np.full((3, 4), "x")}, "could not convert"),
        ({"low": None}, r"\(2,\)"),
        ({"low": np.array([0.0, 11.0])}, "above high"),
        ({"repeat": 0}, "received 0"),
        ({"version": np.array([{}], object)}, "no policy of driftrl"),
    ],
)
def test_files_that_are_refused_with_a_sentence(
    tmp_path: Path, changes: dict[str, Any], value: str
) -> None:
    path = with_arrays(tmp_path / "p.npz", **changes)
    with pytest.raises(PolicyError, match=value) as refused:
        load_policy(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


# ---- one file, NumPy alone -----------------------------------------------------------


def test_a_bit_that_hides_an_array_is_noticed() -> None:
    content = bytearray(to_bytes(BOUNDED))
    # The comment of the third entry then reaches over those behind it.
    third = [m.start() for m in re.finditer(b"PK\x01\x02", content)][2]
    content[third + 33] ^= 32
    with pytest.raises(ValueError, match="not listed"):
        read_arrays(bytes(content))


def test_a_copy_of_the_file_works_where_nothing_else_is(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    stored(tmp_path / "policy.npz")
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from exported import load_policy\n"
        "print(*load_policy('policy.npz').command([0.3, -0.2, 0.9]).tolist())\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    # Isolated: neither PYTHONPATH nor the user's directories are looked at.
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    numbers, modules = done.stdout.splitlines()
    expected = BOUNDED.command([0.3, -0.2, 0.9])
    np.testing.assert_allclose(
        [float(text) for text in numbers.split()], expected, rtol=0, atol=1e-14
    )
    # Installers may hook modules of their own into every start of Python.
    assert not {"driftrl", "jax", "gymnasium", "equinox"} & set(modules.split())

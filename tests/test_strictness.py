"""The settings of conftest.py are in force: each of them refuses what it should."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from driftrl.errors import require
from driftrl.types import Data


def test_dtypes_are_not_promoted_silently():
    with pytest.raises(Exception, match="dtype promotion"):
        jnp.add(jnp.ones(3, jnp.float32), jnp.ones(3, jnp.int32))


def test_ranks_are_not_promoted_silently():
    with pytest.raises(ValueError, match="rank"):
        jnp.add(jnp.ones((2, 3)), jnp.ones(3))


def test_warnings_are_errors():
    with pytest.raises(UserWarning, match="noticed"):
        warnings.warn("noticed", stacklevel=1)


def test_shapes_are_checked():
    obs, actions = np.ones((3, 2)), np.ones((4, 1))
    assert len(Data(obs, actions[:3], np.ones(3), obs, np.zeros(3, bool))) == 3
    with pytest.raises(TypeCheckError, match="actions"):
        Data(obs, actions, np.ones(3), obs, np.zeros(3, bool))


def test_types_are_checked():
    with pytest.raises(TypeCheckError, match="message"):
        require(True, 1)  # pyright: ignore[reportArgumentType]


@pytest.mark.usefixtures("x64")
def test_floats_have_64_bits_on_request():
    assert jnp.ones(1).dtype == jnp.float64

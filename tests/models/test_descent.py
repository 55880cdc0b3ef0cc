"""Steps of Adam behind a limit on the gradient, by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from driftrl.models.descent import adam, descend


def test_steps_by_hand() -> None:
    rule = adam(0.1, clip=2.0)
    memory = rule.init({"a": jnp.zeros(()), "b": jnp.zeros(())})

    @jax.jit
    def step(
        gradient: dict[str, jax.Array], memory: object, parameters: dict[str, jax.Array]
    ) -> tuple[dict[str, jax.Array], object]:
        return descend(rule, gradient, memory, parameters)

    # The joint norm 5 is shortened to 2; the first step of Adam keeps but the signs.
    gradient = {"a": jnp.asarray(3.0), "b": jnp.asarray(-4.0)}
    parameters = {"a": jnp.asarray(1.0), "b": jnp.asarray(1.0)}
    parameters, memory = step(gradient, memory, parameters)
    np.testing.assert_allclose(
        [parameters["a"], parameters["b"]], [0.9, 1.1], rtol=1e-5
    )
    # A norm of 1 is left as it is: averages of 1.2, −1.6 before and 0, 1 now.
    gradient = {"a": jnp.asarray(0.0), "b": jnp.asarray(1.0)}
    found, _ = step(gradient, memory, parameters)
    for name, old, new in (("a", 1.2, 0.0), ("b", -1.6, 1.0)):
        mean = (0.9 * 0.1 * old + 0.1 * new) / (1 - 0.9**2)
        square = (0.999 * 0.001 * old**2 + 0.001 * new**2) / (1 - 0.999**2)
        expected = parameters[name] - 0.1 * mean / np.sqrt(square)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5)

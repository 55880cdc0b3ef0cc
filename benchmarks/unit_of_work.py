"""Updates of the deep agent, beside the rate of matrix products.

An update is one of the model, imagined rollouts, and one or A of the policy::

    python benchmarks/unit_of_work.py
"""

from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from driftrl.agents import model_based
from driftrl.agents.model_based import ModelBasedAgent, model_batch
from driftrl.agents.model_free import train_steps
from driftrl.agents.model_gradient import members_asked, start_rows
from driftrl.agents.replay import device_replay
from driftrl.cli.options import print_table
from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
)
from driftrl.training.speed import fastest, product_rate
from driftrl.types import Data

ROWS = 4000  # retained transitions
UPDATES = 20  # in one call
_PAPER = EnsembleAgentConfig(
    policy_gradient="critic",
    model=EnsembleConfig(),
    imagination=ImaginationConfig(),
    optimism=DeepOptimismConfig(),
    sac=SACConfig(critic="residual"),
    learning=LearningConfig(model_updates=1, policy_updates=5),
)
_SMALL = SACConfig(hidden=(64, 64), batch_size=128, critic="residual")
SETTINGS = {
    "128 × 128, gradient through the model": EnsembleAgentConfig(),
    "256 × 256, of the critic, A = 5": _PAPER,
    "64 × 64, of the critic, A = 5, batch 128": replace(
        _PAPER, model=EnsembleConfig(hidden=(64, 64)), sac=_SMALL
    ),
}


def main() -> None:
    """Print the time of an update, and its rate of operations."""
    sizes, rate, rows = (3, 1), product_rate(), []
    for name, config in SETTINGS.items():
        seconds, flops = update_seconds(config, sizes), update_flops(config, sizes)
        speed = flops / seconds
        cells = f"{1e3 * seconds:.1f}", f"{speed / 1e9:.1f}", f"{speed / rate:.0%}"
        rows.append([name, *cells])
    print(f"Matrix products of 256 × 256: {rate / 1e9:.1f} GFLOP/s\n")
    print_table(["networks", "ms an update", "GFLOP/s", "of products'"], rows)


def update_flops(config: EnsembleAgentConfig, sizes: tuple[int, int]) -> float:
    """Return multiplications and additions in the matrix products of an update."""
    states, actions = sizes
    batch, hidden = config.sac.batch_size, config.sac.hidden
    outputs = (states + 1) * (2 if config.model.loss == "likelihood" else 1)
    critic_hidden = (hidden[0],) * 3 if config.sac.critic == "residual" else hidden
    inputs = states + actions
    model = _Pass((inputs, *config.model.hidden, outputs), config.model.members * batch)
    actor = _Pass((states, *hidden, 2 * actions), batch)
    critics = _Pass((inputs, *critic_hidden, 1), config.sac.critics * batch)
    updates = config.learning.policy_updates
    if config.policy_gradient == "model":
        seen = _Pass(model.sizes, config.model.members * model_batch(config))
        steps, rows = config.imagination.horizon, start_rows(config)
        model = _Pass(model.sizes, members_asked(config) * rows)
        actor = _Pass(actor.sizes, rows)
        critics = _Pass(critics.sizes, config.sac.critics * rows)
        # Through model and critics the gradient goes to their inputs alone.
        rollout = (steps + 1) * (actor.gradient + actor.first) + steps * 2.0 * (
            model.forward
        )
        each = rollout + 2.0 * critics.forward + critics.forward + critics.gradient
        tuned = 2.0 * model.forward if config.optimism.rule == "tuned" else 0.0
        return config.model.steps * seen.gradient + updates * each + tuned
    # The imagined steps, and the reference of a tuned λ.
    looks = config.imagination.horizon + (config.optimism.rule == "tuned")
    # The model also looks at the collected batch; the actor's loss needs the slope of
    # the critics by their inputs, which takes as many products again.
    return (
        model.gradient
        + (looks + 1) * model.forward
        + (looks + updates) * actor.forward
        + updates * (critics.forward + critics.gradient + 2.0 * critics.forward)
        + updates * actor.gradient
    )


class _Pass:
    """Multiplications and additions of a batch through a network."""

    def __init__(self, sizes: tuple[int, ...], rows: int) -> None:
        layers = [inputs * outputs for inputs, outputs in pairwise(sizes)]
        self.sizes = sizes
        self.forward = 2.0 * rows * sum(layers)
        self.first = 2.0 * rows * layers[0]
        # Nobody asks for the slope by the inputs of the first layer.
        self.gradient = 3.0 * self.forward - self.first


def update_seconds(config: EnsembleAgentConfig, sizes: tuple[int, int]) -> float:
    """Return the seconds of an update, in the fastest of a few calls."""
    rng = np.random.default_rng(0)
    states, actions = (rng.uniform(-1, 1, (ROWS, size)) for size in sizes)
    data = Data(states, actions, rng.normal(size=ROWS), states, np.zeros(ROWS, bool))
    replay, key = device_replay(data, ROWS), jax.random.key(0)
    config = replace(config, learning=replace(config.learning, model_first=0))
    agent = ModelBasedAgent(sizes, config, capacity=ROWS, steps=ROWS)
    state = agent.initial_state(key=key)
    count, settings = jnp.asarray(UPDATES, jnp.int32), model_based.Settings(config)
    call = lambda: train_steps(model_based.update, settings, state, replay, count, key)
    return fastest(call, rounds=7) / UPDATES


if __name__ == "__main__":
    main()

"""What a unit of practice is made of, counted by hand, and that it can be timed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    LearningConfig,
    SACConfig,
)
from driftrl.training import speed
from driftrl.training.speed import Product, Speed, products_of_unit

CONFIG = EnsembleAgentConfig(
    model=EnsembleConfig(members=2, hidden=(5,)),
    sac=SACConfig(hidden=(4, 4), batch_size=3),
    learning=LearningConfig(model_updates=1, policy_updates=2, learning_starts=3),
)


def test_flops_of_a_pass_by_hand() -> None:
    # Layers of 4·8 and 8·2 weights, three networks, ten rows: 2·10·3·48 = 2,880.
    forward = Product((4, 8, 2), 3, 10, "forward")
    assert forward.flops == 2880
    # Backwards each weight is in two products more; the inputs' slope is left out.
    assert replace(forward, passes="weights").flops == 3 * 2880 - 2 * 10 * 3 * 32
    # For the slope by the inputs every weight is in one product more.
    assert replace(forward, passes="inputs").flops == 2 * 2880


def test_products_of_a_unit_by_hand() -> None:
    found = products_of_unit(CONFIG, (3, 1))
    model, actor, critic = (4, 5, 4), (3, 4, 4, 2), (4, 4, 4, 1)
    assert found == {
        Product(model, 2, 3, "weights"): 1,
        Product(model, 2, 3, "forward"): 2 + 1,  # K imagined steps, the collected one
        Product(actor, 1, 3, "forward"): 2 + 2,  # K steps, and next actions twice
        Product(critic, 2, 3, "forward"): 2,
        Product(critic, 2, 3, "weights"): 2,
        Product(critic, 2, 3, "inputs"): 2,
        Product(actor, 1, 3, "weights"): 2,
    }
    tuned = replace(CONFIG, optimism=DeepOptimismConfig(rule="tuned"))
    assert products_of_unit(tuned, (3, 1))[Product(model, 2, 3, "forward")] == 4
    residual = replace(CONFIG, sac=replace(CONFIG.sac, critic="residual"))
    wide = Product((4, 4, 4, 4, 1), 2, 3, "forward")
    assert products_of_unit(residual, (3, 1))[wide] == 2


def test_rates_by_hand() -> None:
    found = Speed(unit_ms=2.0, products_ms=1.5, flops=3e6)
    assert found.share == 0.75
    assert found.gflops == pytest.approx(1.5)  # 3·10⁶ in 2 ms
    assert found.product_gflops == pytest.approx(2.0)


def test_the_rate_of_products_is_that_of_the_fastest_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first call compiles; then other programs have the core for half of the time.
    spent = [0.001, 0.008, 0.004, 0.008]
    clock = iter([reading for each in spent for reading in (1.0, 1.0 + each)])
    fake = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr(speed, "time", fake)
    # Twice a product of 256³ by two layers, in 4 ms: 2·2·2·256³ / 0.004 s.
    assert speed.product_rate(3) == pytest.approx(2 * 2 * 2 * 256**3 / 0.004)


@pytest.mark.slow
def test_a_unit_and_its_products_are_timed() -> None:
    found = speed.measure(CONFIG, rounds=1)
    assert found.unit_ms > 0 and found.products_ms > 0
    counts = products_of_unit(CONFIG, (3, 1)).items()
    assert found.flops == sum(count * one.flops for one, count in counts)

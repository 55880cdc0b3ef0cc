"""What has to be said of recorded runs: settings that this version does not know."""

import tomllib

from driftrl.cli.recorded import unknown_settings
from driftrl.config.run import ExtraDrift, RunConfig
from driftrl.config.toml import to_dict, toml_text
from driftrl.drift.schedules import Exponential
from driftrl.envs.tasks import configure
from driftrl.presets.tasks import TASKS


def stored(config: RunConfig) -> dict:
    """The settings as a run's file holds them."""
    return tomllib.loads(toml_text(to_dict(config)))


def test_our_own_settings_are_known() -> None:
    for task in TASKS:
        for method in ("sombrl", "r-ombrl", "sw-ombrl"):
            settings = stored(configure(task, method, {"seed": 1}))
            assert unknown_settings(RunConfig, settings) == []
    extra_drifts = (ExtraDrift("mass", Exponential()),)
    assert (
        unknown_settings(
            RunConfig, stored(RunConfig("p", "m", extra_drifts=extra_drifts))
        )
        == []
    )


def test_settings_that_are_not_are_named_with_their_place() -> None:
    settings = stored(configure("hopper", "sombrl", {}))
    settings["novelty"] = 3
    settings["environment"]["wind"] = {"from": "north"}
    settings["agent"]["sac"]["depth"] = 4
    settings["drift"] = {"kind": "chaotic", "rate": 2.0}
    assert unknown_settings(RunConfig, settings) == [
        "environment.wind",
        "drift.kind = chaotic",
        "agent.sac.depth",
        "novelty",
    ]

"""The RC car as a task: what the paper says of its experiment, and what it doesn't."""

from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
    SoftResetConfig,
)
from driftrl.config.run import EnvironmentConfig, EvaluationConfig
from driftrl.config.task import Task
from driftrl.drift.schedules import Geometric

_FADED = 0.25  # of the throttle, in the end
_FADING = 3  # episodes until then

RCCAR = Task(
    name="rccar",
    plant="rccar",
    summary="Park an RC car that faces the other way, by drifting while it can.",
    drifts="strength of the throttle, ×",
    gymnasium_id="driftrl/RCCar-v0",
    state_size=13,
    action_size=2,
    starts=("away", "anywhere"),
    nominal=1.0,
    drift=Geometric(
        theta_max=1.0, theta_min=_FADED, ratio=_FADED ** (1 / _FADING), start=14
    ),
    episodes=30,
    reset_period=15,
    window=7,  # as much data as the reset has on the average
    environment=EnvironmentConfig(
        sim_steps=200, action_repeat=1, start="away", parameter="throttle"
    ),
    agent=EnsembleAgentConfig(
        model=EnsembleConfig(hidden=(64, 64), learning_rate=1e-3),
        imagination=ImaginationConfig(horizon=5, reward="known"),
        # The reward lies in [0, 1], and near 0.03 where the car starts: with λ = 1 it
        # would drive about for the sake of what it does not know.
        optimism=DeepOptimismConfig(rule="constant", weight=0.05),
        # A parked car is paid at every step, so it need not look far: with γ = 0.99 two
        # cars of three were still far from parking after 14 episodes.
        sac=SACConfig(
            hidden=(64, 64),
            batch_size=64,
            critic="residual",
            learning_rate=1e-3,
            discount=0.95,
        ),
        learning=LearningConfig(
            model_updates=5, policy_updates=20, learning_starts=128
        ),
        soft_reset=SoftResetConfig(model=0.0, policy=0.0),
    ),
    # The policy explores while it learns; what it would do is the measure.
    evaluation=EvaluationConfig(episodes=1),
    # A weaker throttle's command is a smaller one of the stronger car, for which the
    # reward charges less.
    more_is_better=True,
    varied=True,
    minutes=3.5,
    notes="The paper drives a car on the floor; this is its published simulator, with "
    "a Runge-Kutta method that is one. 'Exponentially to 25 % over three episodes' is "
    "a constant factor: 63, 40 and 25 % in episodes 15, 16 and 17. The throttle alone "
    "is scaled, and the reward charges for the command, so that its price does not "
    "change. Where the paper is silent: 200 decisions at 30 a second, commands "
    "that arrive three late, noise and start are those of the car's owners; networks "
    "are of their size (64 units), and the paper's own are of 256. Its owners know the "
    "reward, and so does this agent; λ = 0.05, γ = 0.95 and w = 7 were chosen here. "
    "environment.specimen = 1, 2, … are cars drawn from the ranges of its simulator.",
)

"""The tasks of the paper: one row each, as data.

A row says what drifts, how long an episode is, and the settings that a run starts from.
Where the paper is silent, docs/mujoco.md and docs/rccar.md say what was chosen.
"""

from driftrl.config import deep
from driftrl.config.gp import GPAgentConfig, GPConfig
from driftrl.config.run import EnvironmentConfig, EvaluationConfig
from driftrl.config.task import Task
from driftrl.drift.schedules import Exponential, Geometric


def _agent(
    *,
    model: int = 1,
    policy: int = 1,
    horizon: int = 1,
    width: int = 256,
    batch: int = 256,
    starts: int = 256,
    ends: bool = False,
) -> deep.EnsembleAgentConfig:
    """Return the paper's agent: U, A and K, and how wide its networks are."""
    termination = "known" if ends else "absent"
    return deep.EnsembleAgentConfig(
        policy_gradient="critic",
        model=deep.EnsembleConfig(hidden=(width, width)),
        imagination=deep.ImaginationConfig(horizon=horizon, termination=termination),
        optimism=deep.DeepOptimismConfig(rule="tuned"),
        sac=deep.SACConfig(hidden=(width, width), batch_size=batch, critic="residual"),
        learning=deep.LearningConfig(
            model_updates=model, policy_updates=policy, learning_starts=starts
        ),
        soft_reset=deep.SoftResetConfig(),
    )


PENDULUM_TASKS = (
    Task(
        name="pendulum",
        summary="Swing a pendulum up from hanging and balance it.",
        drifts="torque of the full action, N·m",
        gymnasium_id="driftrl/Pendulum-v0",
        state_size=3,
        action_size=1,
        starts=("hanging", "random"),
        nominal=2.0,
        drift=Exponential(theta_max=2.0, theta_min=1.0, rate=1.0, start=10),
        episodes=30,
        reset_period=10,
        window=5,
        minutes=0.3,
        environment=EnvironmentConfig(sim_steps=200, action_repeat=5, start="hanging"),
        agent=GPAgentConfig(model=GPConfig(learn_noise=True, compression=1e-3)),
        # Nothing is random but the planner: the executed episode is the measure.
        evaluation=EvaluationConfig(episodes=0),
    ),
    Task(
        name="pendulum-decay",
        summary="Swing a pendulum up and balance it, with 20 decisions a second.",
        drifts="torque of the full action, N·m",
        gymnasium_id="driftrl/PendulumDecay-v0",
        state_size=3,
        action_size=1,
        starts=("hanging", "random"),
        nominal=5.0,
        drift=Exponential(theta_max=5.0, theta_min=1.0, rate=0.1, start=5),
        episodes=75,
        reset_period=20,
        window=20,
        minutes=1.3,
        environment=EnvironmentConfig(sim_steps=200, action_repeat=1, start="hanging"),
        # Smaller than the paper's: a run takes two minutes on one core.
        agent=_agent(model=2, policy=5, horizon=2, width=64, batch=64, starts=128),
        # The policy explores while it learns; what it would do is the measure.
        evaluation=EvaluationConfig(episodes=1),
    ),
)

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
    starts=("away",),
    nominal=1.0,
    drift=Geometric(
        theta_max=1.0, theta_min=_FADED, ratio=_FADED ** (1 / _FADING), start=14
    ),
    episodes=30,
    reset_period=15,
    window=7,  # as much data as the reset has on average
    environment=EnvironmentConfig(
        sim_steps=200, action_repeat=1, start="away", parameter="throttle"
    ),
    agent=deep.EnsembleAgentConfig(
        policy_gradient="critic",
        model=deep.EnsembleConfig(hidden=(64, 64), learning_rate=1e-3),
        imagination=deep.ImaginationConfig(horizon=5, reward="known"),
        # The reward lies in [0, 1], and near 0.03 where the car starts: with λ = 1 it
        # would drive about for the sake of what it does not know.
        optimism=deep.DeepOptimismConfig(rule="constant", weight=0.05),
        # A parked car is paid at every step, so it need not look far: with γ = 0.99 two
        # cars of three were still far from parking after 14 episodes.
        sac=deep.SACConfig(
            hidden=(64, 64),
            batch_size=64,
            critic="residual",
            learning_rate=1e-3,
            discount=0.95,
        ),
        learning=deep.LearningConfig(
            model_updates=5, policy_updates=20, learning_starts=128
        ),
        soft_reset=deep.SoftResetConfig(model=0.0, policy=0.0),
    ),
    # The policy explores while it learns; what it would do is the measure.
    evaluation=EvaluationConfig(episodes=1),
    minutes=3.5,
)

_STEPS = 1000  # of the environment, in an episode that runs its full time


def _environment(repeat: int, *, terminates: bool = False) -> EnvironmentConfig:
    return EnvironmentConfig(
        sim_steps=_STEPS,
        action_repeat=repeat,
        start="random",
        parameter="gear",
        terminates=terminates,
    )


def _decay(rate: float, low: float, start: int) -> Exponential:
    return Exponential(theta_max=1.0, theta_min=low, rate=rate, start=start)


def _task(
    name: str, plant: str, summary: str, *, forget_after: int, **settings: object
) -> Task:
    """Return a row with what all machines of the suite have in common: H = w too."""
    shared: dict[str, object] = {
        "reset_period": forget_after,
        "window": forget_after,
        "drifts": "strength of the actuators, ×",
        "gymnasium_id": f"driftrl/{plant}-v0",
        "starts": ("random",),
        "nominal": 1.0,
        "evaluation": EvaluationConfig(episodes=1),
    }
    return Task(name=name, plant=plant, summary=summary, **(shared | settings))  # pyright: ignore[reportArgumentType]


MUJOCO_TASKS = (
    _task(
        "halfcheetah",
        "HalfCheetah",
        "Run forward on two legs in the plane.",
        state_size=17,
        action_size=6,
        drift=_decay(0.005, 0.2, 400),
        episodes=1000,
        forget_after=200,
        minutes=340,
        environment=_environment(2),
        agent=_agent(horizon=5),
    ),
    _task(
        "hopper",
        "Hopper",
        "Hop forward on one leg in the plane.",
        state_size=11,
        action_size=3,
        drift=_decay(0.005, 0.3, 300),
        episodes=1000,
        forget_after=200,
        minutes=335,
        environment=_environment(2),
        agent=_agent(policy=2),
        may_end=True,
    ),
    _task(
        "double-pendulum",
        "InvertedDoublePendulum",
        "Balance two poles on a cart, one on the other.",
        state_size=9,
        action_size=1,
        drift=_decay(2e-5, 0.25, 200_000),
        episodes=800,
        forget_after=150_000,
        forgets_in="transitions",
        clock="steps",
        minutes=600,
        environment=_environment(1, terminates=True),
        agent=_agent(model=2, ends=True),
        may_end=True,
    ),
    _task(
        "walker2d",
        "Walker2d",
        "Walk forward on two legs in the plane.",
        state_size=17,
        action_size=6,
        drift=_decay(0.0005, 0.3, 1500),
        episodes=4000,
        forget_after=1200,
        minutes=1050,
        environment=_environment(2),
        agent=_agent(),
        may_end=True,
    ),
    _task(
        "ant",
        "Ant",
        "Walk forward on four legs.",
        state_size=27,
        action_size=8,
        more_observations={"contacts": 105},
        drift=_decay(0.007, 0.3, 400),
        episodes=1000,
        forget_after=250,
        minutes=265,
        environment=_environment(2),
        agent=_agent(),
        may_end=True,
    ),
    _task(
        "humanoid",
        "Humanoid",
        "Walk forward upright.",
        state_size=348,
        action_size=17,
        more_observations={"joints": 45},
        drift=_decay(3e-6, 0.3, 1_000_000),
        episodes=4000,
        forget_after=1_000_000,
        forgets_in="transitions",
        clock="steps",
        minutes=6100,
        environment=_environment(2, terminates=True),
        agent=_agent(width=512, ends=True),
        may_end=True,
    ),
    _task(
        "humanoid-standup",
        "HumanoidStandup",
        "Stand up from lying on the back.",
        state_size=348,
        action_size=17,
        more_observations={"joints": 45},
        drift=_decay(0.02, 0.3, 300),
        episodes=1000,
        forget_after=250,
        minutes=550,
        environment=_environment(2),
        agent=_agent(),
    ),
)

TASKS: dict[str, Task] = {
    task.name: task for task in (*PENDULUM_TASKS, RCCAR, *MUJOCO_TASKS)
}

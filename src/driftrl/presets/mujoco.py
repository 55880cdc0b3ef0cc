"""The MuJoCo tasks of the paper: the rows of its two tables, as data.

Action repeat, networks, H and w, θ_max, θ_min, a and n_start are the paper's; updates a
decision and the length of rollouts, which it leaves out, are its authors' code's.  In
every task θ scales the gear of all actuators as it is in Gymnasium's model (v5).
"""

from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
)
from driftrl.config.run import EnvironmentConfig, EvaluationConfig
from driftrl.config.task import Task
from driftrl.drift.schedules import Exponential

_STEPS = 1000  # of the environment, in an episode that runs its full time
_NO_END = (
    "A fall does not end an episode, in training, evaluation and oracle alike: it "
    "only costs the reward for being upright. The paper does not say; its authors' "
    "code trains so, and judges some machines with an end, which is "
    "environment.terminates = true here."
)


def _environment(repeat: int, *, terminates: bool = False) -> EnvironmentConfig:
    return EnvironmentConfig(
        sim_steps=_STEPS,
        action_repeat=repeat,
        start="random",
        parameter="gear",
        terminates=terminates,
    )


def _agent(
    *, model: int = 1, policy: int = 1, horizon: int = 1, width: int = 256, ends: bool
) -> EnsembleAgentConfig:
    """Return the paper's agent: U, A and K, and how wide its networks are."""
    return EnsembleAgentConfig(
        model=EnsembleConfig(hidden=(width, width)),
        imagination=ImaginationConfig(
            horizon=horizon, termination="known" if ends else "absent"
        ),
        optimism=DeepOptimismConfig(rule="tuned"),
        sac=SACConfig(hidden=(width, width), batch_size=256, critic="residual"),
        learning=LearningConfig(
            model_updates=model, policy_updates=policy, learning_starts=256
        ),
    )


def _decay(rate: float, low: float, start: int) -> Exponential:
    return Exponential(theta_max=1.0, theta_min=low, rate=rate, start=start)


def _task(name: str, plant: str, summary: str, **settings: object) -> Task:
    """Return a row with what all machines of the suite have in common."""
    shared: dict[str, object] = {
        "drifts": "strength of the actuators, ×",
        "gymnasium_id": f"driftrl/{plant}-v0",
        "starts": ("random",),
        "nominal": 1.0,
        # A weaker machine's torque is a smaller action of a stronger one, for which
        # every reward of the suite charges less.
        "more_is_better": True,
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
        reset_period=200,
        window=200,
        minutes=340,
        environment=_environment(2),
        agent=_agent(horizon=5, ends=False),
        notes="The paper runs a = 0.002, 0.005 and 0.007; 0.005 is the default here.",
    ),
    _task(
        "hopper",
        "Hopper",
        "Hop forward on one leg in the plane.",
        state_size=11,
        action_size=3,
        drift=_decay(0.005, 0.3, 300),
        episodes=1000,
        reset_period=200,
        window=200,
        minutes=335,
        environment=_environment(2),
        agent=_agent(policy=2, ends=False),
        may_end=True,
        notes="The paper runs a = 0.002, 0.005 and 0.007; 0.005 is the default here. "
        + _NO_END,
    ),
    _task(
        "double-pendulum",
        "InvertedDoublePendulum",
        "Balance two poles on a cart, one on the other.",
        state_size=9,
        action_size=1,
        drift=_decay(2e-5, 0.25, 200_000),
        episodes=800,
        reset_period=150_000,
        window=150_000,
        forgets_in="transitions",
        clock="steps",
        minutes=600,
        environment=_environment(1, terminates=True),
        agent=_agent(model=2, ends=True),
        may_end=True,
        notes="A fall ends the episode, as in Gymnasium: without an end it becomes "
        "another task, to swing up two hanging poles. The paper does not say; its "
        "authors' code trains without an end, at a penalty of 10 a step, and judges "
        "with one. As episodes have any length then, the schedule counts decisions "
        "and H and w count transitions: 1000 for an episode of the paper. Gymnasium's "
        "v5 leaves out two observations of v4 that are always 0: 9 instead of 11.",
    ),
    _task(
        "walker2d",
        "Walker2d",
        "Walk forward on two legs in the plane.",
        state_size=17,
        action_size=6,
        drift=_decay(0.0005, 0.3, 1500),
        episodes=4000,
        reset_period=1200,
        window=1200,
        minutes=1050,
        environment=_environment(2),
        agent=_agent(ends=False),
        may_end=True,
        notes=_NO_END,
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
        reset_period=250,
        window=250,
        minutes=265,
        environment=_environment(2),
        agent=_agent(ends=False),
        may_end=True,
        notes="Contact forces are not observed, as in the paper; the variant "
        "'contacts' observes them. The paper repeats actions twice, its authors' code "
        "does not. Gymnasium's v5 counts a cost of contacts that v4 left out. "
        + _NO_END,
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
        reset_period=1_000_000,
        window=1_000_000,
        forgets_in="transitions",
        clock="steps",
        minutes=6100,
        environment=_environment(2, terminates=True),
        agent=_agent(width=512, ends=True),
        may_end=True,
        notes="A fall ends the episode, which makes episodes of any length: the "
        "schedule counts decisions and H and w count transitions. The paper's n_start "
        "= 2000 and a = 3e-6 can't both be episodes; its authors' code decays by 3e-6 "
        "a decision after a million, which are 2000 times 1000 steps of the "
        "environment. Gymnasium's v5 leaves out 28 observations of v4 that are always "
        "0: 348 instead of 376. The variant 'joints' observes positions and speeds "
        "alone.",
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
        reset_period=250,
        window=250,
        minutes=550,
        environment=_environment(2),
        agent=_agent(ends=False),
        notes="The paper repeats actions twice, its authors' code does not. "
        "Gymnasium's v5 leaves out 28 observations of v4 that are always 0. The "
        "variant 'joints' observes positions and speeds alone.",
    ),
)

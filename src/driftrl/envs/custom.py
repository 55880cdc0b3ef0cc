"""Custom environments: any Gymnasium environment with box spaces, as a task.

Such an environment drifts on its own, or by a schedule if its parameters can be set:
with its method ``set_parameters({name: value})``, which may belong to a wrapper, or
with a function of the user's, ``setter(env, {name: value})``.  Either is called before
every reset, with the values of that episode, and within it if ``drift_every`` says so.
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from driftrl.config import deep
from driftrl.config.run import NO_END, EnvironmentConfig, EvaluationConfig
from driftrl.config.task import Task
from driftrl.drift.schedules import Schedule, Unknown
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.errors import InputError, at_least, require
from driftrl.plugins import load_object, path_of

Env = gymnasium.Env[Any, Any]
Setter = Callable[[Env, dict[str, float]], Any]
"""Sets parameters of an environment by name."""
Bounds = tuple[tuple[float, ...], tuple[float, ...]]
START = "own"
"""The only start of a custom environment: its own."""
NO_PARAMETER = "none"
"""``environment.parameter`` of an environment that drifts on its own."""
APPLIED = "applied_action"
"""Entry of ``info`` with which an environment says what it really applied, in its own
units, where that is not what it was told: overridden, saturated or rate-limited."""
STEPS = 1000
"""Decisions of an episode if the environment does not declare a limit."""
_ASSUMED = (
    f"The environment declares no episode length: at most {STEPS} steps are assumed. "
    "Set it with gymnasium.wrappers.TimeLimit or environment.sim_steps."
)
# (most observations, units of a hidden layer): sizes that learned tasks of that size.
_WIDTHS = ((8, 64), (32, 128))
_LARGEST_WIDTH = 256


def scaled(command: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return commands between ``low`` and ``high`` as actions of −1 to 1."""
    span = np.where(high > low, high - low, 1.0)
    return 2.0 * (np.asarray(command, np.float64) - low) / span - 1.0


def is_custom(task: str) -> bool:
    """Return whether a task is a custom environment, by its name."""
    return ":" in task


def load_env(path: str) -> Env:
    """Make the environment of "module:factory"."""
    return make(load_factory(path), path)


def load_factory(path: str) -> Callable[[], Any]:
    """Import what makes the environment of "module:factory"."""
    if path in gymnasium.registry:
        raise registered(path)
    factory = load_object(path)
    require(callable(factory), f"{path!r} is {factory!r}, not a function or class.")
    return factory


def registered(name: str) -> InputError:
    """Return how to name an environment that is registered with Gymnasium."""
    return InputError(
        f"{name!r} is a Gymnasium id; driftrl takes MODULE:FACTORY. Write "
        f'`def make_env(): return gymnasium.make("{name}")` in a module, say '
        "my_env.py, and name my_env:make_env."
    )


def make(factory: Callable[[], Any], name: str) -> Env:
    """Call a factory; ``InputError`` if it makes no environment."""
    try:
        env = factory()
    except Exception as error:
        raise InputError(
            f"Making the environment by calling {name!r} without arguments failed: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"{name!r} made {env!r}, which is not a gymnasium.Env.")
    return env


def copied(env: Env) -> Env:
    """Copy an environment, to evaluate policies on; ``InputError`` if that fails."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise InputError(
            f"{name_of(env)!r} can't be copied to evaluate policies on "
            f"({type(error).__name__}: {error}): set evaluation.episodes to 0."
        ) from error


def name_of(env: Env) -> str:
    """Return the name of an environment as a task, after its class."""
    kind = type(env.unwrapped)
    return f"{kind.__module__}:{kind.__qualname__}".replace("<locals>.", "")


def declared_steps(env: Env) -> int | None:
    """Return the longest possible episode, if the environment declares it."""
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is None and env.has_wrapper_attr("_max_episode_steps"):
        limit = env.get_wrapper_attr("_max_episode_steps")
    return limit


def box_sizes(env: Env) -> tuple[int, int]:
    """Return the numbers of observations and actions, each vectors, actions bounded."""
    observed, actions = env.observation_space, env.action_space
    if not isinstance(observed, spaces.Box) or len(observed.shape) != 1:
        raise InputError(
            f"Observations must be a Box with one axis, received {observed}; wrap the "
            "environment in gymnasium.wrappers.FlattenObservation."
        )
    if not isinstance(actions, spaces.Box) or len(actions.shape) != 1:
        raise InputError(
            f"Actions must be a Box with one axis, received {actions}; driftrl does "
            "not choose among discrete actions."
        )
    require(
        bool(np.isfinite([actions.low, actions.high]).all()),
        f"Actions must have finite bounds, received {actions}; wrap the environment in "
        "gymnasium.wrappers.RescaleAction or TransformAction.",
    )
    return observed.shape[0], actions.shape[0]


def setter_path(setter: Setter | None) -> str:
    """Return the import path of a setter; empty if it has none."""
    try:
        return "" if setter is None else path_of(setter)
    except InputError:
        return ""


def check_reset(env: Env) -> None:
    """Refuse an environment whose reset, or a wrapper's, takes no seed or options."""
    layer: Any = env
    while layer is not None:
        try:
            inspect.signature(layer.reset).bind(seed=None, options=None)
        except TypeError as error:
            raise InputError(
                f"reset() of {type(layer).__name__} can't be called with seed and "
                f"options ({error}): write it as def reset(self, *, seed=None, "
                "options=None)."
            ) from None
        layer = layer.env if isinstance(layer, gymnasium.Wrapper) else None


def custom_task(
    source: str | Env | Callable[[], Env],
    *,
    parameter: str = NO_PARAMETER,
    drift: Schedule | None = None,
    setter: Setter | str | None = None,
    observations: int | None = None,
    actions: int | None = None,
    steps: int | None = None,
) -> Task:
    """Return the task of a custom environment, for ``configure``.

    Args:
        source: An environment, what makes one ("module:factory" or the function), or
            the name of a machine that a ``Session`` drives; that one needs
            ``observations``, ``actions`` (each in [−1, 1]) and ``steps`` too.
        parameter: What the schedule sets; by default the environment drifts on its own.
        drift: The schedule of the parameter, and so of θ.
        setter: What sets parameters, or its import path.
        observations: Numbers observed by a machine.
        actions: Numbers that command a machine.
        steps: Decisions of an episode, if the environment does not declare them.
    """
    if isinstance(source, str) and not is_custom(source):
        task = _machine(source, observations, actions, steps)
    elif isinstance(source, gymnasium.Env):
        task = task_of(name_of(source), source, steps)
    else:
        name = source if isinstance(source, str) else path_of(source)
        with contextlib.closing(load_env(name)) as env:
            task = task_of(name, env, steps)
    path = setter if isinstance(setter, str) else path_of(setter) if setter else ""
    return replace(
        task,
        drifts=parameter if drift is not None else task.drifts,
        drift=drift or Unknown(),
        environment=replace(task.environment, parameter=parameter, setter=path),
    )


def _machine(
    name: str, observations: int | None, actions: int | None, steps: int | None
) -> Task:
    """Return the task of a machine that a ``Session`` drives."""
    require(
        name.replace("-", "").replace("_", "").isalnum(),
        "The name of a machine becomes part of a directory's name: use letters, "
        f"digits, - and _; received {name!r}.",
    )
    counts = {"observations": observations, "actions": actions, "steps": steps}
    for argument, count in counts.items():
        at_least(f"{argument} of the machine {name!r}", count or 0, 1)
    assert observations and actions and steps
    return sized_task(f"machine:{name}", (observations, actions), steps)


def task_of(name: str, env: Env, steps: int | None = None) -> Task:
    """Return the task of an environment that drifts on its own.

    Its ``notes`` say so if the length of an episode is assumed.
    """
    sizes, actions = box_sizes(env), env.action_space
    check_reset(env)
    assert isinstance(actions, spaces.Box)
    bounds = (tuple(actions.low.tolist()), tuple(actions.high.tolist()))
    limit = declared_steps(env) if steps is None else steps
    task = sized_task(name, sizes, STEPS if limit is None else limit, bounds)
    return replace(task, notes=_ASSUMED if limit is None else "")


def sized_task(
    name: str, sizes: tuple[int, int], steps: int, bounds: Bounds = ((), ())
) -> Task:
    """Return the settings that a run on a custom environment starts from.

    ``sizes`` are numbers of observations and actions; ``steps`` the decisions of an
    episode that runs its full time; ``bounds`` what actions of −1 and 1 command.
    """
    width = next((wide for most, wide in _WIDTHS if sizes[0] <= most), _LARGEST_WIDTH)
    return Task(
        name=name,
        summary="A custom environment.",
        drifts="unknown",
        gymnasium_id="",
        state_size=sizes[0],
        action_size=sizes[1],
        starts=(START,),
        nominal=0.0,
        drift=Unknown(),
        episodes=100,
        reset_period=20,
        window=20,
        environment=EnvironmentConfig(
            sim_steps=steps,
            start=START,
            parameter=NO_PARAMETER,
            observations=sizes[0],
            actions=sizes[1],
            low=bounds[0],
            high=bounds[1],
        ),
        agent=deep.EnsembleAgentConfig(
            policy_gradient="critic",
            model=deep.EnsembleConfig(hidden=(width, width), learning_rate=1e-3),
            # Right for an environment that may fail as well as for one that never does.
            imagination=deep.ImaginationConfig(termination="learned"),
            optimism=deep.DeepOptimismConfig(rule="tuned"),
            sac=deep.SACConfig(
                hidden=(width, width),
                batch_size=width,
                critic="residual",
                learning_rate=1e-3,
            ),
            learning=deep.LearningConfig(
                model_updates=1, policy_updates=3, learning_starts=2 * width
            ),
            # Trying out a softly reset policy costs real episodes; the paper's car and
            # our ablation (docs/deep_pendulum.md) do better without.
            soft_reset=deep.SoftResetConfig(model=0.0, policy=0.0),
        ),
        evaluation=EvaluationConfig(episodes=0),
        plant="custom",
    )


def _noticed(name: str) -> Any:
    """Return a method of ``dict`` that notes that it was called."""

    def read(place: "Place", *given: Any) -> Any:
        place.was_read = True
        return getattr(dict, name)(place, *given)

    return read


class Place(dict[str, int]):
    """Options of ``reset``, which know whether anything has looked at them."""

    was_read = False
    __getitem__, __contains__ = _noticed("__getitem__"), _noticed("__contains__")
    get, keys, items = _noticed("get"), _noticed("keys"), _noticed("items")


class GymPlant(Plant):
    """A custom environment that acts on [−1, 1] and ends on time.

    Its ``reset`` gets the place of the run, ``options={"episode": n, "steps": t}``: a
    simulation of wear can go on from there when a run is resumed.
    """

    def __init__(
        self, env: Env, config: EnvironmentConfig, setter: Setter | None = None
    ) -> None:
        """Wrap an environment; ``setter`` comes before that of ``config``."""
        self._inner = env
        self._config = config
        self._setter = setter or (load_object(config.setter) if config.setter else None)
        if self._setter is None and env.has_wrapper_attr("set_parameters"):
            put = env.get_wrapper_attr("set_parameters")
            self._setter = lambda env, values: put(values)
        observed, acted = box_sizes(env)
        assert isinstance(env.action_space, spaces.Box)
        self._low = env.action_space.low.astype(np.float64)
        self._high = env.action_space.high.astype(np.float64)
        self._dtype = env.action_space.dtype
        limit = declared_steps(env)
        require(
            limit is None or config.steps < NO_END,
            f"{name_of(env)!r} truncates itself after {limit} steps, and in continuing "
            "operation it is never reset: make it without a time limit, such as "
            "gymnasium.make(…, max_episode_steps=-1).",
        )
        methods = ("get_state", "set_state")
        self._restores = all(map(env.has_wrapper_attr, methods))
        self.observation_space = spaces.Box(-np.inf, np.inf, (observed,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (acted,), np.float64)
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self.ignores_place = False
        """Whether the last ``reset`` of the environment did not look at its options."""

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set parameters of the environment; ``InputError`` if it has no way to."""
        if not values:
            return
        if self._setter is None:
            raise InputError(
                f"{name_of(self._inner)!r} has no settable parameter "
                f"{', '.join(map(repr, values))}: give it a method "
                "set_parameters(dict), or give driftrl a setter. Without either it "
                "drifts on its own (--drift.kind unknown)."
            )
        try:
            self._setter(self._inner, dict(values))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"Setting {dict(values)} of {name_of(self._inner)!r} failed: "
                f"{type(error).__name__}: {error}"
            ) from error

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode of the environment."""
        super().reset(seed=seed)
        self._left = self._config.steps
        place = None if options is None else Place(options)
        obs, info = self._inner.reset(seed=seed, options=place)
        self.ignores_place = place is not None and not place.was_read
        return np.asarray(obs, np.float64), dict(info)

    def step(self, action: np.ndarray) -> StepResult:
        """Hold an action for ``action_repeat`` steps, or until the episode ends."""
        command, total, applied = self.command(action), 0.0, []
        while True:
            obs, reward, terminated, truncated, info = self._inner.step(command)
            total += float(reward)
            applied.append(info.get(APPLIED))
            if terminated or truncated or len(applied) == self._config.action_repeat:
                break
        self._left -= 1
        late = self._left <= 0 and not terminated
        obs = np.asarray(obs, np.float64)
        known = all(value is not None for value in applied)
        mean = np.mean(applied, axis=0) if known else None
        info = {**info, "applied": None if mean is None else self.share(mean)}
        return obs, total, bool(terminated), bool(truncated) or late, info

    def get_state(self) -> dict[str, np.ndarray] | None:
        """Return what the environment's ``get_state()`` does, as arrays, if it has it.

        Its ``set_state(arrays)`` must go on from there.
        """
        if not self._restores:
            return None
        state = self._inner.get_wrapper_attr("get_state")()
        arrays = {str(name): np.asarray(value) for name, value in dict(state).items()}
        for name, array in arrays.items():
            require(
                array.dtype.kind in "biuf",
                f"get_state() of {name_of(self._inner)!r} must return numbers by name; "
                f"{name!r} is {array.dtype}.",
            )
        return arrays

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Have the environment go on from a state."""
        self._inner.get_wrapper_attr("set_state")(dict(state))

    def reseed(self, seed: int) -> None:
        """Draw the environment's noise from another seed."""
        self._inner.unwrapped.np_random = np.random.default_rng(seed)

    def command(self, action: np.ndarray) -> np.ndarray:
        """Return an action of [−1, 1] in the environment's units."""
        share = 0.5 * (np.clip(np.asarray(action, np.float64), -1.0, 1.0) + 1.0)
        return (self._low + share * (self._high - self._low)).astype(self._dtype)

    def share(self, command: np.ndarray) -> np.ndarray:
        """Return what a command in the environment's units is as an action."""
        return scaled(command, self._low, self._high)

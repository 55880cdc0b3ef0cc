"""``driftrl robot``: a machine, or its twin, on the other side of a wire."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium
import numpy as np
import tyro

from driftrl.cli.options import parse
from driftrl.config.toml import read_toml
from driftrl.errors import InputError, at_least, counted, require
from driftrl.robot.controller import Controller, run_policy
from driftrl.robot.event_log import Contact, Event, EventLog, Finished, Halted
from driftrl.robot.machine import GymnasiumMachine, Machine
from driftrl.robot.safety import Bound, Limits, sensor_ranges
from driftrl.robot.server import Robot
from driftrl.robot.timing import Delays, Timing
from driftrl.robot.transport import check_access, read_token

if TYPE_CHECKING:
    from driftrl.exported import Policy

_FROM_A_RUN = ("environment", "drift", "extra_drifts", "clock")


@dataclass(frozen=True)
class Arguments:
    """What to serve, where, how fast, and what not to let through."""

    task: Annotated[str, tyro.conf.Positional]
    """A task (`driftrl list tasks`), or your own environment: MODULE:FACTORY."""
    address: str = "tcp://127.0.0.1:5557"
    """Where to listen.  An address that other machines reach needs a token."""
    token_file: Path | None = None
    """File with the shared token (default: the variable DRIFTRL_ROBOT_TOKEN)."""
    config: Path | None = None
    """A run's config.toml: its environment and drift are the twin's."""
    steps: int | None = None
    """Actions in an episode, for an environment that does not say."""
    episodes: int | None = None
    """End after so many episodes (default: at Ctrl-C)."""
    period: float = 1 / 30
    """Seconds from one observation to the next."""
    deadline: float = 0.5
    """Share of the period within which an action must come."""
    real_time: bool = True
    """Keep to the period; without, wait for the learner and go on at once."""
    stop: tuple[float, ...] = ()
    """The action that brings the machine to rest (default: zeros)."""
    coast: float = 2.0
    """Seconds for which the stop action is repeated after an episode."""
    rate_limit: float = 2.0
    """Largest change of an action from one period to the next; 2 is no limit."""
    bounds: tuple[str, ...] = ()
    """Where entries of the observation must stay, as INDEX:LOW:HIGH."""
    frozen: int = 0
    """So many equal observations in a row mean stuck sensors; 0 is off."""
    policy: Path | None = None
    """Drive with this exported policy instead of serving a learner."""
    log: Path | None = None
    """Append every event to this file, a line of JSON each."""


def main(argv: list[str]) -> int:
    """Serve a machine until Ctrl-C, then say how it went."""
    summary = (
        "Run a task's twin, or a machine of your own, as a robot in real time, for a "
        "learner (`driftrl run … --robot ADDRESS`) to learn on."
    )
    arguments = parse(Arguments, argv, "robot", summary)
    token = read_token(arguments.token_file)
    check_access(arguments.address, token)
    if arguments.episodes is not None:
        at_least("--episodes", arguments.episodes, 1)
    if arguments.steps is not None:
        at_least("--steps", arguments.steps, 1)
    timing = Timing(
        period=arguments.period,
        deadline=arguments.deadline,
        lateness=arguments.deadline / 2,
        coast=arguments.coast,
        real_time=arguments.real_time,
    )
    machine, limits = _machine(arguments)
    log = EventLog(_print_event, arguments.log)
    # A robot that is asked to end must stop its machine first, as at Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _operate(arguments, Controller(machine, limits, timing, log), token)
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGTERM, before)
    _print_summary(log)
    return 0


def _operate(arguments: Arguments, controller: Controller, token: str) -> None:
    machine, timing = controller.machine, controller.timing
    try:
        policy = _policy(arguments.policy, machine) if arguments.policy else None
        robot = None if policy else Robot(controller, arguments.address, token)
    except BaseException:
        controller.close()
        raise
    pace = f"every {1e3 * timing.period:.4g} ms" if timing.real_time else "on demand"
    where = f"served at {robot.address}" if robot else f"driven by {arguments.policy}"
    print(
        f"{machine.name} is {where}: {machine.observation_size} observed numbers "
        f"{pace}, {machine.action_size} actions, {machine.steps} steps an episode. "
        "Ctrl-C ends it.",
        flush=True,
    )
    if robot is not None:
        robot.serve(arguments.episodes)
    elif policy is not None:
        run_policy(controller, policy, arguments.episodes)


def _machine(arguments: Arguments) -> tuple[GymnasiumMachine, Limits]:
    """Build the machine and what it allows."""
    from driftrl.envs.custom import is_custom

    if is_custom(arguments.task):
        machine, seen = _own(arguments)
    else:
        machine, seen = _twin(arguments)
    limits = Limits(
        stop=arguments.stop or (0.0,) * machine.action_size,
        observation_size=machine.observation_size,
        rate=arguments.rate_limit,
        bounds=tuple(_bound(text) for text in arguments.bounds),
        sensors=sensor_ranges(
            seen.low.astype(np.float64), seen.high.astype(np.float64)
        ),
        frozen=arguments.frozen,
    )
    return machine, limits


def _twin(arguments: Arguments) -> tuple[GymnasiumMachine, gymnasium.spaces.Box]:
    from driftrl.envs.drifting import environment_of
    from driftrl.envs.tasks import configure

    require(
        arguments.steps is None,
        "--steps is for an environment of your own; of a task --config sets it.",
    )
    settings = {} if arguments.config is None else read_toml(arguments.config)
    changes = {name: settings[name] for name in _FROM_A_RUN if name in settings}
    config = configure(arguments.task, "sombrl", changes)
    env = environment_of(config)
    # What compiles, compiles now, and not in the first period.
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape or (1,)))
    machine = GymnasiumMachine(
        env, name=config.task, steps=config.environment.steps, theta_known=True
    )
    return machine, _box(env)


def _own(arguments: Arguments) -> tuple[GymnasiumMachine, gymnasium.spaces.Box]:
    """Build the machine of one's own, once: it may be hardware."""
    from driftrl.envs.custom import GymPlant, load_env, task_of
    from driftrl.envs.drifting import DriftingEnv

    require(
        arguments.config is None,
        "--config is for tasks; an environment of your own knows its settings.",
    )
    own = load_env(arguments.task)
    task = task_of(arguments.task, own, arguments.steps)
    machine = GymnasiumMachine(
        DriftingEnv(GymPlant(own, task.environment), {}),
        name=task.name,
        steps=task.environment.steps,
        halt=getattr(own.unwrapped, "halt", None),
    )
    return machine, _box(own)


def _box(env: gymnasium.Env[Any, Any]) -> gymnasium.spaces.Box:
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    return env.observation_space


def _bound(text: str) -> Bound:
    try:
        index, low, high = text.split(":")
        return Bound(int(index), float(low), float(high))
    except ValueError:
        raise InputError(
            f"A bound is INDEX:LOW:HIGH, such as 0:-1.4:2.8; received {text!r}."
        ) from None


def _policy(path: Path, machine: Machine) -> "Policy":
    from driftrl.exported import PolicyError, load_policy

    try:
        policy = load_policy(path)
    except PolicyError as error:
        raise InputError(str(error)) from error
    found = policy.sizes[0], policy.sizes[-1]
    wanted = machine.observation_size, machine.action_size
    require(
        found == wanted,
        f"The policy in {path} maps {found[0]} observed numbers to {found[1]} actions, "
        f"and {machine.name} has {wanted[0]} and {wanted[1]}.",
    )
    return policy


def _print_event(event: Event) -> None:
    if isinstance(event, Contact):
        print(
            event.message if event.served else f"Refused: {event.message}", flush=True
        )
    if isinstance(event, Halted):
        print(
            f"episode {event.episode}: stopped after {counted(event.step, 'action')}, "
            f"{event.periods:.2f} periods after the last ({event.code}): "
            f"{event.reason}",
            flush=True,
        )
    if isinstance(event, Finished):
        print(
            f"episode {event.episode}: {counted(event.steps, 'action')} in "
            f"{event.seconds:.2f} s, return {event.total:.2f}, "
            f"{_answers(event.answers)}",
            flush=True,
        )


def _answers(delays: Delays) -> str:
    return f"answers after {delays}" if delays.count else "no answers"


def _print_summary(log: EventLog) -> None:
    counts = dict(log.counts)
    finished = counts.pop("finished", 0)
    missed = counts.get("deadline", 0) + counts.get("late", 0)
    print(
        f"Episodes that came to their end: {finished}; {_answers(log.answers)}.\n"
        f"Deadlines that were missed: {missed}."
    )
    for name, count in sorted(counts.items()):
        print(f"  {name}: {count}")

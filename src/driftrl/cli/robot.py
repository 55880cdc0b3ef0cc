"""``driftrl robot``: serve a machine, or its simulated twin, to a learner."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import gymnasium
import numpy as np
import tyro

from driftrl.cli.options import parse
from driftrl.errors import InputError, at_least, require
from driftrl.records import read_settings
from driftrl.robot.controller import Controller, run_policy
from driftrl.robot.event_log import Event, EventLog
from driftrl.robot.machine import Machine
from driftrl.robot.safety import Bound, Limits, sensor_ranges
from driftrl.robot.server import Robot
from driftrl.robot.timing import Timing, delays_of
from driftrl.robot.transport import read_token

if TYPE_CHECKING:
    from driftrl.exported import Policy


@dataclass(frozen=True, kw_only=True)
class Arguments(Timing):
    """What to serve, where, how fast, and within which limits."""

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
    stop: tuple[float, ...] = ()
    """The action that brings the machine to rest (default: zeros)."""
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
    """Serve a machine until Ctrl-C, then print how it went."""
    summary = (
        "Run a task's twin, or a machine of your own, as a robot in real time, for a "
        "learner (`driftrl run … --robot ADDRESS`) to learn on."
    )
    arguments = parse(Arguments, argv, "robot", summary)
    for name in ("episodes", "steps"):
        if (value := getattr(arguments, name)) is not None:
            at_least(f"--{name}", value, 1)
    machine, observed = _machine(arguments)
    assert isinstance(observed, gymnasium.spaces.Box)
    limits = Limits(
        stop=arguments.stop or (0.0,) * machine.action_size,
        observation_size=machine.observation_size,
        rate=arguments.rate_limit,
        bounds=tuple(map(_bound, arguments.bounds)),
        sensors=sensor_ranges(
            observed.low.astype(np.float64), observed.high.astype(np.float64)
        ),
        frozen=arguments.frozen,
    )
    log = EventLog(lambda event: print(_text(event), flush=True), arguments.log)
    # A robot that is asked to end must stop its machine first, as at Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _operate(arguments, Controller(machine, limits, arguments, log))
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGTERM, before)
    finished, missed = log.counts["finished"], log.counts["deadline"]
    print(f"Finished episodes: {finished}; answers after {delays_of(log.answers)}.")
    print(f"Missed deadlines: {missed + log.counts['late']}.")
    for name, count in sorted(log.counts.items()):
        if name != "finished" and count:
            print(f"  {name}: {count}")
    return 0


def _operate(arguments: Arguments, controller: Controller) -> None:
    machine = controller.machine
    try:
        if arguments.policy:
            policy, where = _policy(arguments.policy, machine), arguments.policy
            drive = lambda: run_policy(controller, policy, arguments.episodes)
        else:
            token = read_token(arguments.token_file)
            robot = Robot(controller, arguments.address, token)
            drive, where = lambda: robot.serve(arguments.episodes), robot.address
    except BaseException:
        controller.close()
        raise
    pace = f"every {1e3 * arguments.period:.4g} ms"
    print(
        f"{machine.name} is driven from {where}: {machine.observation_size} observed "
        f"numbers {pace if arguments.real_time else 'on demand'}, "
        f"{machine.action_size} actions, {machine.steps} steps an episode. Ctrl-C "
        "ends it.",
        flush=True,
    )
    drive()


def _machine(arguments: Arguments) -> tuple[Machine, gymnasium.Space]:
    """Return the machine, and the space of what its sensors can read."""
    from driftrl.envs.custom import GymPlant, is_custom, load_env, task_of
    from driftrl.envs.drifting import DriftingEnv, environment_of
    from driftrl.envs.tasks import configure

    name = arguments.task
    if is_custom(name):
        require(arguments.config is None, "--config is for tasks of driftrl.")
        custom = load_env(name)  # once: it may be hardware
        environment = task_of(name, custom, arguments.steps).environment
        env = DriftingEnv(GymPlant(custom, environment), {})
        halt = getattr(custom.unwrapped, "halt", None)
        machine = Machine(env, name=name, steps=environment.steps, halt=halt)
        return machine, custom.observation_space
    require(arguments.steps is None, "--steps is for an environment of your own.")
    settings = {} if arguments.config is None else read_settings(arguments.config)
    tables = ("environment", "drift", "extra_drifts", "clock")
    changes = {key: settings[key] for key in tables if key in settings}
    config = configure(name, "sombrl", changes)
    env = environment_of(config)
    # What compiles, compiles now, and not in the first period.
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape or (1,)))
    steps = config.environment.steps
    machine = Machine(env, name=config.task, steps=steps, theta_known=True)
    return machine, env.observation_space


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
    sizes = policy.sizes[0], policy.sizes[-1]
    expected = machine.observation_size, machine.action_size
    require(
        sizes == expected,
        f"The policy in {path} maps {sizes[0]} observations to {sizes[1]} actions, but "
        f"{machine.name} has {expected[0]} and {expected[1]}.",
    )
    return policy


def _text(event: Event) -> str:
    """Return a line about an event; the delays of its answers are summed up later."""
    facts = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.items()
        if name not in ("event", "answers")
    ]
    return f"{event['event']}: {', '.join(facts)}"

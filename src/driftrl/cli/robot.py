"""``driftrl robot``: serve a machine, or its simulated twin, to a learner."""

import json
import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import gymnasium
import numpy as np
import tyro

from driftrl.errors import InputError, at_least, require
from driftrl.records import read_settings
from driftrl.robot.controller import Controller, Event
from driftrl.robot.machine import Machine
from driftrl.robot.safety import Bound, Limits, sensor_ranges
from driftrl.robot.server import Robot
from driftrl.robot.timing import Timing, delays_of
from driftrl.robot.transport import read_token


def main(
    task: Annotated[str, tyro.conf.Positional],
    *,
    timing: Timing,
    address: str = "tcp://127.0.0.1:5557",
    token_file: Path | None = None,
    config: Path | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    stop: tuple[float, ...] = (),
    rate_limit: float = 2.0,
    bounds: tuple[str, ...] = (),
    log: Path | None = None,
) -> None:
    """Run a task's twin, or a machine of your own, as a robot in real time.

    A learner learns on it by `driftrl run … --robot ADDRESS`.

    Args:
        task: A task (`driftrl list tasks`), or your own environment: MODULE:FACTORY.
        timing: Its clock.
        address: Where to listen.  An address that other machines reach needs a token.
        token_file: File with the token (default: the variable DRIFTRL_ROBOT_TOKEN).
        config: A run's config.toml: its environment and drift are the twin's.
        steps: Actions in an episode, for an environment that does not say.
        episodes: End after so many episodes (default: at Ctrl-C).
        stop: The action that brings the machine to rest (default: zeros).
        rate_limit: Largest change of an action in one period; 2 is no limit.
        bounds: Where entries of the observation must stay, as INDEX:LOW:HIGH.
        log: Append every event to this file, a line of JSON each.
    """
    for name, value in (("episodes", episodes), ("steps", steps)):
        if value is not None:
            at_least(f"--{name}", value, 1)
    machine, observed = _machine(task, config, steps)
    assert isinstance(observed, gymnasium.spaces.Box)
    sensors = observed.low.astype(np.float64), observed.high.astype(np.float64)
    limits = Limits(
        stop=stop or (0.0,) * machine.action_size,
        observation_size=machine.observation_size,
        rate=rate_limit,
        bounds=tuple(map(_bound, bounds)),
        sensors=sensor_ranges(*sensors),
    )
    if log is not None:
        log.touch()
    controller = Controller(machine, limits, timing, partial(_report, log))
    # A robot that is asked to end must stop its machine first, as at Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        try:
            robot = Robot(controller, address, read_token(token_file))
        except BaseException:
            controller.close()
            raise
        period = f"every {1e3 * timing.period:.4g} ms"
        pace = period if timing.real_time else "on demand"
        print(
            f"{machine.name} is driven from {robot.address}: "
            f"{machine.observation_size} observed numbers {pace}, "
            f"{machine.action_size} actions, {machine.steps} steps an episode. Ctrl-C "
            "ends it.",
            flush=True,
        )
        robot.serve(episodes)
    except KeyboardInterrupt:
        print()
    finally:
        signal.signal(signal.SIGTERM, before)
    counts, answers = controller.counts, delays_of(controller.answers)
    print(f"Finished episodes: {counts['finished']}; answers after {answers}.")
    print(f"Missed deadlines: {counts['deadline'] + counts['late']}.")
    for name, count in sorted(counts.items()):
        if name != "finished" and count:
            print(f"  {name}: {count}")


def _machine(
    name: str, config_file: Path | None, steps: int | None
) -> tuple[Machine, gymnasium.Space]:
    """Return the machine, and the space of what its sensors can read."""
    from driftrl.envs.custom import GymPlant, is_custom, load_env, task_of
    from driftrl.envs.drifting import DriftingEnv, environment_of
    from driftrl.envs.tasks import configure

    if is_custom(name):
        require(config_file is None, "--config is for tasks of driftrl.")
        custom = load_env(name)  # once: it may be hardware
        environment = task_of(name, custom, steps).environment
        env = DriftingEnv(GymPlant(custom, environment), {})
        halt = getattr(custom.unwrapped, "halt", None)
        machine = Machine(env, name=name, steps=environment.steps, halt=halt)
        return machine, custom.observation_space
    require(steps is None, "--steps is for an environment of your own.")
    settings = {} if config_file is None else read_settings(config_file)
    tables = ("environment", "drift", "extra_drifts", "clock", "drift_every")
    changes = {key: settings[key] for key in tables if key in settings}
    config = configure(name, "sombrl", changes)
    env = environment_of(config)
    # What compiles, compiles now, and not in the first period.
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape or (1,)))
    given = {"name": name, "steps": config.environment.steps, "theta_known": True}
    return Machine(env, **given), env.observation_space


def _bound(text: str) -> Bound:
    try:
        index, low, high = text.split(":")
        return Bound(int(index), float(low), float(high))
    except ValueError:
        raise InputError(
            f"A bound is INDEX:LOW:HIGH, such as 0:-1.4:2.8; received {text!r}."
        ) from None


def _report(log: Path | None, event: Event) -> None:
    """Print an event, without the delays of its answers, and log all of it."""
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
    facts = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.items()
        if name not in ("event", "answers")
    ]
    print(f"{event['event']}: {', '.join(facts)}", flush=True)

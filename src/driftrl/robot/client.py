"""The learner's side: a robot as a Gymnasium environment."""

import time
from array import array
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from driftrl.errors import (
    EpisodeAborted,
    InputError,
    RobotUnavailable,
    counted,
    positive,
    require,
)
from driftrl.io import page
from driftrl.robot.protocol import (
    PREPARING_EVERY,
    VERSION,
    Abort,
    Action,
    Begin,
    Hello,
    Malformed,
    Message,
    Observation,
    Preparing,
    Refused,
    Stopped,
    Welcome,
    decode,
    encode,
)
from driftrl.robot.timing import Delays, delays_of
from driftrl.robot.transport import Dialer, check_access

T = TypeVar("T")
StepResult = tuple[Float[np.ndarray, " S"], float, bool, bool, dict[str, Any]]
now = time.monotonic
_KNOCK_EVERY = 0.5  # s
_FATAL = ("version", "token")
_OF_TIME = ("deadline", "late", "stale")
_TOO_BUSY = (
    "If the computers are too busy for this pace, start the robot with a longer "
    "--period or a larger --deadline, give both sides priority (chrt -f 10), or let "
    f"the robot wait for its learner (--no-real-time): {page('robot_protocol.md')}."
)


class _Silent(Exception):
    """The robot does not answer, or serves another learner; connect again."""


class RemoteEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A robot at an address, that acts on [−1, 1].

    ``step`` and ``reset`` raise ``EpisodeAborted`` when the robot stopped the episode,
    or fell silent: forget the episode and ``reset`` again with the same number, which
    also connects again.  A robot that stays away raises ``RobotUnavailable``.

    The robot does not wait.  From ``reset`` on every action is due within
    ``robot.deadline`` seconds: have everything compiled before, and see
    ``driftrl.robot.timing.undisturbed``.
    """

    def __init__(
        self,
        address: str,
        token: str = "",
        *,
        away: float = 60.0,
        silence: float = 2.0,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Connect to a robot.

        Args:
            address: ZeroMQ's, such as tcp://127.0.0.1:5557.
            token: The robot's token; required if it is on another machine.
            away: Seconds to wait for a robot that is not there, or taken.
            silence: Seconds without a word after which an episode is given up.
            warn: Called once with each reason for waiting.
        """
        check_access(address, token)
        positive("away", away)
        positive("silence", silence)
        self._address, self._token = address, token
        self._away, self._silence, self._warn = away, silence, warn
        self._dialer: Dialer | None = None
        self._settled = False
        self._episode = self._step = 0
        self._before = (0, 0)  # episodes and steps that count so far
        self._running = False
        self._returned = 0.0
        self._thinking = array("d")
        self.theta: float | None = None
        """θ of the running episode, if the robot is a simulator that knows it."""
        self.aborted = 0
        """Episodes that were aborted so far."""
        self.robot = self._patiently(self._connect)
        """The robot's own description."""
        size, actions = self.robot.observation_size, self.robot.action_size
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (actions,), np.float64)

    @property
    def thinking(self) -> Delays:
        """From a returned observation to the call of ``step``: the learner's share."""
        return delays_of(self._thinking)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, " S"], dict[str, Any]]:
        """Begin the next episode, or the one that ``options`` name.

        As with ``DriftingEnv``, ``options={"episode": n, "steps": t}`` sets either
        clock.  A running episode is aborted, and an aborted one does not count: the
        next one has its number.
        """
        super().reset(seed=seed)
        options = options or {}
        self.abort()
        episodes, steps = self._before
        self._episode = int(options.get("episode", episodes + 1))
        steps = int(options.get("steps", steps))
        self._before = (self._episode - 1, steps)
        begin = Begin(self._episode, steps, seed)
        start = self._patiently(lambda: self._begin(begin))
        self._running, self._step = True, 0
        self.theta = start.theta
        self._returned = now()
        return np.array(start.obs), self._info(start)

    def step(self, action: Float[np.ndarray, " A"]) -> StepResult:
        """Send an action and wait for its outcome."""
        require(self._running, "step() needs a running episode: reset().")
        require(
            np.shape(action) == self.action_space.shape,
            f"An action has shape {self.action_space.shape}, received "
            f"{np.shape(action)}.",
        )
        called = now()
        values = tuple(np.asarray(action, np.float64).tolist())
        try:
            self._send(Action(self._episode, self._step, values))
        except Malformed:  # such as an action that is not a number
            self.abort()
            raise
        self._thinking.append(called - self._returned)
        self._step += 1
        observation = self._await_step()
        if observation.terminated or observation.truncated:
            self._running = False
            self._before = (self._episode, self._before[1] + self._step)
        self.theta = observation.theta
        self._returned = now()
        return (
            np.array(observation.obs),
            observation.reward,
            observation.terminated,
            observation.truncated,
            self._info(observation),
        )

    def abort(self) -> None:
        """Stop the running episode, if there is one."""
        if self._running and self._dialer is not None:
            self._send(Abort(self._episode))
        self._running = False

    def close(self) -> None:
        """Stop the running episode and disconnect."""
        self.abort()
        self._disconnect()

    def _info(self, observation: Observation) -> dict[str, Any]:
        info: dict[str, Any] = {"applied": np.array(observation.applied)}
        if observation.theta is not None:
            info["theta"] = observation.theta
        return info

    # ---- waiting --------------------------------------------------------------------

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """Try until it works, connecting anew each time, or patience ends."""
        until = now() + self._away
        reason = ""
        while True:
            try:
                return attempt()
            except _Silent as silent:
                self._disconnect()
                if now() >= until:
                    raise RobotUnavailable(
                        f"The robot at {self._address} did not respond within "
                        f"{self._away:g} s: {silent} Free or start it, then "
                        "try again."
                    ) from None
                if reason != str(silent):
                    reason = str(silent)
                    self._warn(f"Waiting for the robot at {self._address}: {reason}")
                time.sleep(min(_KNOCK_EVERY, max(0.0, until - now())))

    def _connect(self) -> Welcome:
        """Say hello on a new connection; return the welcome."""
        self._disconnect()
        self._dialer = Dialer(self._address)
        self._send(Hello(VERSION, self._token))
        until = now() + self._silence
        while True:
            message = self._receive(until)
            if isinstance(message, Welcome):
                self._settled = True
                return message
            if isinstance(message, Refused):
                if message.code in _FATAL:
                    self._disconnect()
                    raise InputError(
                        f"The robot at {self._address} refuses: {message.reason}"
                    )
                raise _Silent(message.reason)  # such as that it has a learner

    def _begin(self, begin: Begin) -> Observation:
        """Ask for an episode and wait for its start, for as long as that takes."""
        if not self._settled:
            robot = self._connect()
            if robot != self.robot:
                self._disconnect()
                raise InputError(
                    f"Another robot answers at {self._address} than before: {robot}, "
                    f"where {self.robot} was."
                )
        # Until the start is here, what arrives may belong to an attempt before.
        self._settled = False
        self._send(begin)
        preparing = False
        while True:
            message = self._receive(now() + self._silence + 2 * PREPARING_EVERY)
            if isinstance(message, Refused):
                raise _Silent("It was restarted.")
            if isinstance(message, Preparing) and message.episode == begin.episode:
                preparing = True
            elif preparing and isinstance(message, Stopped):
                self._settled = True
                raise self._stopped(message)
            elif preparing and isinstance(message, Observation):
                self._settled = True
                return message

    def _await_step(self) -> Observation:
        until = now() + self._silence + self.robot.period
        try:
            while True:
                message = self._receive(until)
                if isinstance(message, Stopped):
                    raise self._stopped(message)
                if isinstance(message, Refused):
                    raise self._aborted(self._step, message.reason)
                if isinstance(message, Observation) and message.step == self._step:
                    return message
        except _Silent as silent:
            self._disconnect()
            raise self._aborted(self._step, str(silent)) from None

    def _stopped(self, message: Stopped) -> EpisodeAborted:
        """Return what to raise; where time ran out, its note says what may help."""
        aborted = self._aborted(message.step, message.reason)
        if message.code in _OF_TIME and self.robot.real_time:
            aborted.add_note(_TOO_BUSY)
        aborted.out_of_bounds = message.code == "bounds"
        if message.obs and message.step == self._step > 0:
            aborted.end = (np.array(message.obs), message.reward)
        return aborted

    def _aborted(self, actions: int, reason: str) -> EpisodeAborted:
        self._running = False
        self.aborted += 1
        return EpisodeAborted(f"stopped after {counted(actions, 'action')}: {reason}")

    # ---- messages ------------------------------------------------------------------

    def _receive(self, until: float) -> Message:
        assert self._dialer is not None
        asked = now()
        frame = self._dialer.receive(until)
        if frame is None:
            raise _Silent(f"No message arrived for {now() - asked:.1f} s.")
        try:
            return decode(frame)
        except Malformed as malformed:
            raise _Silent(f"It sent an invalid message: {malformed}") from malformed

    def _send(self, message: Message) -> None:
        assert self._dialer is not None
        self._dialer.send(encode(message))

    def _disconnect(self) -> None:
        self._settled = False
        if self._dialer is not None:
            self._dialer.close()
            self._dialer = None

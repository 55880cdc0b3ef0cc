"""The robot's server: it keeps the clock, and serves one learner at a time.

States: idle → preparing → running → idle, and from preparing or running to safe on any
fault; only a new ``begin`` leaves safe.  See ``docs/robot_protocol.md``.
"""

import hmac
import math
import threading

import numpy as np

from driftrl.robot.controller import Controller, now
from driftrl.robot.machine import Sample
from driftrl.robot.protocol import (
    MAX_TEXT,
    PREPARING_EVERY,
    VERSION,
    Abort,
    Action,
    Alive,
    Begin,
    Hello,
    Malformed,
    Message,
    Observation,
    Preparing,
    Refusal,
    Refused,
    Stopped,
    Welcome,
    decode,
    encode,
)
from driftrl.robot.safety import Interrupted
from driftrl.robot.transport import Listener, check_access

_IDLE_WAIT = 0.05  # s, between looks at whether to end
_PROBE_EVERY = 1.0  # s, between two questions whether the learner is connected
_LOG_REFUSAL_EVERY = 60.0  # s


class _Superseded(Interrupted):
    """The learner began another episode while one was under way."""

    def __init__(self, begin: Begin) -> None:
        super().__init__("aborted", "The learner began another episode.")
        self.begin = begin


class Robot:
    """A driven machine, served at an address."""

    def __init__(self, controller: Controller, address: str, token: str = "") -> None:
        """Listen at an address; ``serve`` then answers.

        The address is ZeroMQ's: tcp://127.0.0.1:5557, or port * for any free one.
        Where others can reach it, learners must know a token.
        """
        check_access(address, token)
        self._controller = controller
        self._token = token
        self._learner: bytes | None = None
        self._refusals: dict[Refusal, float] = {}
        self._probed = -math.inf
        self._running = False
        self._informed = 0.0
        self._ending = threading.Event()
        self._listener = Listener(address)
        self.address = self._listener.address
        """Where it listens, with the port that was found."""

    def serve(self, episodes: int | None = None) -> None:
        """Serve until ``end``, or until so many episodes have come to their end."""
        try:
            begin = self._await_begin()
            while begin is not None:
                begin = self._run_episode(begin)
                finished = self._controller.counts["finished"]
                if episodes is not None and finished >= episodes:
                    return
                begin = begin or self._await_begin()
        finally:
            self._listener.close()
            self._controller.close()

    def end(self) -> None:
        """Have ``serve`` return; may be called from another thread."""
        self._ending.set()

    def _await_begin(self) -> Begin | None:
        """Wait in idle or safe; return None to end."""
        while not self._ending.is_set():
            message = self._listen(now() + _IDLE_WAIT)
            if isinstance(message, Begin):
                return message
            if isinstance(message, Action):
                self._controller.counts["late actions"] += 1
        return None

    def _run_episode(self, begin: Begin) -> Begin | None:
        """Run an episode; return the next one if the learner began it early."""
        self._send(Preparing(begin.episode))
        self._informed = now()
        self._running = True
        try:
            self._controller.run(begin, self)
        except Interrupted as interrupted:
            self._report_stop(interrupted)
            if isinstance(interrupted, _Superseded):
                return interrupted.begin
        except BaseException:
            self._report_stop(Interrupted("shutdown", "The robot's program ends."))
            raise
        finally:
            self._running = False
        return None

    def _report_stop(self, why: Interrupted) -> None:
        episode, step = self._controller.episode, self._controller.step
        seen, end = self._controller.seen, {}
        if why.code == "bounds" and seen is not None:
            end = {"obs": tuple(seen.obs.tolist()), "reward": seen.reward}
        self._send(Stopped(episode, step, why.code, why.reason[:MAX_TEXT], **end))

    # ---- the learner, as the controller meets it ------------------------------------

    def prepare(self) -> None:
        """Listen, and keep the learner informed while the machine goes to its start."""
        self.idle(-1, now() + 0.001)
        if now() - self._informed >= PREPARING_EVERY:
            self._send_required(Preparing(self._controller.episode))
            self._informed = now()

    def show(self, step: int, sample: Sample) -> None:
        """Send the learner an observation."""
        self._send_required(
            Observation(
                episode=self._controller.episode,
                step=step,
                obs=tuple(sample.obs.tolist()),
                reward=sample.reward,
                terminated=sample.terminated,
                truncated=sample.truncated,
                theta=sample.theta,
                applied=self._controller.applied,
            )
        )

    def act(self, step: int, deadline: float) -> np.ndarray | None:
        """Wait for the action of a step, until its deadline."""
        while (message := self._listen(deadline)) is not None:
            values = self._sort(message, expected=step)
            if values is not None:
                return values
        return None

    def idle(self, step: int, until: float) -> None:
        """Listen while no answer is due."""
        while (message := self._listen(until)) is not None:
            if self._sort(message, expected=step) is not None:
                raise Interrupted(
                    "malformed", f"An action {step} before its observation."
                )

    def _sort(self, message: Message, *, expected: int) -> np.ndarray | None:
        """Return the action of the expected step; skip those that came too late.

        Anything else that the learner may send, or must not, interrupts the episode.
        """
        episode = self._controller.episode
        if isinstance(message, Begin):
            raise _Superseded(message)
        if isinstance(message, Abort):
            if message.episode == episode:
                raise Interrupted("aborted", "The learner aborted the episode.")
            return None
        if not isinstance(message, Action):
            kind = type(message).__name__.lower()
            raise Interrupted("malformed", f"A learner must not send {kind!r}.")
        at = (message.episode, message.step)
        if at == (episode, expected):
            return np.array(message.values, np.float64)
        if at < (episode, max(expected, 0)):
            self._controller.counts["late actions"] += 1
            return None
        where = f"episode {message.episode}, step {message.step}"
        raise Interrupted("malformed", f"An action for {where}, which has not come.")

    # ---- messages ------------------------------------------------------------------

    def _listen(self, until: float) -> Message | None:
        """Return the learner's next message; None if none came in time."""
        while True:
            if self._running and self._ending.is_set():
                raise Interrupted("shutdown", "The robot's program ends.")
            received = self._listener.receive(min(until, now() + _IDLE_WAIT))
            if received is not None:
                message = self._admit(*received)
                if message is not None:
                    return message
            elif now() >= until:
                return None

    def _admit(self, peer: bytes, frame: bytes) -> Message | None:
        """Return the learner's message; answer everybody else."""
        try:
            message = decode(frame)
        except Malformed as malformed:
            self._controller.counts["malformed frames"] += 1
            if peer == self._learner and self._running:
                raise Interrupted("malformed", str(malformed)) from malformed
            return None
        if isinstance(message, Hello):
            self._greet(peer, message)
            return None
        if peer != self._learner:
            self._refuse(peer, "stranger", "Send hello first.")
            return None
        return message

    def _greet(self, peer: bytes, hello: Hello) -> None:
        if hello.version != VERSION:
            self._refuse(
                peer,
                "version",
                f"This robot speaks version {VERSION} of the protocol, the learner "
                f"{hello.version}; install the same driftrl on both sides.",
            )
        # In a time that does not depend on where they differ.
        elif not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            self._refuse(
                peer,
                "token",
                "The token does not match the robot's; use the same one on both sides.",
            )
        elif peer != self._learner and self._is_taken():
            self._refuse(peer, "taken", "This robot already has a learner.")
        else:
            if peer != self._learner:
                self._learner = peer
                self._controller.record("connected", message="A learner has connected.")
            self._listener.send(peer, encode(self._welcome()))

    def _is_taken(self) -> bool:
        """Return whether a learner is connected, be it as busy as it may.

        A learner that learns for minutes does not read, and its queue may fill up with
        probes: that is no reason to take the robot from it.
        """
        if self._learner is None or self._running:
            return self._running
        if now() - self._probed < _PROBE_EVERY:
            return True
        self._probed = now()
        return self._listener.send(self._learner, encode(Alive()), lossy=True)

    def _welcome(self) -> Welcome:
        machine, timing = self._controller.machine, self._controller.timing
        return Welcome(
            version=VERSION,
            name=machine.name[:MAX_TEXT],
            observation_size=machine.observation_size,
            action_size=machine.action_size,
            period=timing.period,
            deadline=timing.answer_seconds,
            steps=machine.steps,
            theta_known=machine.theta_known,
            real_time=timing.real_time,
        )

    def _refuse(self, peer: bytes, code: Refusal, reason: str) -> None:
        self._controller.counts["refused"] += 1
        # Logged once a minute for each code, however often and by whomever it is tried.
        if now() - self._refusals.get(code, -math.inf) > _LOG_REFUSAL_EVERY:
            self._refusals[code] = now()
            self._controller.record("refused", message=reason)
        self._listener.send(peer, encode(Refused(VERSION, code, reason)))

    def _send_required(self, message: Message) -> None:
        """Send what the episode cannot go on without."""
        try:
            reached = self._send(message)
        except Malformed as malformed:  # a number of the machine that is not finite
            raise Interrupted("observation", str(malformed)) from malformed
        if not reached:
            raise Interrupted("gone", "The learner can no longer be reached.")

    def _send(self, message: Message) -> bool:
        return self._learner is not None and self._listener.send(
            self._learner, encode(message)
        )

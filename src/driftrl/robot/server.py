"""The robot as a server: it owns real time, and serves one learner at a time.

States: idle → preparing → running → idle, and from preparing or running to safe on any
fault; only a new ``begin`` leaves safe.  See ``docs/robot_protocol.md``.
"""

import threading

import numpy as np

from driftrl.robot.access import check_access, same_token
from driftrl.robot.drive import Drive, now
from driftrl.robot.journal import Visited
from driftrl.robot.machine import Place, Sample
from driftrl.robot.protocol import (
    MOST_LETTERS,
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
from driftrl.robot.safety import Interrupted, fault
from driftrl.robot.timing import undisturbed
from driftrl.robot.wire import Listener

_IDLE_WAIT = 0.05  # s, between looks at whether to end


class _Superseded(Exception):
    """The learner began another episode while one was under way."""

    def __init__(self, begin: Begin) -> None:
        super().__init__()
        self.begin = begin


class Robot:
    """A driven machine, served at an address."""

    def __init__(self, drive: Drive, address: str, token: str = "") -> None:
        """Listen at an address; ``serve`` then answers.

        Args:
            drive: The machine.
            address: ZeroMQ's: tcp://127.0.0.1:5557, or port * for any free one.
            token: What learners must know; required where others can reach the address.
        """
        check_access(address, token)
        self._drive = drive
        self._journal = drive.journal
        self._token = token
        self._learner: bytes | None = None
        self._refused_for = ""
        self._running = False
        self._ending = threading.Event()
        self._listener = Listener(address)
        self.address = self._listener.address
        """Where it listens, with the port that was found."""

    def serve(self, episodes: int | None = None) -> None:
        """Serve until ``end``, or until so many episodes have come to their end."""
        try:
            begin = self._await_begin()
            while begin is not None:
                begin = self._live_through(begin)
                finished = self._journal.counts["finished"]
                if episodes is not None and finished >= episodes:
                    return
                begin = begin or self._await_begin()
        finally:
            self._listener.close()
            self._drive.close()

    def end(self) -> None:
        """Have ``serve`` return; may be called from another thread."""
        self._ending.set()

    def _await_begin(self) -> Begin | None:
        """Wait in idle or safe; return None to end."""
        while not self._ending.is_set():
            until = min(self._drive.coast(), now() + _IDLE_WAIT)
            message = self._listen(until)
            if isinstance(message, Begin):
                return message
            if isinstance(message, Action):
                self._journal.counts["late actions"] += 1
        return None

    def _live_through(self, begin: Begin) -> Begin | None:
        """Live through an episode; return the next one if that one cut it short."""
        place = Place(begin.episode, begin.decisions, begin.seed)
        self._send(Preparing(begin.episode))
        with undisturbed():
            self._running = True
            try:
                self._drive.begin(place)
                self._run(self._prepare())
                self._drive.finish()
            except Interrupted as interrupted:
                self._interrupt(interrupted)
            except _Superseded as superseded:
                self._interrupt(fault("aborted", "The learner began again."))
                return superseded.begin
            except BaseException:
                # Ctrl-C, or a mistake of ours: whatever it is, stop first.
                self._interrupt(fault("shutdown", "The robot's program ends."))
                raise
            finally:
                self._running = False
        return None

    def _interrupt(self, interrupted: Interrupted) -> None:
        """Stop the machine, then tell the learner."""
        why = interrupted.fault
        self._running = False
        self._drive.stop(why)
        reason = why.reason[:MOST_LETTERS]
        self._send(
            Stopped(self._drive.place.episode, self._drive.step, why.code, reason)
        )

    def _prepare(self) -> Sample:
        """Wait for the machine to get to its start; keep the learner informed."""
        told = now()
        while (sample := self._drive.ready(now() + 0.01)) is None:
            self._hear_until(now() + 0.001, expected=-1)
            if now() - told >= PREPARING_EVERY:
                self._tell(Preparing(self._drive.place.episode))
                told = now()
        return sample

    def _run(self, sample: Sample) -> None:
        """Run the episode on the robot's clock, from its start to its end."""
        drive = self._drive
        step = 0
        while True:
            self._tell(self._observation(step, sample))
            if sample.terminated or sample.truncated:
                return
            drive.apply(self._answer(step))
            step += 1
            self._hear_until(drive.moment(step), expected=step)
            sample = drive.take()

    def _observation(self, step: int, sample: Sample) -> Observation:
        return Observation(
            episode=self._drive.place.episode,
            step=step,
            obs=tuple(sample.obs.tolist()),
            reward=sample.reward,
            terminated=sample.terminated,
            truncated=sample.truncated,
            theta=sample.theta,
            applied=self._drive.applied,
        )

    def _answer(self, step: int) -> np.ndarray:
        """Wait for the action of a step, until its deadline."""
        asked, deadline = now(), self._drive.deadline(step)
        while (message := self._listen(deadline)) is not None:
            values = self._sort(message, expected=step)
            if values is not None:
                self._journal.answered(now() - asked)
                return values
        raise fault("deadline", f"No action came {self._drive.missed(step, asked)}.")

    def _hear_until(self, moment: float, *, expected: int) -> None:
        """Listen while no answer is due."""
        while (message := self._listen(moment)) is not None:
            if self._sort(message, expected=expected) is not None:
                raise fault(
                    "malformed", f"An action {expected} before its observation."
                )

    def _sort(self, message: Message, *, expected: int) -> np.ndarray | None:
        """Return the action of the expected step; pass over those that came too late.

        Raises:
            Interrupted: The learner aborts, or says what it may not say.
            _Superseded: It begins an episode.
        """
        place = self._drive.place
        if isinstance(message, Begin):
            raise _Superseded(message)
        if isinstance(message, Abort):
            if message.episode == place.episode:
                raise fault("aborted", "The learner asked for it.")
            return None
        if not isinstance(message, Action):
            kind = type(message).__name__.lower()
            raise fault("malformed", f"A learner may not send {kind!r}.")
        at = (message.episode, message.step)
        if at != (place.episode, expected):
            if at < (place.episode, max(expected, 0)):
                self._journal.counts["late actions"] += 1
                return None
            raise fault(
                "malformed",
                f"An action for episode {at[0]}, step {at[1]}, which has not come.",
            )
        wanted = self._drive.machine.action_size
        if len(message.values) != wanted:
            found = len(message.values)
            raise fault("malformed", f"An action of {found} numbers, not {wanted}.")
        return np.array(message.values, np.float64)

    # ---- the wire -------------------------------------------------------------------

    def _listen(self, until: float) -> Message | None:
        """Return what the learner says next, and None in time; see to all others."""
        while True:
            if self._running and self._ending.is_set():
                raise fault("shutdown", "The robot's program ends.")
            received = self._listener.receive(min(until, now() + _IDLE_WAIT))
            if received is not None:
                message = self._admit(*received)
                if message is not None:
                    return message
            elif now() >= until:
                return None

    def _admit(self, peer: bytes, frame: bytes) -> Message | None:
        """Return what the learner said; answer those who are no learner."""
        try:
            message = decode(frame)
        except Malformed as malformed:
            self._journal.counts["malformed frames"] += 1
            if peer == self._learner and self._running:
                raise fault("malformed", str(malformed)) from malformed
            return None
        if isinstance(message, Hello):
            self._greet(peer, message)
            return None
        if peer != self._learner:
            self._refuse(peer, "stranger", "Say hello first.")
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
        elif not same_token(hello.token, self._token):
            self._refuse(
                peer,
                "token",
                "The token is not the robot's; put the same one on both sides.",
            )
        elif peer != self._learner and self._is_taken():
            self._refuse(peer, "taken", "This robot has a learner, and takes only one.")
        else:
            if peer != self._learner:
                self._learner = peer
                self._journal.note(Visited(True, "A learner has come."))
            self._listener.send(peer, encode(self._welcome()))

    def _is_taken(self) -> bool:
        return self._learner is not None and (
            self._running or self._listener.send(self._learner, encode(Alive()))
        )

    def _welcome(self) -> Welcome:
        machine, timing = self._drive.machine, self._drive.timing
        share = timing.deadline * timing.period
        return Welcome(
            version=VERSION,
            name=machine.name[:MOST_LETTERS],
            observation_size=machine.observation_size,
            action_size=machine.action_size,
            period=timing.period,
            deadline=share if timing.real_time else timing.patience,
            steps=machine.steps,
            theta_known=machine.theta_known,
            real_time=timing.real_time,
        )

    def _refuse(self, peer: bytes, code: Refusal, reason: str) -> None:
        self._journal.counts["refused"] += 1
        if reason != self._refused_for:  # who tries again and again is told of once
            self._journal.note(Visited(False, reason))
            self._refused_for = reason
        self._listener.send(peer, encode(Refused(VERSION, code, reason)))

    def _tell(self, message: Message) -> None:
        """Tell the learner what an episode can't go on without."""
        try:
            reached = self._send(message)
        except Malformed as malformed:  # a number of the machine that is not finite
            raise fault("observation", str(malformed)) from malformed
        if not reached:
            raise fault("gone", "The learner can no longer be reached.")

    def _send(self, message: Message) -> bool:
        return self._learner is not None and self._listener.send(
            self._learner, encode(message)
        )

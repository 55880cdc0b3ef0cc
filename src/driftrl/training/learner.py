"""An agent with its memory and forgetting rule, episode by episode.

It writes nothing: a ``Session``, which is used alike, is a learner with files.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float

from driftrl.agents import base
from driftrl.errors import (
    EnvironmentFault,
    InputError,
    at_least,
    counted,
    require,
    shown,
)
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import Decision, EpisodeSummary, ForgettingRule, decide
from driftrl.training.streams import Purpose, key_for
from driftrl.types import Data, Episode, EpisodeRecord, Transition

Observation = Float[np.ndarray, " S"]
_ROUNDING = 1e-3  # of applied actions, such as those of a log with three digits
Theta = float | Sequence[float] | np.ndarray
"""θ of an episode, or of every step of it."""
Learned = tuple[base.State, Decision, base.Policy]
"""A state, which episodes it was learned from, and its policy."""


_VARIED = 0.05  # noise of an attempt that is to differ, times its number


@dataclass
class _Running:
    """The running episode."""

    policy: base.Policy
    carry: base.Carry
    transitions: list[Transition]
    state: base.State
    """The agent's; it changes if the agent learns within episodes."""
    online: base.OnlineState | None
    """None for an agent that learns between episodes."""
    last: tuple[Observation, np.ndarray] | None = None
    """Observation and action of the step that ``observe`` will complete."""


class Learner:
    """An agent, its memory and its forgetting rule."""

    def __init__(
        self,
        agent: base.Agent,
        forgetting: ForgettingRule,
        memory: EpisodeMemory,
        *,
        steps: int,
        seed: int,
        state: base.State,
        decision: Decision | None = None,
    ) -> None:
        """Start with the agent's state after the last episode of a memory.

        ``steps`` are the decisions in an episode that runs its full time, and
        ``decision`` says which episodes the state was learned from.
        """
        self._agent = agent
        self._seed = seed
        self._steps = steps
        self._running: _Running | None = None
        self._unlearned: tuple[Episode, float] | None = None  # with its θ
        self._record: EpisodeRecord | None = None  # of that, once it is in the memory
        self._lag = 0  # newest episodes that π_n could not learn from
        self._carry: base.Carry | None = (
            None  # what the policy goes on from, if it does
        )
        self._began = time.perf_counter()
        self._varied = 0  # attempts at episode n that are to differ
        self.memory = memory
        self.state = state
        """The agent's, after the newest episode."""
        self.policy: base.Policy = agent.policy(state)
        """π_n, the policy of the running episode, or of the next one."""
        self.forgetting = forgetting
        """The rule that chooses m(n + 1), at the next ``learn``."""
        self.decision = decision or Decision(1)
        """Which episodes π_n was learned from, and why."""

    @property
    def first_retained(self) -> int:
        """m(n): the oldest episode that π_n was learned from."""
        return self.decision.first

    @property
    def number(self) -> int:
        """Number n of the running episode, or of the next one."""
        return len(self.memory) + 1

    @property
    def steps_taken(self) -> int | None:
        """Steps of the running episode so far; None if none is running."""
        return None if self._running is None else len(self._running.transitions)

    @property
    def unlearned(self) -> Episode | None:
        """Episode n, if it has ended and has not been learned from."""
        return None if self._unlearned is None else self._unlearned[0]

    def begin_episode(self) -> int:
        """Begin episode n and return n."""
        self._require_learned()
        require(
            self._running is None,
            f"Episode {self.number} is running: end_episode() stores it, "
            "abort_episode() discards it, and then the next one may begin.",
        )
        self._began = time.perf_counter()
        self._running = _Running(
            policy=self.policy,
            carry=self.policy.begin() if self._carry is None else self._carry,
            transitions=[],
            state=self.state,
            online=self._agent.begin_online(self._retained),
        )
        return self.number

    def act(self, obs: Observation) -> Float[np.ndarray, " A"]:
        """Return the action in [−1, 1] for what was observed."""
        running = self._require_running("act")
        obs = self._checked(obs)
        step = len(running.transitions)
        last = running.transitions[-1] if step else None
        require(
            last is None or not (last.terminated or last.truncated),
            f"Episode {self.number} was terminated or truncated: end_episode() comes "
            "next.",
        )
        require(
            step < self._steps,
            f"Episode {self.number} has had all its {self._steps} steps "
            "(environment.sim_steps): end_episode() comes next.",
        )
        key = key_for(self._seed, Purpose.ACTING, self.number, step)
        action, running.carry = running.policy.act(obs, running.carry, key=key)
        if self._varied:
            place = (self._seed, Purpose.ACTING, self.number, step, self._varied)
            noise = np.random.default_rng(place).standard_normal(len(action))
            action = np.clip(action + _VARIED * self._varied * noise, -1.0, 1.0)
        running.last = (obs, action)
        return action

    def observe(
        self,
        obs: Observation,
        reward: float,
        terminated: bool = False,
        truncated: bool = False,
        *,
        action: np.ndarray | None = None,
    ) -> None:
        """Record what followed the last action.

        Args:
            obs: The new observation.
            reward: The reward of the step.
            terminated: Whether the task has ended: it failed, or is done.
            truncated: Whether only the time is up.
            action: The action in [−1, 1] that was really applied, if it is another one
                than that of ``act``: overridden, saturated or rate-limited.
        """
        running = self._require_running("observe")
        if running.last is None:
            raise InputError("observe() was called without act() before it.")
        before, applied = running.last
        if action is not None:
            applied = self._checked_actions(np.array(action, np.float64))
        obs = self._checked(obs)
        if not np.isfinite(reward):
            raise EnvironmentFault(f"The environment returned the reward {reward!r}.")
        step = Transition(before, applied, float(reward), obs, terminated, truncated)
        running.transitions.append(step)
        running.last = None
        if running.online is None:
            return
        count = len(running.transitions)
        key = key_for(self._seed, Purpose.LEARNING, self.number, count)
        running.state, running.online = self._agent.observe(
            running.state, running.online, step, key=key
        )
        running.policy = self._agent.policy(running.state)

    def abort_episode(self, *, vary: bool = False) -> None:
        """Discard the running episode, if there is one; it leaves no trace.

        Args:
            vary: Whether the next attempt at it is to differ, since the same actions
                would end as badly: noise is added to them, more at every attempt.
        """
        require(
            self._unlearned is None,
            f"Episode {self.number} has ended and is stored, so it can't be discarded "
            "any more: abort_episode() comes before end_episode().",
        )
        self._running, self._varied = None, self._varied + vary

    def end_episode(self, *, theta: Theta = math.nan) -> Episode:
        """End episode n and return it; ``learn`` comes next.

        Args:
            theta: The drifting parameter, for the record, if it is known: one value,
                or that of every step.
        """
        running = self._require_running("end_episode")
        rows = running.transitions
        require(
            len(rows) > 0,
            f"Episode {self.number} has no transition yet; act and observe first.",
        )
        episode = Episode(
            obs=np.stack([row.obs for row in rows]),
            actions=np.stack([row.action for row in rows]),
            rewards=np.array([row.reward for row in rows]),
            next_obs=np.stack([row.next_obs for row in rows]),
            terminated=rows[-1].terminated,
            thetas=np.array(theta, np.float64) if np.ndim(theta) else None,
        )
        require(
            episode.thetas is None or episode.thetas.shape == (len(rows),),
            f"theta must be one number or one for each of the {len(rows)} steps; "
            f"received shape {np.shape(theta)}.",
        )
        self._running, self.state, self._varied = None, running.state, 0
        self._unlearned = (episode, float(np.mean(theta)))
        return episode

    def add_episode(
        self,
        obs: Float[np.ndarray, "T1 S"],
        actions: Float[np.ndarray, "T A"],
        rewards: Float[np.ndarray, " T"],
        *,
        terminated: bool = False,
        theta: float = math.nan,
    ) -> Episode:
        """Take in a whole episode that something else drove; ``learn`` comes next.

        Args:
            obs: T + 1 observations: before every action, and after the last.
            actions: The T actions that were applied, in [−1, 1].
            rewards: What each of them earned.
            terminated: Whether the task ended with the last observation.
            theta: The drifting parameter, for the record, if it is known.
        """
        self._require_learned()
        require(
            self._running is None,
            f"Episode {self.number} is running: end_episode() or abort_episode() comes "
            "before add_episode().",
        )
        self._began = time.perf_counter()
        rows, actions, rewards = (
            np.array(values, np.float64) for values in (obs, actions, rewards)
        )
        states, inputs = self.memory.sizes
        steps = len(rewards) if rewards.ndim == 1 else 0
        require(
            steps >= 1
            and rows.shape == (steps + 1, states)
            and actions.shape == (steps, inputs),
            f"An episode of T rewards has T + 1 rows of {states} observations and T "
            f"rows of {counted(inputs, 'action')}; received shapes {rewards.shape}, "
            f"{rows.shape} and {actions.shape}.",
        )
        require(
            steps <= self._steps,
            f"An episode of this run has at most {self._steps} steps "
            f"(environment.sim_steps), received {steps}: cut it.",
        )
        require(
            bool(np.isfinite(rows).all() and np.isfinite(rewards).all()),
            "The episode has an observation or a reward that is not finite.",
        )
        actions = self._checked_actions(actions)
        episode = Episode(rows[:-1], actions, rewards, rows[1:], bool(terminated))
        self._repeat_online(episode)
        self._unlearned = (episode, theta)
        self._added(episode)
        return episode

    def learn(
        self,
        *,
        updates: int | None = None,
        seconds: float | None = None,
        return_eval: float | None = None,
    ) -> EpisodeRecord:
        """Append episode n to the memory, forget, and learn π_{n+1}; return row n.

        Args:
            updates: Updates of the model, each with those of the policy that go with it
                (default: as many as the episode's transitions call for).
            seconds: Time to learn for, instead.  How much is learned then depends on
                the computer, so such a run can't be repeated bit for bit.
            return_eval: Return of π_n where it was evaluated, for the record.
        """
        episode, theta = self._require_ended()
        require(
            updates is None or seconds is None,
            "learn() takes updates or seconds, not both.",
        )
        at_least("updates", updates or 0, 0)
        at_least("seconds", seconds or 0.0, 0)
        if self._record is None:  # else the last call was interrupted after this
            self._record = self._row(episode, theta, return_eval)
            self.memory.append(episode, EpisodeSummary.of(self._record))
        learned = self._learned(self.state, len(episode), updates, seconds)
        self.state, self.decision, self.policy = learned
        record = replace(self._record, wall_s=time.perf_counter() - self._began)
        self._unlearned = self._record = None
        self._learned_from(record, episode)
        return record

    def _added(self, episode: Episode) -> None:
        """Do what follows an episode that something else drove: nothing here."""

    def _learned_from(self, record: EpisodeRecord, episode: Episode) -> None:
        """Do what follows an episode that was learned from: nothing here."""

    def _learned(
        self,
        state: base.State,
        collected: int,
        updates: int | None = None,
        seconds: float | None = None,
    ) -> Learned:
        """Return what follows from a state and the episodes in the memory."""
        following = self.number
        decision = decide(self.forgetting, following, self.memory.evidence)
        context = base.LearnContext(
            episode=following,
            steps=self._steps,
            collected=collected,
            turned_over=decision.turned_over,
            updates=updates,
            seconds=seconds,
            degraded=self._degraded(),
        )
        data = self.memory.since(decision.first)
        if self.memory.directory is not None:  # a rule may ask for any episode again
            self.memory.release(before=decision.first)
        key = key_for(self._seed, Purpose.LEARNING, following)
        state = self._agent.learn(state, data, context, key=key)
        return state, decision, self._agent.policy(state)

    def _row(
        self, episode: Episode, theta: float, return_eval: float | None
    ) -> EpisodeRecord:
        """Return the row of episode n, whose policy has not learned from it yet."""
        policy, first, lengths = self.policy, self.first_retained, self.memory.lengths
        scale = base.interval_scale(self.memory.evidence.error_quantile)
        metrics = policy.model_metrics(episode, scale)
        return EpisodeRecord(
            episode=self.number,
            theta=theta,
            steps=len(episode),
            return_executed=episode.executed_return,
            return_eval=return_eval,
            terminated=episode.terminated,
            first_retained=first,
            transitions=sum(lengths[first - 1 : len(lengths) - self._lag]),
            optimism=policy.weight,
            wall_s=0.0,
            **asdict(metrics),
            **policy.metrics,
            **self.decision.columns,
        )

    def _degraded(self) -> bool:
        """Return whether returns have dropped; nothing here judges that."""
        return False

    def _retained(self) -> Data:
        return self.memory.since(self.first_retained)

    def _repeat_online(self, episode: Episode) -> None:
        """Learn again what was learned within an episode, after a restart."""
        online = self._agent.begin_online(self._retained)
        if online is None:
            return
        columns = (episode.obs, episode.actions, episode.rewards, episode.next_obs)
        for count, row in enumerate(zip(*columns, strict=True), start=1):
            obs, action, reward, next_obs = row
            ended = episode.terminated and count == len(episode)
            step = Transition(obs, action, float(reward), next_obs, ended, False)
            key = key_for(self._seed, Purpose.LEARNING, self.number, count)
            self.state, online = self._agent.observe(self.state, online, step, key=key)

    def _require_learned(self) -> None:
        require(
            self._unlearned is None,
            f"Episode {self.number} has ended and was not learned from yet: learn() "
            "comes first; learn(updates=0) takes it in as it is.",
        )

    def _require_ended(self) -> tuple[Episode, float]:
        if self._unlearned is None:
            raise InputError(
                f"There is nothing to learn from: episode {self.number} has not ended. "
                "end_episode() comes first."
            )
        return self._unlearned

    def _require_running(self, called: str) -> _Running:
        if self._running is None:
            raise InputError(f"{called}() needs a running episode: begin_episode().")
        return self._running

    def _checked_actions(
        self, values: Float[np.ndarray, "*T A"]
    ) -> Float[np.ndarray, "*T A"]:
        """Return applied actions; rounding may have put them slightly beyond ±1."""
        expected = self.memory.sizes[1]
        within = np.abs(values) <= 1.0 + _ROUNDING
        require(
            values.shape[-1:] == (expected,) and bool(within.all()),
            f"An applied action has {counted(expected, 'number')} in [−1, 1], like "
            f"those of act(); received {shown(values[~within].tolist() or values)}.",
        )
        return np.clip(values, -1.0, 1.0)

    def _checked(self, obs: Observation) -> Observation:
        obs = np.array(obs, dtype=np.float64)
        expected = self.memory.sizes[0]
        require(
            obs.shape == (expected,),
            f"An observation must be a vector of {expected} numbers, received shape "
            f"{obs.shape}.",
        )
        if not np.isfinite(obs).all():
            raise EnvironmentFault(f"The environment returned the observation {obs}.")
        return obs

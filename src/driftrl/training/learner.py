"""An agent with its memory and forgetting rule, episode by episode.

    learner.begin_episode()
    action = learner.act(obs)                                  # in [−1, 1]
    learner.observe(obs, reward, terminated, truncated)        # what followed
    episode = learner.end_episode()
    learner.learn(episode)                                     # m(n), then fit

It writes nothing: a ``Session`` is a learner with files.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.agents.base import (
    Agent,
    Carry,
    LearnContext,
    ModelMetrics,
    OnlineState,
    Policy,
    State,
)
from driftrl.errors import EnvironmentFault, InputError, require
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import (
    EpisodeSummary,
    ForgettingRule,
    checked_first_retained,
    slides,
    turns_over,
)
from driftrl.training.streams import Purpose, key_for
from driftrl.types import Data, Episode, Transition

Observation = Float[np.ndarray, " S"]


@dataclass
class _Running:
    """The running episode."""

    policy: Policy
    carry: Carry
    transitions: list[Transition]
    state: State
    """The agent's; it changes if the agent learns within episodes."""
    online: OnlineState | None
    """None for an agent that learns between episodes."""
    last: tuple[Observation, np.ndarray] | None = None
    """Observation and action of the step that ``observe`` will complete."""


class Learner:
    """An agent, its memory and its forgetting rule."""

    def __init__(
        self,
        agent: Agent,
        forgetting: ForgettingRule,
        memory: EpisodeMemory,
        *,
        steps: int,
        seed: int,
        state: State,
    ) -> None:
        """Start with an empty or a filled memory, and the state that goes with it.

        Args:
            agent: What acts and learns.
            forgetting: Which episodes it learns from.
            memory: The episodes so far.
            steps: Decisions in an episode that runs its full time.
            seed: Seed of acting and learning.
            state: The agent's state after the last episode of ``memory``.
        """
        self._agent = agent
        self._forgetting = forgetting
        self._seed = seed
        self._steps = steps
        self._running: _Running | None = None
        self.memory = memory
        self.state = state
        self._policy = agent.policy(self.state)
        self._state_at_end = state
        self._first_retained = self._ask_rule()

    @property
    def number(self) -> int:
        """Number n of the running episode, or of the next one."""
        return len(self.memory) + 1

    @property
    def policy(self) -> Policy:
        """π_n, the policy of the running episode, or of the next one."""
        return self._policy

    @property
    def first_retained(self) -> int:
        """m(n): the oldest episode that π_n was learned from."""
        return self._first_retained

    @property
    def forgetting(self) -> ForgettingRule:
        """The rule that chooses m(n)."""
        return self._forgetting

    @forgetting.setter
    def forgetting(self, rule: ForgettingRule) -> None:
        self._forgetting = rule
        self._first_retained = self._ask_rule()

    @property
    def steps_taken(self) -> int | None:
        """Steps of the running episode so far; None if there is none."""
        return None if self._running is None else len(self._running.transitions)

    def begin_episode(self) -> int:
        """Begin episode n and return n; one that was not ended is discarded."""
        self._running = _Running(
            policy=self._policy,
            carry=self._policy.begin(),
            transitions=[],
            state=self.state,
            online=self._agent.begin_online(self._retained),
        )
        return self.number

    def act(self, obs: Observation) -> Float[np.ndarray, " A"]:
        """Return the action in [−1, 1] for an observation."""
        running = self._require_running("act")
        obs = self._checked(obs)
        step = len(running.transitions)
        self._require_unfinished(running.transitions)
        key = key_for(self._seed, Purpose.ACTING, self.number, step)
        action, running.carry = running.policy.act(obs, running.carry, key=key)
        running.last = (obs, action)
        return action

    def observe(
        self, obs: Observation, reward: float, terminated: bool, truncated: bool
    ) -> None:
        """Record what followed the last action."""
        running = self._require_running("observe")
        if running.last is None:
            raise InputError("observe() was called without act() before it.")
        before, action = running.last
        obs = self._checked(obs)
        if not np.isfinite(reward):
            raise self._fault(f"the reward {reward!r}")
        step = Transition(before, action, float(reward), obs, terminated, truncated)
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

    def abort_episode(self) -> None:
        """Discard the running episode, if there is one; it leaves no trace."""
        self._running = None

    def end_episode(self) -> Episode:
        """Return the episode; it is not in memory before ``learn``."""
        running = self._require_running("end_episode")
        require(
            len(running.transitions) > 0,
            f"Episode {self.number} has no transition yet; act and observe first.",
        )
        self._running = None
        self._state_at_end = running.state
        rows = running.transitions
        return Episode(
            obs=np.stack([row.obs for row in rows]),
            actions=np.stack([row.action for row in rows]),
            rewards=np.array([row.reward for row in rows]),
            next_obs=np.stack([row.next_obs for row in rows]),
            terminated=rows[-1].terminated,
        )

    def learn(
        self,
        episode: Episode,
        *,
        metrics: ModelMetrics | None = None,
        updates: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Append episode n to the memory, forget, and learn π_{n+1}.

        Args:
            episode: Episode n.
            metrics: How well π_n's model predicted it, for the forgetting rule.
            updates: Updates (default: as many as its transitions call for).
            seconds: Time to learn for, instead.
        """
        metrics = metrics or ModelMetrics()
        summary = EpisodeSummary(
            len(episode),
            episode.executed_return,
            metrics.model_error,
            metrics.coverage,
            metrics.predictive_loss,
        )
        self.memory.append(episode, summary)
        number, evidence = self.number, self.memory.evidence
        context = LearnContext(
            episode=number,
            steps=self._steps,
            sliding=slides(self.forgetting),
            collected=len(episode),
            turned_over=turns_over(self.forgetting, number, evidence),
            updates=updates,
            seconds=seconds,
        )
        self._first_retained = self._ask_rule()
        data = self.memory.since(self._first_retained)
        self.memory.release(before=self._first_retained)
        key = key_for(self._seed, Purpose.LEARNING, number)
        self.state = self._agent.learn(self._state_at_end, data, context, key=key)
        self._state_at_end = self.state
        self._policy = self._agent.policy(self.state)

    def _retained(self) -> Data:
        return self.memory.since(self.first_retained)

    def _ask_rule(self) -> int:
        evidence = self.memory.evidence
        return checked_first_retained(self._forgetting, self.number, evidence)

    def _require_unfinished(self, transitions: list[Transition]) -> None:
        last = transitions[-1] if transitions else None
        require(
            last is None or not (last.terminated or last.truncated),
            f"Episode {self.number} was terminated or truncated: end_episode() comes "
            "next.",
        )
        require(
            len(transitions) < self._steps,
            f"Episode {self.number} has had all its {self._steps} steps "
            "(environment.sim_steps): end_episode() comes next.",
        )

    def _require_running(self, called: str) -> _Running:
        if self._running is None:
            raise InputError(f"{called}() needs a running episode: begin_episode().")
        return self._running

    def _checked(self, obs: Observation) -> Observation:
        obs = np.array(obs, dtype=np.float64)
        expected = self.memory.sizes[0]
        require(
            obs.shape == (expected,),
            f"An observation must be a vector of {expected} numbers, received shape "
            f"{obs.shape}.",
        )
        if not np.isfinite(obs).all():
            wrong = np.flatnonzero(~np.isfinite(obs))
            raise self._fault(
                f"an observation that is not finite: number {wrong[0]} of {len(obs)} "
                f"(from 0) is {obs[wrong[0]]}"
            )
        return obs

    def _fault(self, what: str) -> EnvironmentFault:
        step = len(self._running.transitions) if self._running else 0
        return EnvironmentFault(
            f"The environment returned {what} in episode {self.number}, step {step}."
        )

"""Limits that a learner knows, and the controller that it starts from."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftrl.errors import all_at_least, positive, require, share


@dataclass(frozen=True)
class LimitsConfig:
    """Limits of actions, which hold exactly, and of states, which are priced."""

    rate: float = 2.0
    """Largest change of an action, of −1 to 1, from one decision to the next; 2 is all.
    A smaller one makes the action before a part of the observation."""
    low: tuple[float, ...] = ()
    """Least actions, of −1 to 1; empty for −1."""
    high: tuple[float, ...] = ()
    """Largest actions, of −1 to 1; empty for 1."""
    rest: tuple[float, ...] = ()
    """The actions before the first of an episode; empty for the middle, 0."""
    states: tuple[tuple[float, float, float], ...] = ()
    """Where entries of the observation must stay: (entry from 0, low, high) each."""
    margin: float = 2.0
    """β: the model's μ ± βσ has to stay there."""
    price: float = 10.0
    """What an imagined step well outside costs, in units of the reward; 0 only counts
    violations."""
    lookahead: int = 2
    """Steps of the model in which an action must keep the limits, where there is a
    price: else the nearest one that does is taken.  0 takes all as they are."""
    penalty: float | None = None
    """What leaving a state limit costs where it ends the episode; it ends none
    unless this is given."""

    def __post_init__(self) -> None:
        all_at_least(self, "environment.limits", margin=0, price=0, lookahead=0)
        positive("environment.limits.rate", self.rate)
        low, high = self.ends
        require(
            bool(np.all((low >= -1) & (low < high) & (high <= 1))),
            "environment.limits.low and high must be in [-1, 1], low below high; "
            f"received {self.low} and {self.high}.",
        )
        rest = self.before(max(map(len, (self.low, self.high, self.rest)), default=1))
        require(
            not self.observes_action or bool(np.all((rest >= low) & (rest <= high))),
            "environment.limits.rest must be within low and high, received "
            f"{rest.tolist()}.",
        )
        for bound in self.states:
            require(
                len(bound) == 3 and bound[0] == int(bound[0]) and bound[1] < bound[2],
                "A limit of environment.limits.states is (entry, low, high), low below "
                f"high; received {bound}.",
            )

    @property
    def observes_action(self) -> bool:
        """Whether the action before is a part of the observation."""
        return self.rate < 2.0

    @property
    def limits_actions(self) -> bool:
        """Whether actions have limits of any kind."""
        return self.observes_action or bool(self.low or self.high)

    @property
    def priced(self) -> bool:
        """Whether the model must keep away from the limits of states."""
        return bool(self.states) and self.price > 0

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest actions."""
        return np.array(self.low or -1.0), np.array(self.high or 1.0)

    def before(self, actions: int) -> np.ndarray:
        """Return the actions before the first of an episode."""
        return np.broadcast_to(np.array(self.rest or 0.0), (actions,)).copy()

    def check_sizes(self, observed: int, actions: int) -> None:
        """Refuse limits of entries that there are not."""
        for name in ("low", "high", "rest"):
            count = len(getattr(self, name))
            require(
                count in (0, actions),
                f"environment.limits.{name} needs {actions} numbers, received {count}.",
            )
        for entry, _, _ in self.states:
            require(
                0 <= entry < observed,
                f"environment.limits.states: entry {entry:g} is not of 0 to "
                f"{observed - 1}.",
            )

    # Of NumPy's arrays and of JAX's.

    def reachable(self, before: Any) -> tuple[Any, Any]:
        """Return the least and largest actions that may follow ``before``."""
        low, high = self.ends
        if not self.observes_action:
            return low, high
        least, most = before - self.rate, before + self.rate
        return least.clip(low, high), most.clip(low, high)

    def applied(self, before: Any, action: Any) -> Any:
        """Return the action that a choice of −1 to 1 is: from least to largest."""
        low, high = self.reachable(before)
        return (low + 0.5 * (action + 1.0) * (high - low)).clip(low, high)

    def choice(self, before: Any, applied: Any) -> Any:
        """Return the choice that comes closest to an action."""
        low, high = self.reachable(before)
        span = (high - low).clip(1e-9)
        return (2.0 * (applied - low) / span - 1.0).clip(-1.0, 1.0)

    def outside(self, obs: np.ndarray) -> np.ndarray:
        """Return for each observation whether it is outside of a limit of states."""
        result = np.zeros(obs.shape[:-1], bool)
        for entry, low, high in self.states:
            values = obs[..., int(entry)]
            result |= (values < low) | (values > high)
        return result

    def observed(
        self, obs: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return T + 1 observations and T actions of a log as the learner sees them."""
        before = np.vstack([self.before(actions.shape[1]), actions])
        chosen = actions
        if self.limits_actions:
            chosen = self.choice(before[:-1], actions)
        return (np.hstack([obs, before]) if self.observes_action else obs), chosen


@dataclass(frozen=True)
class InitialConfig:
    """A controller that drives at first, and that the learned policy has to beat."""

    controller: str = ""
    """Import path "module:function" of a function of the observation that returns the
    action, in the units of a custom environment, otherwise of −1 to 1; empty for none.
    """
    episodes: int = 5
    """Episodes that it drives alone."""
    reach: float = 0.1
    """How far, of −1 to 1, exploration goes at first; and how far from the controller
    the learned policy may be at first, once it is predicted to be better."""
    margin: float = 0.05
    """By how much of the controller's return the policy must be better in the model,
    by every member of an ensemble."""

    def __post_init__(self) -> None:
        all_at_least(self, "initial", episodes=0, margin=0)
        share("initial.reach", self.reach)

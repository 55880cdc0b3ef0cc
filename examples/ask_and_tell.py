"""Drive a machine that is no simulator: ask for actions, tell what came of them.

Run it, stop it with Ctrl-C or by cutting the power, and run it again: it goes on where
it was, and loses at most the episode that was under way.
"""

from pathlib import Path

import numpy as np

import driftrl

OUT = Path("runs/heater")
EPISODES, STEPS, GOAL = 8, 40, 0.6
CHANCE = np.random.default_rng(0)


class Heater:
    """Stands for the machine: a plate whose heating element wears from day to day."""

    def __init__(self, day: int) -> None:
        self.strength = 0.06 * 0.9 ** max(0, day - 4)
        self.heat = CHANCE.uniform(0.0, 0.2)
        self.broken = False

    def read(self) -> np.ndarray:
        """Return what the sensors say."""
        return np.array([np.nan if self.broken else self.heat, GOAL - self.heat])

    def drive(self, power: float) -> None:
        """Heat for a minute, in which now and then a sensor fails."""
        self.heat += self.strength * (power + 1.0) - 0.05 * self.heat
        self.broken = CHANCE.random() < 0.005


if (OUT / "config.toml").exists():
    session = driftrl.Session.resume(OUT)
else:
    plate = driftrl.custom_task("heater", observations=2, actions=1, steps=STEPS)
    config = driftrl.configure(plate, "sw-ombrl", {"forgetting": {"window": 4}})
    session = driftrl.Session(config, OUT)

if session.unlearned is not None:  # it was stopped before it had learned from it
    session.learn()

while session.number <= EPISODES:
    number = session.begin_episode()
    heater = Heater(day=number)
    seen = heater.read()
    for step in range(STEPS):
        action = session.act(seen)  # NumPy, in [−1, 1]
        heater.drive(action[0])
        seen = heater.read()
        if not np.isfinite(seen).all():  # a sensor failed
            session.abort_episode()  # nothing of this day is learned or counted
            print(f"day {number}: a sensor failed after {step + 1} minutes; once more")
            break
        session.observe(seen, -abs(seen[1]), truncated=step == STEPS - 1)
    else:  # the day went well
        episode = session.end_episode()  # on the disk from here on
        row = session.learn()  # or learn(seconds=60), while the machine cools down
        print(
            f"day {number}: return {episode.executed_return:6.2f}, "
            f"learned from {row.transitions} transitions since day {row.first_retained}"
        )
        if number == 5:  # the operator has replaced a part: from the next learn() on
            session.force_reset()
session.close()

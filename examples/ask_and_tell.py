"""Drive a machine that is no simulator: ask for actions, tell what came of them.

Run it, stop it with Ctrl-C or by cutting the power, and run it again: it goes on where
it was, and loses at most the episode that was under way.
"""

from pathlib import Path

import numpy as np

import driftrl

OUT = Path("runs/heater")
EPISODES, STEPS, GOAL = 8, 40, 0.6


class Heater:
    """Stands for the machine: a plate whose heating element wears from day to day."""

    def __init__(self, day: int) -> None:
        self.strength = 0.06 * 0.9 ** max(0, day - 4)
        self.heat = np.random.default_rng(day).uniform(0.0, 0.2)

    def read(self) -> np.ndarray:
        """Return what the sensors say."""
        return np.array([self.heat, GOAL - self.heat])

    def drive(self, power: float) -> None:
        """Heat for a minute."""
        self.heat += self.strength * (power + 1.0) - 0.05 * self.heat


if (OUT / "config.toml").exists():
    session = driftrl.Session.resume(OUT)
else:
    plate = driftrl.machine("heater", observations=2, actions=1, steps=STEPS)
    config = driftrl.configure(plate, "sw-ombrl", {"forgetting": {"window": 3}})
    session = driftrl.Session(config, OUT)

if session.unlearned is not None:  # it was stopped before it had learned from it
    session.learn()

while session.number <= EPISODES:
    number = session.begin_episode()
    heater = Heater(day=number)
    for step in range(STEPS):
        action = session.act(heater.read())  # NumPy, in [−1, 1]
        heater.drive(action[0])
        reward = -abs(GOAL - heater.heat)
        session.observe(heater.read(), reward, truncated=step == STEPS - 1)
    if heater.heat > 5.0:  # a sensor broke, say: nothing of it is learned or counted
        session.abort_episode()
        continue
    episode = session.end_episode()  # on the disk from here on
    row = session.learn()  # or learn(seconds=60), while the machine cools down
    print(
        f"day {number}: return {episode.executed_return:6.2f}, "
        f"learned from {row.transitions} transitions since day {row.first_retained}"
    )
    if number == 5:  # the operator has replaced a part
        session.force_reset()
session.close()

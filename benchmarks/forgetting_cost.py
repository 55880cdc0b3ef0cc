"""What the rule ``adaptive`` costs at episode 500, beside the episode itself.

500 episodes of random actions on the pendulum are remembered; then the Gaussian-process
agent runs one more with a window of 30, and the rule decides.  Processor time.
"""

import os
import time
from statistics import median

import numpy as np

from driftrl.training.process import prepare

prepare(os.environ)

from driftrl.envs.drifting import environment_of  # noqa: E402
from driftrl.envs.tasks import configure  # noqa: E402
from driftrl.memory.episodes import EpisodeMemory  # noqa: E402
from driftrl.memory.forgetting import Adaptive, Window, decide  # noqa: E402
from driftrl.training.assembly import initial_state, make_agent, sizes_of  # noqa: E402
from driftrl.training.learner import Learner  # noqa: E402
from driftrl.types import Episode  # noqa: E402

EPISODES = 500
CONFIG = configure(
    "pendulum",
    "sombrl",
    {"episodes": EPISODES + 1, "drift": {"kind": "constant", "value": 2.0}},
)


def remembered() -> EpisodeMemory:
    """Return the episodes of random actions."""
    memory, draw = EpisodeMemory(*sizes_of(CONFIG)), np.random.default_rng(0)
    env = environment_of(CONFIG)
    for number in range(1, EPISODES + 1):
        obs, _ = env.reset(seed=number, options={"episode": number, "steps": 0})
        rows = []
        for _ in range(CONFIG.environment.steps):
            action = draw.uniform(-1, 1, 1)
            after, reward, *_ = env.step(action)
            rows.append((obs, action, reward, after))
            obs = after
        columns = [np.array(column, np.float64) for column in zip(*rows, strict=True)]
        memory.append(Episode(*columns, terminated=False))
    return memory


def episode_seconds(memory: EpisodeMemory) -> float:
    """Return the processor time of acting in the next episode, and of learning it."""
    agent, steps = make_agent(CONFIG), CONFIG.environment.steps
    state = initial_state(agent, CONFIG)
    learner = Learner(agent, Window(30), memory, steps=steps, seed=0, state=state)
    seconds, obs = 0.0, memory.episode(1).obs[0]
    for _ in range(2):  # the first one compiles
        began = time.process_time()
        learner.begin_episode()
        for _ in range(steps):
            learner.act(obs)
            learner.observe(obs, 0.0)
        learner.end_episode()
        learner.learn()
        seconds = time.process_time() - began
    return seconds


def main() -> None:
    """Print both."""
    memory = remembered()
    times = []
    for _ in range(5):
        began = time.process_time()
        decide(Adaptive(), EPISODES + 1, memory.evidence)
        times.append(time.process_time() - began)
    rule, episode = median(times), episode_seconds(memory)
    print(
        f"deciding m({EPISODES + 1}): {1000 * rule:.0f} ms, an episode: {episode:.1f} s"
    )
    print(f"the rule is {rule / episode:.1%} of an episode's time")


if __name__ == "__main__":
    main()

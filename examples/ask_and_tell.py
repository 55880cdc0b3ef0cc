"""Drive a system of your own: ask the session for actions, tell it what came of them.

Here the system is the simulated pendulum whose motor weakens; a machine would take its
place in the two lines that touch ``env``.
"""

import driftrl

config = driftrl.configure(
    "pendulum",
    "sw-ombrl",  # learn from the newest episodes only
    {
        "forgetting": {"window": 3},
        "drift": {"start": 4},
        "agent": {"planner": {"samples": 100, "iterations": 3}},
    },
)
session = driftrl.make_session(config)
env = driftrl.make_env("pendulum", config.environment, config.drift)

for _ in range(8):
    number = session.begin_episode()
    obs, info = env.reset(seed=number, options={"episode": number})
    over = False
    while not over:
        action = session.act(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        session.observe(obs, reward, terminated, truncated)
        over = terminated or truncated
    episode = session.end_episode()
    print(
        f"episode {number}: torque {info['theta']:.2f} N·m, "
        f"return {episode.executed_return:7.1f}, "
        f"learned from episodes {session.first_retained} to {number - 1}"
    )
    session.learn(episode)

"""How often do ``adaptive`` and ``event`` see a change, and how soon?

Pendulums are simulated as in the first figure, with a policy that gets better: it
drives in the direction of motion until the pendulum is up, then balances, and between
that act at random ever more rarely.  No agent learns, so hundreds of runs take minutes.
Every rule then decides before each episode of the recorded run, as it would have.

    python experiments/change_detection.py --runs 200
    python experiments/change_detection.py --replay runs/…/pendulum-none
    python experiments/change_detection.py --health runs/…/pendulum-none

Prints, for constant torque, the runs with an alarm and the share's 95 % interval
(Clopper and Pearson's); for a torque that falls at once after episode 10, false alarms
before, and how many changed episodes it took to see it.  ``--replay`` does the first
with the recorded episodes of a study of constant torque instead, as they were and
``--shuffles`` times in random orders.  ``--health`` asks after every episode of the
recorded runs whether the controller still works, by method.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from driftrl.envs.drifting import environment_of
from driftrl.envs.tasks import configure
from driftrl.memory.forgetting import FORGETTING, replay
from driftrl.records import load_runs
from driftrl.theory.run_data import load_episodes, load_single_run
from driftrl.training.health import health
from driftrl.types import Episode

EPISODES, ONSET, FULL = 30, 10, 2.0
RULES = ("adaptive", "event")


def simulated(low: float, seed: int, episodes: int = EPISODES) -> list[Episode]:
    """Return a run whose torque falls from full to ``low`` after the onset."""
    drift = {"kind": "step", "theta_max": FULL, "theta_min": low, "start": ONSET}
    config = configure("pendulum", "sombrl", {"episodes": episodes, "drift": drift})
    draw, env = np.random.default_rng(seed), environment_of(config)
    brake, gain = draw.uniform(1.0, 3.0), draw.uniform(2.0, 6.0)
    found = []
    for number in range(1, episodes + 1):
        random = max(0.1, 1.0 - draw.uniform(0.05, 0.3) * (number - 1))
        start = {"episode": number, "steps": 0}
        obs, _ = env.reset(seed=int(draw.integers(2**31)), options=start)
        rows = []
        for _ in range(config.environment.steps):
            angle, speed = np.arctan2(obs[1], obs[0]), obs[2]
            up = abs(angle) < 0.5
            action = -gain * angle - brake * speed if up else np.sign(speed)
            if draw.uniform() < random:
                action = draw.uniform(-1, 1)
            action = np.clip([action], -1.0, 1.0)
            after, reward, *_ = env.step(action)
            rows.append((obs, action, reward, after))
            obs = after
        columns = [np.array(column, np.float64) for column in zip(*rows, strict=True)]
        found.append(Episode(*columns, terminated=False))
    return found


def alarms(rule: str, episodes: Sequence[Episode]) -> list[int]:
    """Return the numbers of the episodes after which a rule raised an alarm."""
    decisions = replay(
        FORGETTING[rule](least_episodes=1, least_transitions=1), episodes
    )
    seen = (one.columns.get("change_alarm") for one in decisions)
    return [number for number, alarm in enumerate(seen, start=1) if alarm]


def print_constant(name: str, runs: Iterable[Sequence[Episode]]) -> None:
    """Print how many runs without a change have an alarm."""
    found = {rule: [] for rule in RULES}
    for episodes in runs:
        for rule, counts in found.items():
            counts.append(len(alarms(rule, episodes)))
    for rule, counts in found.items():
        with_one = sum(count > 0 for count in counts)
        share = binomtest(with_one, len(counts)).proportion_ci()
        print(
            f"{name}, {rule}: an alarm in {with_one} of {len(counts)} runs "
            f"({share.low:.1%} to {share.high:.1%}), {sum(counts)} alarms in all",
            flush=True,
        )


def print_fall(low: float, count: int) -> None:
    """Print how soon a fall to ``low`` is seen."""
    false, delays = dict.fromkeys(RULES, 0), {rule: [] for rule in RULES}
    for seed in range(count):
        episodes = simulated(low, seed)
        for rule in RULES:
            seen = alarms(rule, episodes)
            false[rule] += any(number <= ONSET for number in seen)
            late = [number - ONSET for number in seen if number > ONSET]
            delays[rule].append(late[0] if late else EPISODES)
    for rule in RULES:
        values = np.array(delays[rule])
        print(
            f"{FULL} to {low} N·m, {rule}: seen after {np.median(values):.0f} changed "
            f"episodes (median; {np.quantile(values, 0.95):.0f} in 95 % of {count} "
            f"runs), never in {(values == EPISODES).sum()}; false alarms before in "
            f"{false[rule]}",
            flush=True,
        )


def recorded(study: Path, shuffles: int) -> Iterable[Sequence[Episode]]:
    """Yield the runs of a study, each as it was and then in random orders."""
    for number, config in enumerate(sorted(study.glob("*/config.toml"))):
        episodes = load_episodes(load_single_run(config.parent))
        yield episodes
        draw = np.random.default_rng(number)
        for _ in range(shuffles):
            yield [episodes[place] for place in draw.permutation(len(episodes))]


def print_health(study: Path) -> None:
    """Print in how many recorded runs ``health`` ever raised an alarm."""
    found: dict[str, list[set[str]]] = {}
    for run in load_runs(study):
        rows = run.records
        verdicts = {health(rows[:count]).verdict for count in range(1, len(rows) + 1)}
        found.setdefault(run.method, []).append(verdicts)
    for method, runs in found.items():
        counts = [
            sum(verdict in run for run in runs) for verdict in ("changed", "degraded")
        ]
        print(
            f"{method}: changed at some time in {counts[0]} of {len(runs)} runs, "
            f"degraded in {counts[1]}"
        )


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--replay", type=Path, help="a study of constant torque")
    parser.add_argument("--shuffles", type=int, default=3)
    parser.add_argument("--health", type=Path, help="a directory of recorded runs")
    asked = parser.parse_args()
    if asked.health is not None:
        print_health(asked.health)
        return
    if asked.replay is not None:
        print_constant("recorded", recorded(asked.replay, asked.shuffles))
        return
    constant = (simulated(FULL, seed) for seed in range(asked.runs))
    print_constant("constant torque", constant)
    for low in (1.0, 1.5, 1.8):
        print_fall(low, asked.runs)


if __name__ == "__main__":
    main()

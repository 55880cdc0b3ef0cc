"""How long the report of a very large study takes, and how large its page is.

By default 500 runs of 1,000 episodes are made up and written as runs write them:
``--problems 33 --methods 3 --seeds 5`` has the shape of the paper's whole study.  A
process of its own builds the report, so that its peak memory is its own.  If Playwright
is installed, Chromium opens the page and tells when its first figure is drawn.
"""

import argparse
import json
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import numpy as np

from driftrl.analysis.load import read_results
from driftrl.analysis.report import report

T = TypeVar("T")

METHODS = ("sombrl", "r-ombrl", "sw-ombrl", "a-first", "b-second")
PERIOD = 50  # episodes between resets, and those that a window holds
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@dataclass(frozen=True)
class Shape:
    """How large the made-up study is."""

    problems: int
    methods: int
    seeds: int
    episodes: int

    @property
    def runs(self) -> int:
        """Number of runs of the study."""
        return self.problems * self.methods * self.seeds


def thetas(shape: Shape, rate: float) -> np.ndarray:
    """Return θ of each episode, which falls from 2 to 1 after a tenth of them."""
    past = np.maximum(0, np.arange(shape.episodes) - shape.episodes // 10)
    return 1.0 + np.exp(-rate * past / shape.episodes)


def optimum(theta: float) -> float:
    """Return a made-up J*(θ)."""
    return -60.0 - 200.0 / theta


def config_text(shape: Shape, method: str, seed: int, rate: float) -> str:
    """Return a configuration with all that a report reads of it."""
    variant = f'variant = "a={rate:g}"\n' if shape.problems > 1 else ""
    return (
        f'task = "made-up"\nmethod = "{method}"\nseed = {seed}\n'
        f"episodes = {shape.episodes}\n{variant}\n"
        f'[drift]\nkind = "exponential"\nrate = {rate}\n\n'
        f'[forgetting]\nkind = "{method}"\nperiod = {PERIOD}\n\n'
        "[agent.soft_reset]\nmodel = 0.5\npolicy = 0.5\n\n"
        '[versions]\ndriftrl = "0.1.0"\nnumpy = "2.4.6"\n'
    )


def first_retained(method: str, episodes: np.ndarray) -> np.ndarray:
    """Return m(n) of each episode."""
    if method == "sombrl":
        return np.ones_like(episodes)
    if method == "sw-ombrl":
        return np.maximum(1, episodes - PERIOD)
    return np.maximum(1, PERIOD * ((episodes - 1) // PERIOD))


def rows(shape: Shape, method: str, rate: float, rng: np.random.Generator) -> str:
    """Return the lines of one run, every number of them noisy."""
    count = shape.episodes
    episodes = np.arange(1, count + 1)
    theta, first = thetas(shape, rate), first_retained(method, episodes)
    best = -60.0 - 200.0 / theta
    columns = {
        "episode": episodes,
        "theta": theta,
        "steps": np.full(count, 200),
        "return_executed": best - rng.gamma(2.0, 30.0, count),
        "return_eval": best - rng.gamma(2.0, 20.0, count),
        "terminated": np.zeros(count, bool),
        "first_retained": first,
        "transitions": 200 * (episodes - first),
        "optimism": rng.normal(1.0, 0.1, count),
        "model_error": rng.lognormal(-3.0, 0.5, count),
        "coverage": rng.beta(20.0, 1.0, count),
        "epistemic_std": rng.lognormal(-3.0, 0.5, count),
        "wall_s": rng.uniform(5.0, 6.0, count),
        "soft_reset": (episodes > PERIOD) & (episodes % PERIOD == 1),
        "temperature": rng.lognormal(-2.0, 0.2, count),
        "entropy": rng.normal(1.0, 0.2, count),
        "q": rng.normal(-100.0, 5.0, count),
        "critic_loss": rng.lognormal(0.0, 0.5, count),
        "model_loss": rng.lognormal(-1.0, 0.5, count),
        "bonus": rng.lognormal(-2.0, 0.5, count),
    }
    names = list(columns)
    table = zip(*(values.tolist() for values in columns.values()), strict=True)
    return "".join(
        json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in table
    )


def write_study(directory: Path, shape: Shape) -> None:
    """Write all runs."""
    rates = np.linspace(5.0, 50.0, shape.problems) if shape.problems > 1 else [10.0]
    for place, rate in enumerate(map(float, rates)):
        for method in range(shape.methods):
            name = METHODS[method] if method < len(METHODS) else f"method-{method}"
            for seed in range(shape.seeds):
                run = directory / f"made-up-{place}-{name}-s{seed}"
                run.mkdir(parents=True)
                (run / "config.toml").write_text(config_text(shape, name, seed, rate))
                rng = np.random.default_rng([place, method, seed])
                (run / "episodes.jsonl").write_text(rows(shape, name, rate, rng))


def timed(times: dict[str, tuple[float, float]], name: str, call: Callable[[], T]) -> T:
    """Return what a call does; note its seconds by the clock and of the processor."""
    clock, processor = time.monotonic(), time.process_time()
    result = call()
    times[name] = time.monotonic() - clock, time.process_time() - processor
    return result


def build(directory: Path, answer: Connection) -> None:
    """Build the report; tell its page, the times, and the peak memory in MiB."""
    times: dict[str, tuple[float, float]] = {}
    timed(times, "records", lambda: read_results(directory, oracle=optimum))
    paths = timed(times, "report", lambda: report(directory, oracle=optimum))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answer.send((paths[-1], times, peak))


def seconds_to_first_figure(page: Path) -> float | None:
    """Return when Chromium has drawn the first figure; None if it cannot be asked."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        return None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        started = time.monotonic()
        opened.goto(page.as_uri(), wait_until="commit")
        # A summary and tables come first, and are there at once.
        opened.locator(".plot").first.scroll_into_view_if_needed()
        opened.wait_for_selector(".js-plotly-plot .main-svg")
        taken = time.monotonic() - started
        browser.close()
    return taken


def main() -> None:
    """Make up a study, build its report, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in {"problems": 1, "methods": 5, "seeds": 100}.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--episodes", type=int, default=1000)
    shape = Shape(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_study(directory, shape)
        # A new interpreter: what this one has used does not count.
        context = multiprocessing.get_context("spawn")
        answer, ours = context.Pipe(duplex=False)
        worker = context.Process(target=build, args=(directory, ours))
        worker.start()
        ours.close()
        page, times, peak = answer.recv()
        worker.join()
        print(f"{shape.runs} runs of {shape.episodes} episodes")
        for name, (clock, processor) in times.items():
            print(f"  {name}: {clock:.1f} s ({processor:.1f} s of the processor)")
        total = [sum(column) for column in zip(*times.values(), strict=True)]
        print(f"  together: {total[0]:.1f} s ({total[1]:.1f} s of the processor)")
        print(f"  peak memory: {peak:.0f} MiB")
        print(f"  page: {page.stat().st_size / 1e6:.1f} MB")
        first = seconds_to_first_figure(page)
        said = "not measured" if first is None else f"{first:.1f} s"
        print(f"  first figure drawn after: {said}")


if __name__ == "__main__":
    main()

"""Made-up studies, written, reported on, and opened in a real Chromium."""

import functools
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.image
import numpy as np
import pytest

from driftrl.figures.part import Picture
from driftrl.figures.report import Origin, report_page
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison, compare_problems
from driftrl.results.origin import Source
from driftrl.types import EpisodeRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
EPISODES = 30
METHODS = ("sombrl", "r-ombrl", "sw-ombrl")
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}


def theta(n: int, rate: float = 1.0) -> float:
    return float(1.0 + np.exp(-rate * max(0, n - 10)))


def optimum(value: float) -> float:
    return -100.0 / value


def record(n: int, method: str, rate: float, rng: np.random.Generator) -> EpisodeRecord:
    first = 1 if method == "sombrl" else max(1, n - 6)
    best, has_model = optimum(theta(n, rate)), n > 1
    return EpisodeRecord(
        episode=n,
        theta=theta(n, rate),
        steps=40,
        return_executed=float(best - rng.gamma(2.0, 20.0)),
        return_eval=float(best - rng.gamma(2.0, 10.0)),
        terminated=False,
        first_retained=first,
        transitions=40 * (n - first),
        optimism=1.0 / n,
        model_error=float(rng.lognormal(-3.0, 1.0)) if has_model else None,
        coverage=float(rng.beta(20.0, 1.0)) if has_model else None,
        epistemic_std=float(rng.lognormal(-3.0, 1.0)) if has_model else None,
        wall_s=1.5,
        soft_reset=n > 7 and n % 7 == 1,
        temperature=0.1 + 0.5 / n,
    )


def run(method: str, seed: int, rate: float, variant: str) -> Run:
    rng = np.random.default_rng([METHODS.index(method), seed])
    config = {
        **{"task": "pendulum", "method": method, "seed": seed, "episodes": EPISODES},
        **{"variant": variant, "drift": {"kind": "exponential", "rate": rate}},
        **{"forgetting": {"kind": method}, "versions": {"driftrl": "0.1.0"}},
    }
    rows = [record(n, method, rate, rng) for n in range(1, EPISODES + 1)]
    return Run(Path("study") / f"{method}-s{seed}", config, tuple(rows))


def oracle(runs: Sequence[Run]) -> OracleTable:
    thetas = sorted({row.theta for one in runs for row in one.records})
    entries = [OracleValue(value, optimum(value), 0.5) for value in thetas]
    return OracleTable(tuple(entries), "made up")


@functools.cache
def comparison(rates: tuple[float, ...]) -> Comparison:
    runs = [
        run(method, seed, rate, f"a={rate:g}" if len(rates) > 1 else "")
        for rate in rates
        for method in METHODS
        for seed in range(4)
    ]
    return compare_problems(runs, oracle)


@pytest.fixture(scope="session")
def study() -> Comparison:
    """One problem, three methods, four seeds."""
    return comparison((1.0,))


def blank_picture(width: int, height: int) -> bytes:
    written = io.BytesIO()
    pixels = np.ones((height, width))
    matplotlib.image.imsave(written, pixels, cmap="gray", vmin=0, vmax=1, format="png")
    return written.getvalue()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of one problem, that of three, and one with a printed figure."""
    folder = tmp_path_factory.mktemp("pages")
    source = Source("study", Path("study"), "A study", "", "name = 'study'\n")
    origin = Origin((source,), "driftrl report study")
    found = {}
    printed = {"": [Picture("Printed", "A caption.", blank_picture(1_980, 600))]}
    for name, rates, pictures in [
        ("one", (1.0,), None),
        ("three", (0.1, 0.5, 1.0), None),
        ("pictured", (1.0,), printed),
    ]:
        found[name] = folder / f"{name}.html"
        text = report_page(
            comparison(rates), "Falling <torque>", "Three agents.", pictures, origin
        )
        found[name].write_text(text, encoding="utf-8")
    return found


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not on the path")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page in the browser, and what it asked for and complained about."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def boxes(self) -> list[str]:
        """Keys of all figures."""
        return self.page.eval_on_selector_all(
            ".plot", "boxes => boxes.map(box => box.id.slice(5))"
        )

    def draw(self, key: str) -> None:
        """Bring a figure into view and wait until it is drawn."""
        self.page.locator(f'[id="plot-{key}"]').scroll_into_view_if_needed()
        self.page.wait_for_selector(f'[id="plot-{key}"] .main-svg')

    def wait(self, condition: str) -> None:
        """Wait until an expression is true.

        Playwright's own way evaluates text in the page, which the page forbids.
        """
        for _ in range(200):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"Never came true: {condition}")

    def figure(self, key: str) -> dict[str, Any]:
        """What Plotly holds of a figure: its traces, and the range of each axis."""
        return self.page.evaluate(
            """key => {
              const box = document.getElementById(`plot-${key}`);
              return {
                traces: box.data.map(one => ({
                  name: one.name, group: one.legendgroup, visible: one.visible ?? true,
                  y: Array.from(one.y), band: one.hoverinfo === "skip",
                  column: one.meta?.column, x0: one.x0,
                })),
                shapes: box.layout.shapes ?? [],
              };
            }""",
            key,
        )

    def download(self, selector: str) -> tuple[str, str]:
        """Click, and return name and text of the file that comes of it."""
        with self.page.expect_download() as coming:
            self.page.click(selector)
        return coming.value.suggested_filename, coming.value.path().read_text()


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: "Browser", pages: dict[str, Path]) -> Iterator[Open]:
    """Open a page on a screen; at the end it must have asked for nothing else."""
    contexts, opened = [], []

    def open_it(name: str, screen: dict[str, Any] = DESKTOP) -> Opened:
        context = browser.new_context(accept_downloads=True, **screen)
        one = Opened(context.new_page())
        contexts.append(context)
        opened.append(one)
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.on("console", lambda message: one.complaints.append(message.text))
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.goto(pages[name].as_uri())
        # The page's code has read its data once figures can be saved.
        one.page.wait_for_selector("button.csv", state="attached")
        return one

    yield open_it
    for context in contexts:
        context.close()
    for one in opened:
        # What the page saves is made in the page; only the file itself was read.
        asked = [url for url in one.requests if not url.startswith("blob:")]
        assert len(asked) == 1 and asked[0].startswith("file:")
        assert one.complaints == []

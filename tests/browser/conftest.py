"""Reports of made-up studies, opened in a real Chromium."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import driftrl
from driftrl.analysis import report as report_module
from factories import made_up_optimum, write_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
DESKTOP = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One problem with three methods and four seeds, and two problems."""
    folder = tmp_path_factory.mktemp("studies")
    for rate in (0.1, 0.5):
        seeds, variant = range(2), [f"a={rate}"]
        methods = ("sombrl", "sw-ombrl")
        write_study(folder / "two", methods, seeds, 12, variant, rate=rate)
    return {"one": write_study(folder / "one"), "two": folder / "two"}


@pytest.fixture(scope="session")
def frame(studies: dict[str, Path]) -> pl.DataFrame:
    return driftrl.load(studies["one"], oracle=made_up_optimum)


@pytest.fixture(scope="session")
def pages(studies: dict[str, Path]) -> dict[str, Path]:
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        # Printed figures have tests of their own.
        patch.setattr(report_module, "MOST_PROBLEMS", 0)
        for name, directory in studies.items():
            out = directory.with_name(f"{name}-report")
            options: dict[str, Any] = {"oracle": made_up_optimum}
            found[name] = driftrl.report(directory, out, **options)[-1]
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
    """A page in the browser, its requests and its messages."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def boxes(self) -> list[str]:
        """Keys of all figures."""
        return self.page.eval_on_selector_all(
            ".plot", "boxes => boxes.map(box => box.dataset.key)"
        )

    def draw(self, key: str) -> None:
        """Scroll to a figure and wait until it is drawn."""
        self.page.locator(f'[id="plot-{key}"]').scroll_into_view_if_needed()
        self.page.wait_for_selector(f'[id="plot-{key}"] .main-svg')

    def traces(self, key: str) -> list[dict[str, Any]]:
        """What Plotly holds of a figure."""
        return self.page.evaluate(
            """key => document.getElementById(`plot-${key}`).data.map(one => ({
                name: one.name, visible: one.visible ?? true, y: one.y,
                method: one.meta?.method, column: one.meta?.column,
            }))""",
            key,
        )

    def download(self, selector: str) -> tuple[str, str]:
        """Click, and return name and text of the file that is saved."""
        with self.page.expect_download() as coming:
            self.page.click(selector)
        return coming.value.suggested_filename, coming.value.path().read_text()


@pytest.fixture
def open_page(
    browser: "Browser", pages: dict[str, Path]
) -> Iterator[Callable[..., Opened]]:
    """Open a page; at the end it must have requested nothing else."""
    contexts, opened = [], []

    def open_it(name: str, screen: dict[str, Any] = DESKTOP) -> Opened:
        context = browser.new_context(accept_downloads=True, **screen)
        one = Opened(context.new_page())
        contexts.append(context)
        opened.append(one)
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.on("console", lambda message: one.messages.append(message.text))
        one.page.on("pageerror", lambda error: one.messages.append(str(error)))
        one.page.goto(pages[name].as_uri())
        one.page.wait_for_selector("body[data-ready]")
        return one

    yield open_it
    for context in contexts:
        context.close()
    for one in opened:
        # What the page saves is made in the page; only the file itself is read.
        asked = [url for url in one.requests if not url.startswith("blob:")]
        assert len(asked) == 1 and asked[0].startswith("file:")
        assert one.messages == []

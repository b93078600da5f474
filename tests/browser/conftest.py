"""A real Chromium on a real server: `./run browser` runs these, and nothing else does.

They need a browser, which pip cannot bring; so `./run test` does not collect them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    expect,
    sync_playwright,
)

from tests.browser.filled import fill
from tests.security.process import ANYWHERE, Served, started
from wherry.testing.postgres import TemplateServer

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# A busy machine takes its time; what is waited for is a fact.
_PATIENCE_MS = 30_000
expect.set_options(timeout=_PATIENCE_MS)

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 360, "height": 780}
VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect these only where they are asked for."""
    if collection_path.name == "test_pictures.py" and not config.getoption("--screenshots"):
        return True
    return None if config.getoption("--browser") else True


def chromium_path() -> str:
    """Return the browser that `./run browser` has found."""
    found = os.environ.get("WHERRY_CHROMIUM") or shutil.which("chromium")
    assert found, "no Chromium: ./run browser says how to get one"
    return found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=[*ARGUMENTS])
        yield browser
        browser.close()


@dataclass
class Site:
    """A dashboard that is served: where, and on which database."""

    root: str
    dsn: str

    @property
    def dead_id(self) -> int:
        """A task that is dead, or no task if there is none."""
        [[id]] = self.rows("select coalesce(max(id), 0) from wherry.finished where state = 'dead'")
        assert isinstance(id, int)
        return id

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return what the database says."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


@pytest.fixture(scope="session")
def databases() -> Iterator[TemplateServer]:
    """Where databases are made."""
    with TemplateServer() as server:
        yield server


@pytest.fixture(scope="session")
def shop(databases: TemplateServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shop's dashboard, which asks for no token; tests may change what is in it."""
    with databases.database() as dsn:
        fill(dsn)
        with started(tmp_path_factory.mktemp("shop"), *ANYWHERE, dsn=dsn) as served:
            yield site_of(served, dsn)


def site_of(served: Served, dsn: str) -> Site:
    """Return the dashboard of a server that was started."""
    served.up()
    return Site(f"{served.http}/dashboard/", dsn)


@dataclass
class Tab:
    """A page of the browser; `wrong` is what the browser complained of meanwhile."""

    page: Page
    root: str
    id: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def go(self, address: str) -> None:
        """Open an address of the dashboard, and wait until the script has run."""
        self.page.goto(self.root + address.removeprefix(".").format(id=self.id), wait_until="load")

    def must_be_well(self) -> None:
        """Fail if the browser complained: of an error, a policy, or a request that failed."""
        assert self.wrong == []


class Tabs:
    """Opens tabs; they are closed with the test."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []

    def open(self, site: Site, *, theme: str = "light", size: dict[str, int] = WIDE) -> Tab:
        """Open a tab of a new browser profile."""
        scheme = "dark" if theme == "dark" else "light"
        context = self._chromium.new_context(
            viewport={"width": size["width"], "height": size["height"]},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            has_touch=size is NARROW,
        )
        self._contexts.append(context)
        context.add_init_script(VIOLATIONS)
        context.set_default_timeout(_PATIENCE_MS)
        return self.another(context, site)

    def another(self, context: BrowserContext, site: Site) -> Tab:
        """Open one more tab of a profile."""
        page = context.new_page()
        tab = Tab(page, site.root, site.dead_id)

        def heard(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                tab.wrong.append(message.text)

        def opened(dialog: Dialog) -> None:
            tab.wrong.append(f"a dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", heard)
        page.on("pageerror", lambda error: tab.wrong.append(str(error)))
        page.on("dialog", opened)
        return tab

    def close(self) -> None:
        """Close them all."""
        for context in self._contexts:
            context.close()


@pytest.fixture
def tabs(chromium: Browser) -> Iterator[Tabs]:
    """Open tabs."""
    made = Tabs(chromium)
    yield made
    made.close()

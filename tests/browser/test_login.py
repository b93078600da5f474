"""Who shows a token is let in with its rights, and out again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Site, Tab, Tabs, site_of
from tests.browser.filled import fill
from tests.security.process import ANYWHERE, started
from wherry.testing.postgres import TemplateServer

WHERRY = (sys.executable, "-m", "wherry")


@pytest.fixture(scope="module")
def guarded(databases: TemplateServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shop's dashboard, where everybody is asked for a token."""
    with databases.database() as dsn:
        fill(dsn)
        with started(tmp_path_factory.mktemp("guarded"), *ANYWHERE, "--auth", dsn=dsn) as served:
            yield site_of(served, dsn)


def token(site: Site, name: str, *rights: str, queue: str = "*") -> str:
    """Make a token as an operator does."""
    given = [part for right in rights for part in ("--right", right)]
    done = subprocess.run(
        [*WHERRY, "token", "create", "--name", name, *given, "--queue", queue],
        env={**os.environ, "WHERRY_DSN": site.dsn},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def sign_in(tab: Tab, shown: str) -> None:
    """Show a token at the login page."""
    tab.page.get_by_label("Token").fill(shown)
    tab.page.get_by_role("button", name="Sign in").click()


def test_who_signs_in_is_led_to_where_they_wanted(tabs: Tabs, guarded: Site) -> None:
    tab = tabs.open(guarded)
    tab.go("queue?name=payments")
    assert Axe().run(tab.page).violations_count == 0

    sign_in(tab, token(guarded, "ada", "read", "admin"))

    expect(tab.page.get_by_role("heading", level=1)).to_have_text("payments")
    expect(tab.page.get_by_role("link", name="Pause", exact=True)).to_be_visible()
    tab.page.get_by_role("button", name="Sign out").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Sign in")
    tab.go("queues")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Sign in")
    tab.must_be_well()


def test_who_may_only_read_sees_no_button(tabs: Tabs, guarded: Site) -> None:
    tab = tabs.open(guarded)
    tab.go("workers")

    sign_in(tab, token(guarded, "wall", "read"))

    expect(tab.page.get_by_text("Read only")).to_be_visible()
    for address in ("workers", "queues", "queue?name=mail", "task?id={id}"):
        tab.go(address)
        expect(tab.page.locator("main h1")).to_be_visible()
        assert tab.page.locator("main form[method=post], main a[data-dialog]").count() == 0
    tab.must_be_well()


def test_who_may_see_one_queue_sees_nothing_of_others(tabs: Tabs, guarded: Site) -> None:
    tab = tabs.open(guarded)
    tab.go(".")

    sign_in(tab, token(guarded, "mailers", "read", queue="mail"))

    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Overview")
    for address in (".", "queues", "workers"):
        tab.go(address)
        shown = tab.page.locator("main").inner_text()
        assert "mail" in shown
        for other in ("capture_payment", "search-index", "make_thumbnail", "exports"):
            assert other not in shown
    tab.must_be_well()


def test_a_wrong_token_is_said_to_be_one(tabs: Tabs, guarded: Site) -> None:
    tab = tabs.open(guarded)
    tab.go(".")

    sign_in(tab, "wherry_aaaaaaaaaaaa_" + "a" * 52)

    expect(tab.page.get_by_role("alert")).to_contain_text("not valid here")
    # The browser tells of the status itself.
    assert all("403" in each for each in tab.wrong)

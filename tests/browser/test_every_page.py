"""Every page and question, in both themes and at both widths, is well, and for everybody."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser import addresses
from tests.browser.conftest import NARROW, WIDE, Site, Tabs
from tests.facts import wait_for
from wherry.server.dashboard.pages import ACTIONS, PAGES

SIZES = {"wide": WIDE, "narrow": NARROW}
# All questions are of one form: each is looked at in two ways, and each page in all four.
LOOKS = [
    (path, theme, size)
    for path in addresses.EVERY
    for theme, size in (
        ("light", "wide"),
        ("dark", "narrow"),
        ("light", "narrow"),
        ("dark", "wide"),
    )
    if path in addresses.PAGES or (theme, size) in (("light", "wide"), ("dark", "narrow"))
]


def test_every_page_and_action_has_an_address() -> None:
    assert {page.path for page in PAGES} == addresses.PAGES.keys()
    assert {action.path for action in ACTIONS} == addresses.ACTIONS.keys()


@pytest.mark.parametrize(("path", "theme", "size"), LOOKS)
def test_a_page_is_well_and_for_everybody(
    tabs: Tabs, shop: Site, path: str, theme: str, size: str
) -> None:
    tab = tabs.open(shop, theme=theme, size=SIZES[size])

    tab.go(addresses.EVERY[path])
    tab.page.locator("h1").wait_for()
    found = Axe().run(tab.page)

    violations = [
        f"{each['id']}: {node['html'][:120]}: {node['failureSummary'][:200]}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]
    assert violations == []
    # Nothing is wider than the screen, so that nobody scrolls sideways.
    wide = tab.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= SIZES[size]["width"]
    tab.must_be_well()


@pytest.mark.parametrize("width", [320, 360, 540])
def test_on_a_phone_nothing_is_wider_than_its_room(tabs: Tabs, shop: Site, width: int) -> None:
    tab = tabs.open(shop, size={**NARROW, "width": width})

    tab.go(addresses.EVERY["queues"])
    tab.page.locator("h1").wait_for()
    wide = tab.page.evaluate(
        "[...document.querySelectorAll('.places ul, .places a, td')]"
        ".filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)"
    )

    assert wide == []
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [768, 1024, 1280, 1366, 1440])
def test_no_table_is_cut_off_by_its_card(tabs: Tabs, shop: Site, width: int) -> None:
    tab = tabs.open(shop, size={"width": width, "height": 900})
    wrong: list[object] = []

    for path in ("", "queues", "queue", "tasks", "schedules", "schedule", "database"):
        tab.go(addresses.EVERY[path])
        tab.page.locator("table.rows").first.wait_for()
        wrong += tab.page.evaluate(
            "[...document.querySelectorAll('table.rows')]"
            ".filter((each) => each.scrollWidth > each.closest('.card').clientWidth + 1)"
            ".map((each) => [location.pathname, each.innerText.slice(0, 40)])"
        )

    assert wrong == []


def test_the_filter_has_the_width_of_the_page(tabs: Tabs, shop: Site) -> None:
    tab = tabs.open(shop)
    tab.go("tasks")

    tab.page.get_by_text("Filter", exact=True).click()

    def fits() -> bool:
        # Asked of the page itself: to Playwright an element that was just opened may have no size.
        is_open, fields, chips = tab.page.evaluate(
            "() => [document.querySelector('.more-filters').open,"
            " ...['.filter-fields', '.states'].map((name) =>"
            " document.querySelector(name).getBoundingClientRect().toJSON())]"
        )
        print(is_open, fields, chips)
        return bool(fields["width"] > 1000 and fields["y"] > chips["bottom"])

    wait_for(fits)

"""Takes the pictures of the documents: `./run browser --screenshots docs/images`, else nothing.

They show the shop of `shop.py`, and are kept small: few colours are enough.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.browser.conftest import NARROW, WIDE, Site, Tabs

TALL = {"width": 1440, "height": 1180}
COLOURS = 256
LARGEST_BYTES = 200_000

PICTURES = {
    "overview-light": (".", "light", TALL),
    "overview-dark": (".", "dark", TALL),
    "queue-light": ("queue?name=payments", "light", TALL),
    "queues-dark": ("queues", "dark", WIDE),
    "workers-light": ("workers", "light", WIDE),
    "tasks-light": ("tasks", "light", WIDE),
    "task-dark": ("task?id={id}", "dark", WIDE),
    "schedules-light": ("schedules", "light", WIDE),
    "dead-light": ("dead", "light", WIDE),
    "phone-dark": (".", "dark", NARROW),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_taken(tabs: Tabs, shop: Site, name: str, pytestconfig: pytest.Config) -> None:
    folder = Path(str(pytestconfig.getoption("--screenshots")))
    address, theme, size = PICTURES[name]
    tab = tabs.open(shop, theme=theme, size=size)

    # The doctor's first look begins with the first page.
    tab.go(".")
    tab.page.locator("#troubles").wait_for()
    tab.go(address)
    tab.page.locator("h1").wait_for()
    picture = Image.open(io.BytesIO(tab.page.screenshot())).convert("RGB")
    # Without k-means the ground is off by as much as a light pink.
    small = picture.quantize(
        COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dashboard-{name}.png"
    small.save(path, optimize=True)

    assert path.stat().st_size < LARGEST_BYTES
    tab.must_be_well()

"""Puts a page into the frame that all of them have, with what every template may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import wherry
from wherry.server.caller import Right
from wherry.server.dashboard.asking import Shown, Visit
from wherry.server.dashboard.assets import assets
from wherry.server.dashboard.pages import PAGES, PLACES
from wherry.server.dashboard.ranges import RANGES
from wherry.server.dashboard.render import render

_ALONE: Final = "alone.html"
_FRAME: Final = "frame.html"
_PARTS: Final = "parts_only.html"


@dataclass(frozen=True, slots=True)
class Here:
    """What a template knows of the visit: where it is, and what its visitor may do."""

    name: str
    nav: str | None
    link: Callable[..., str]
    may: Callable[..., bool]
    is_admin: bool
    who: str
    range: Any
    query: Any


def framed(
    shown: Shown,
    *,
    visit: Visit | None,
    nav: str | None,
    said: tuple[bool, str] | None,
    is_parts: bool,
    is_open: bool,
    theme: str,
    form_word: str,
) -> bytes:
    """Return the HTML of a page: in its frame, alone (nobody is let in yet), or its parts only."""
    layout = _ALONE if visit is None else _PARTS if is_parts else _FRAME
    values: dict[str, Any] = {
        "layout": layout,
        "title": shown.title,
        "here": None if visit is None else _here(visit, nav),
        "places": PLACES,
        "ranges": RANGES,
        "said": said,
        "is_open": is_open,
        "theme": theme,
        "form_word": form_word,
        "assets": {name: f"static/{asset.name}" for name, asset in assets().items()},
        "now": datetime.now(UTC),
        "has_page": _has_page,
        "listing": None if visit is None else partial(_listing, visit),
        "version": wherry.__version__,
    }
    return render(shown.template, values | dict(shown.values)).encode()


def _has_page(path: str) -> bool:
    return any(page.path == path for page in PAGES)


def _listing(visit: Visit, **asked: str) -> str | None:
    """Return the address of a list of tasks, where there is such a page."""
    return visit.link("tasks", **asked) if _has_page("tasks") else None


def _here(visit: Visit, nav: str | None) -> Here:
    def may(right: str, queue: str | None = None) -> bool:
        return visit.may(Right(right), queue)

    return Here(
        name=visit.name,
        nav=nav,
        link=visit.link,
        may=may,
        is_admin=Right.ADMIN in visit.caller.rights,
        who=visit.caller.name,
        range=visit.range,
        query=visit.query,
    )

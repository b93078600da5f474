"""Templates: everything that is put into one is escaped, and what is missing is an error."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from wherry.server.dashboard import words
from wherry.server.dashboard.charts import bars, clock
from wherry.server.dashboard.pictures import came, ended_rate

_FILTERS: Final = (
    *(words.number, words.short, words.rate, words.span, words.size, words.share),
    *(words.instant, words.mark, words.plural, words.sentence),
)


@cache
def environment() -> Environment:
    """Return the templates of this package."""
    made = Environment(
        loader=PackageLoader("wherry.server.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Jinja's own types say nothing of what is in these.
    filters = {word.__name__: word for word in (*_FILTERS, verbatim)}
    made.filters.update(filters)  # pyright: ignore[reportUnknownMemberType]
    made.globals.update(_GLOBALS)  # pyright: ignore[reportUnknownMemberType]
    return made


def warm() -> None:
    """Compile every template, which is a tenth of a second that no visitor should wait for."""
    for name in environment().list_templates():
        environment().get_template(name)


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return a template filled with values."""
    return environment().get_template(template).render(values)


def when(at: datetime | None, now: datetime) -> Markup:
    """Return a moment as people say it, with the whole of it as title; the script keeps it true."""
    if at is None:
        return Markup('<span class="dim">–</span>')
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        words.iso(at), words.instant(at), words.ago(at, now)
    )


def verbatim(text: str) -> Markup:
    """Return a text so that a browser shows each character: it would read a lone CR as a LF."""
    return Markup("&#13;").join(text.split("\r"))


def exact(value: float | None) -> Markup:
    """Return a number shortened, with the whole of it as title."""
    if value is None:
        return Markup('<span class="dim">–</span>')
    shown = words.short(value)
    if shown == words.number(value):
        return Markup("{}").format(shown)
    return Markup('<span title="{}">{}</span>').format(words.number(value), shown)


_GLOBALS: Final[dict[str, Any]] = {
    "when": when,
    "exact": exact,
    "iso": words.iso,
    "clock": clock,
    "came": came,
    "bars_of": bars,
    "ended_rate": ended_rate,
}

"""A request to the dashboard as its pages see it, and what they give back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast
from urllib.parse import urlencode

from wherry.server.caller import Caller, Right
from wherry.server.dashboard.hiding import Rules, shown_json
from wherry.server.dashboard.json_text import Text
from wherry.server.dashboard.ranges import DEFAULT_RANGE, Range, range_of

if TYPE_CHECKING:
    from wherry.server.dashboard.rounds import Rounds
    from wherry.server.dashboard.shared import Shared
    from wherry.server.service import Service

P = ParamSpec("P")
R = TypeVar("R")

# Of a form or a query: as much as any of ours has, and room for a reason.
MOST_FIELDS: Final = 2_000
_MOST_DIGITS: Final = 19
_MOST_ID: Final = 2**63 - 1
# Shown sooner than a thread is there for it.
_SMALL: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request: who looks at what.

    `query` holds the last value of each name in the address, `form` that of the body; `lists` has
    all values of each name of both. `is_open`: nobody is asked for a token here. `word` is what
    the forms of this visitor bring along, which nobody else knows.
    """

    name: str
    caller: Caller
    service: Service
    shared: Shared
    rounds: Rounds
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    lists: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    rules: Rules = field(default_factory=Rules)
    is_open: bool = False
    word: str = ""

    async def read(
        self,
        verb: Callable[Concatenate[Caller, P], Awaitable[R]],
        /,
        *args: P.args,
        **asked: P.kwargs,
    ) -> R:
        """Return what a verb of the service answers this visitor; not older than two seconds.

        All who have the same rights and ask the same share one answer.
        """
        return await self.shared.read(self.caller, verb, *args, **asked)

    def may(self, right: Right, queue: str | None = None) -> bool:
        """Say whether the visitor has a right on a queue, or (None) on all."""
        return self.caller.may(right, queue)

    async def json(self, text: str, *, of: str) -> str:
        """Return stored JSON for a page, without what is not to be shown.

        *of*: payload, result or headers. A megabyte of it takes seconds, in which others, and
        workers above all, are to be answered.
        """
        if len(text) <= _SMALL:
            return shown_json(text, of=of, rules=self.rules)
        return await asyncio.to_thread(shown_json, text, of=of, rules=self.rules)

    @property
    def range(self) -> Range:
        """The time that charts show."""
        return range_of(self.query.get("range"))

    def link(self, page: str, /, **asked: Any) -> str:
        """Return the address of a page, relative to any other; what is None is left out.

        The range that was chosen goes along.
        """
        chosen = self.range
        if "range" not in asked and chosen is not DEFAULT_RANGE:
            asked["range"] = chosen.name
        pairs: list[tuple[str, str]] = []
        for name, value in asked.items():
            if isinstance(value, list | tuple):
                pairs += [(name, str(one)) for one in cast("list[object]", value)]
            elif value is not None:
                pairs.append((name, str(value)))
        address = page or "."
        return f"{address}?{urlencode(pairs)}" if pairs else address


@dataclass(frozen=True, slots=True)
class Shown:
    """A page to be rendered: `template` is a file of templates/, with these values."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


@dataclass(frozen=True, slots=True)
class Field:
    """Something that is asked before an action: a text, or, with `choices`, one of them.

    With `lines` the text is a long one, shown in so many lines.
    """

    name: str
    label: str
    value: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked before an action happens.

    `facts` are shown as pairs, `looks` as JSON under a title each; `kept` are the names and values
    that the form sends along; `back` is where who thinks better of it goes, by a button that says
    `leave`.
    """

    title: str
    text: str
    button: str
    back: str
    leave: str = "Cancel"
    danger: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    looks: tuple[tuple[str, Text], ...] = ()
    fields: tuple[Field, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Went:
    """An action happened: what is said of it, and the page that is shown next."""

    to: str
    said: str
    is_good: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown at one path below /dashboard/; `nav` is the place it belongs to."""

    path: str
    show: Callable[[Visit], Awaitable[Shown]]
    nav: str | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done: GET asks, POST does it, asks once more, or shows how far it is.

    A page that answers a POST has no address of its own, from which it could be got anew.

    Whoever has `right` on no queue at all is refused before anything is looked at; on which queue
    they need it is the service's business.
    """

    path: str
    ask: Callable[[Visit], Awaitable[Question]]
    act: Callable[[Visit], Awaitable[Went | Question | Shown]]
    nav: str | None = None
    right: Right = Right.ADMIN


def number_of(text: str) -> int:
    """Return a number of the address or a form; what is none is 0, as if nobody had said it."""
    is_one = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return min(int(text), _MOST_ID) if is_one else 0

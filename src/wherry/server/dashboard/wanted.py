"""What somebody looks for, as an address says it: what it means, and how it is told in chips.

The names are those of the filter of the service, so that an address is a search that is saved. What
is empty is not said. A payload's field is `order=42` or `customer.city="Oslo"`, or a whole JSON
object; moments without a zone are UTC's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from wherry.app.asked_filter import asked_filter
from wherry.domain.state import State
from wherry.errors import InvalidOption, WherryError
from wherry.server.dashboard.asking import Visit
from wherry.server.dashboard.task_words import STATES, task_id

TEXTS: Final = {
    "queue": "Queue",
    "type": "Type",
    "tag": "Tag",
    "key": "Key",
    "worker": "Worker",
    "error": "Error has",
    "fingerprint": "Cause",
}
MOMENTS: Final = {
    "created_after": "Enqueued since",
    "created_before": "Enqueued before",
    "finished_after": "Ended since",
    "finished_before": "Ended before",
}
_NAMES: Final = ("state", "id", *TEXTS, "payload", *MOMENTS)
_FIELD: Final = re.compile(r"\s*([^={}\[\]\"\s][^={}\[\]\"]*?)\s*=\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Chip:
    """One thing that was said, and the address without it."""

    label: str
    text: str
    without: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for: `said` is as it stands in the address, `filter` as the service takes it.

    With `trouble` it cannot be looked for, and that says why.
    """

    said: Mapping[str, tuple[str, ...]]
    filter: Mapping[str, Any]
    trouble: str | None = None

    @classmethod
    def of(cls, visit: Visit) -> Wanted:
        """Return what the address, or the form, of a visit says."""
        said: dict[str, tuple[str, ...]] = {}
        for name in _NAMES:
            # A name may end with a space: nothing is taken from it.
            texts = tuple(dict.fromkeys(text for text in visit.lists.get(name, ()) if text.strip()))
            if texts:
                said[name] = texts
        any_text = visit.query.get("q", "").strip()
        if any_text:
            said |= {name: (text,) for name, text in _guessed(any_text).items()}
        try:
            found = _filter(said)
            asked_filter(**found)
        except WherryError as error:
            return cls(said, {}, str(error))
        return cls(said, found)

    @property
    def is_narrowed(self) -> bool:
        """Whether it is about less than all tasks of some states until some moment.

        Each question adds the moment at which it was asked.
        """
        return bool(set(self.said) - {"state", "created_before", "finished_before"})

    @property
    def states(self) -> tuple[State, ...]:
        """The states that are wanted; all, if none was said."""
        return tuple(self.filter.get("state") or State)

    @property
    def address(self) -> dict[str, Any]:
        """What an address has to say for the same search."""
        return {name: list(texts) for name, texts in self.said.items()}

    def first(self, name: str) -> str:
        """Return what was said of a field, or nothing."""
        return (self.said.get(name) or ("",))[-1]

    def chips(self, visit: Visit) -> list[Chip]:
        """Return what narrows, each with the address that leaves it out."""
        labels = {"id": "Number", **TEXTS, "payload": "Payload has", **MOMENTS}
        chips: list[Chip] = []
        for name, texts in self.said.items():
            left = {key: value for key, value in self.address.items() if key != name}
            if name == "state":
                text = ", ".join(_state_word(text) for text in texts)
                chips.append(Chip("State", text, visit.link("tasks", **left)))
            else:
                chips.append(Chip(labels[name], texts[-1], visit.link("tasks", **left)))
        return chips


def _guessed(text: str) -> dict[str, str]:
    """Return what somebody means who types into the one box for everything."""
    if task_id(text) is not None:
        return {"id": text}
    if text.startswith("{") or _FIELD.fullmatch(text):
        return {"payload": text}
    return {"error": text}


def _filter(said: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, texts in said.items():
        if name == "state":
            found[name] = texts
        elif name == "id":
            found[name] = task_id(texts[-1])
            if found[name] is None:
                raise InvalidOption("number", texts[-1], "a task's number is made of digits")
        elif name == "payload":
            found[name] = payload_text(texts[-1])
        elif name in MOMENTS:
            found[name] = moment(name, texts[-1])
        else:
            found[name] = texts[-1]
    return found


def payload_text(text: str) -> str:
    """Return the JSON object that a payload has to hold; digits stay digits."""
    if text.lstrip().startswith("{"):
        return text
    found = _FIELD.fullmatch(text)
    if found is None:
        raise InvalidOption("payload", text, 'say FIELD=VALUE, or an object such as {"order": 42}')
    path, value = found[1], found[2]
    try:
        json.loads(value)
    except ValueError:
        value = json.dumps(value)
    except RecursionError:
        raise InvalidOption("payload", text[:100], "has too many levels in one another") from None
    for name in reversed(path.split(".")):
        value = f"{{{json.dumps(name.strip())}: {value}}}"
    return value


def moment(name: str, text: str) -> datetime:
    """Return the moment that a text says, in UTC unless it says a zone. Raises InvalidOption."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOption(
            name, text, "say a moment such as 2026-11-30 or 2026-11-30T14:30 (UTC)"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _state_word(text: str) -> str:
    return STATES[State(text)][1] if text in set(State) else text

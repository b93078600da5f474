"""Turns what callers say of the tasks they look for into checked values, without any I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Unpack

from wherry.commands.finding import PAGE_LIMIT_BYTES, CountTasks, GroupDeadTasks, ListTasks
from wherry.domain.durations import Duration, seconds_from
from wherry.domain.failure import MESSAGE_LIMIT_BYTES
from wherry.domain.filter import Filter, FilterOptions
from wherry.domain.options import (
    LONGEST_KEY_BYTES,
    LONGEST_NAME_BYTES,
    LONGEST_TAG_BYTES,
    check_id,
    check_instant,
    check_integer,
    check_text,
)
from wherry.domain.state import State
from wherry.domain.stored import decode
from wherry.errors import InvalidOption, InvalidPayload
from wherry.tasks.payload import encode, encode_text

# A statement of ours ends after a minute, whatever a search is given.
LONGEST_SEARCH_SECONDS: Final = 60.0
MOST_COUNTED: Final = 100_000

# A field, such as `a` or `"a.b"`; the path of one, and what it is.
_NAME: Final = r'"[^"\x00]+"|[^."=\x00]+'
HELD: Final = rf"((?:{_NAME})(?:\.(?:{_NAME})){{0,19}})=[^\x00]*"
FINGERPRINT: Final = "[0-9a-f]{12}"
_LONGEST_VALUE_BYTES: Final = 65_536

_TEXTS: Final = {
    "queue": LONGEST_NAME_BYTES,
    "type": LONGEST_NAME_BYTES,
    "tag": LONGEST_TAG_BYTES,
    "key": LONGEST_KEY_BYTES,
    "worker": LONGEST_NAME_BYTES,
    "error": MESSAGE_LIMIT_BYTES,
}
_MOMENTS: Final = ("created_after", "created_before", "finished_after", "finished_before")


def asked_filter(**given: Unpack[FilterOptions]) -> Filter:
    """Return the checked filter. Raises InvalidOption, also for a state that does not exist."""
    said: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    found: dict[str, Any] = {}
    if "state" in said:
        found["states"] = _states(said["state"])
    if "id" in said:
        found["id"] = check_id(said["id"])
    for name, limit_bytes in _TEXTS.items():
        if name in said:
            found[name] = check_text(said[name], option=name, limit_bytes=limit_bytes)
    if "fingerprint" in said:
        text = check_text(said["fingerprint"], option="fingerprint", limit_bytes=12)
        if not re.fullmatch(FINGERPRINT, text):
            raise InvalidOption("fingerprint", text, "must be one of `wherry dead groups`")
        found["fingerprint"] = text
    if "payload" in said:
        found["payload_text"] = _object_text(said["payload"])
    if "older_than" in said:
        found["older_than_seconds"] = seconds_from(said["older_than"], option="older_than")
    for name in _MOMENTS:
        if name in said:
            found[name] = check_instant(said[name], option=name)
    return Filter(**found)


def asked_page(
    *,
    limit: int,
    after: int | None,
    before: int | None = None,
    timeout: Duration | None = None,
    limit_bytes: int = PAGE_LIMIT_BYTES,
    **filter: Unpack[FilterOptions],
) -> ListTasks:
    """Return the checked look at one page."""
    wanted = asked_filter(**filter)
    check_integer(limit, option="limit", least=1, most=1000)
    if after is not None:
        check_id(after, option="after")
    if before is not None:
        check_id(before, option="before")
        if after is not None:
            raise InvalidOption("before", before, "give after or before, not both")
    return ListTasks(wanted, limit, after, limit_bytes, before, asked_time(timeout))


def asked_count(
    *, most: int, timeout: Duration | None, **filter: Unpack[FilterOptions]
) -> CountTasks:
    """Return the checked count."""
    wanted = asked_filter(**filter)
    check_integer(most, option="most", least=1, most=MOST_COUNTED)
    return CountTasks(wanted, most, asked_time(timeout))


def asked_groups(*, timeout: Duration | None, **filter: Unpack[FilterOptions]) -> GroupDeadTasks:
    """Return the checked look at groups of dead tasks; of other states there are none."""
    wanted = asked_filter(**filter)
    return GroupDeadTasks(wanted, within_seconds=asked_time(timeout))


def asked_time(timeout: Duration | None) -> float | None:
    """Return how long a search may take, at most a minute; None if it was not said."""
    if timeout is None:
        return None
    seconds = seconds_from(timeout, option="timeout", zero_allowed=False)
    if seconds > LONGEST_SEARCH_SECONDS:
        raise InvalidOption("timeout", timeout, "must be at most a minute")
    return seconds


def _states(asked: Any) -> frozenset[State]:
    names = [asked] if isinstance(asked, str) else list(asked)
    try:
        return frozenset(State(name) for name in names)
    except ValueError:
        known = ", ".join(State)
        raise InvalidOption("state", asked, f"the states are {known}") from None


def _object_text(payload: Mapping[str, Any] | str) -> str:
    return encode_text(payload) if isinstance(payload, str) else encode(payload)


def held_text(pairs: Iterable[str]) -> str:
    """Return as JSON what a payload is to hold: `customer.id=42`, `to="42"`, `to=ann`.

    What stands behind the sign is JSON, or else text as it is. Fields within others are parted by
    dots; a name with a dot in it stands in quotes. Of two that contradict the last one counts.
    Raises InvalidOption for what has another form.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        matched = re.fullmatch(HELD, pair, re.DOTALL)
        if matched is None:
            raise InvalidOption("payload", pair, "must be PATH=VALUE, such as customer.id=42")
        path, value = pair[: matched.end(1)], pair[matched.end(1) + 1 :]
        names = [name.strip('"') for name in re.findall(_NAME, path)]
        inside = found
        for name in names[:-1]:
            if type(inside.get(name)) is not dict:
                inside[name] = {}
            inside = inside[name]
        inside[names[-1]] = _value(value)
    return encode(found)


def _value(text: str) -> Any:
    try:
        found = decode(encode_text(f'{{"value": {text}}}', limit_bytes=_LONGEST_VALUE_BYTES))
    except InvalidPayload:
        return text
    # What goes on behind the value was no JSON by itself.
    return found["value"] if len(found) == 1 else text

"""Encodes a value one by one, to name the path of what is wrong, or to find that nothing is.

This is the slow twin of `payload.py`'s quick pass and the only judge: whatever the quick pass did
not like ends here. Subclasses of JSON's types are read through the base type's own methods, so no
`__str__`, `__eq__` or `items` of a user's class can run, lie, or raise.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

from wherry.domain.failure import type_name
from wherry.domain.stored import HALF, HALF_DIGITS, MOST_DIGITS, MOST_LEVELS
from wherry.errors import InvalidPayload

TOO_LARGE_INT: int = 10**MOST_DIGITS

# Past this many times the limit, and a million characters, nobody needs the exact size.
_GIVE_UP_AFTER = 4
_GIVE_UP_NEVER_BEFORE = 1_000_000

_quoted = json.JSONEncoder(ensure_ascii=False).encode
_quoted_in_ascii = json.JSONEncoder().encode
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONGEST_STEP = 80

_type_of: Callable[[object], type] = type
_items_of = dict[Any, Any].items
# An OrderedDict keeps its order apart from the dict that it is.
_items_in_order = OrderedDict[Any, Any].items
_items_of_list = list[Any].copy

# Where a value stands: the trail of its container, and its key or index there.
_Trail: TypeAlias = "tuple[_Trail, str | int] | None"


def write_carefully(value: Any, *, limit_bytes: int, what: str, index: int | None) -> str:
    """Return *value* as the same text that `json.dumps` would give, or raise InvalidPayload."""
    writer = _Writer(limit_bytes=limit_bytes, what=what, index=index)
    writer.write(value, None)
    text = "".join(writer.parts)
    size_bytes = len(text.encode())
    if size_bytes > limit_bytes:
        refuse_size(f"{size_bytes:,}", limit_bytes, what=what, index=index)
    return text


def refuse_size(size: str, limit_bytes: int, *, what: str, index: int | None) -> NoReturn:
    """Raise InvalidPayload for a text that is *size* bytes long."""
    raise InvalidPayload(
        "$",
        f"the {what} takes {size} bytes; the limit is {limit_bytes:,} bytes:"
        " store the data elsewhere and pass a reference to it",
        index=index,
    )


def refuse_not_an_object(value: object, *, what: str, index: int | None) -> NoReturn:
    """Raise InvalidPayload for a payload that is no dict."""
    raise InvalidPayload(
        "$",
        f"the {what} must be a dict (a JSON object), not {type_name(type(value))}",
        index=index,
    )


class _Writer:
    def __init__(self, *, limit_bytes: int, what: str, index: int | None) -> None:
        self.parts: list[str] = []
        self.limit_bytes = limit_bytes
        self.what = what
        self.index = index
        self.open_boxes: list[int] = []
        self.written = 0
        self.give_up_after = max(_GIVE_UP_NEVER_BEFORE, limit_bytes * _GIVE_UP_AFTER)

    def write(self, value: Any, trail: _Trail) -> None:
        # issubclass on the type, not isinstance: an object may lie about its __class__.
        kind: type = _type_of(value)
        if value is None:
            self.put("null")
        elif kind is bool:
            self.put("true" if value else "false")
        elif issubclass(kind, str):
            self.put_text(str.__str__(value), trail)
        elif issubclass(kind, int):
            self.put_integer(int.__pos__(value), trail)
        elif issubclass(kind, float):
            self.put_float(float.__pos__(value), trail)
        elif issubclass(kind, dict):
            items = _items_in_order(value) if kind is OrderedDict else _items_of(value)
            self.put_object(items, id(value), trail)
        elif issubclass(kind, list):
            self.put_array(_items_of_list(value), id(value), trail)
        else:
            self.refuse(trail, _no_word_for(_type_of(value)))

    def put(self, text: str) -> None:
        self.parts.append(text)
        self.written += len(text)
        if self.written > self.give_up_after:
            # Parts that are shared many times over could otherwise fill the memory.
            refuse_size(
                f"more than {self.written - 1:,}",
                self.limit_bytes,
                what=self.what,
                index=self.index,
            )

    def put_text(self, text: str, trail: _Trail) -> None:
        if "\0" in text:
            self.refuse(trail, _NUL.format("this string", text.index("\0")))
        if not text.isascii() and (at := _surrogate_in(text)) is not None:
            self.refuse(trail, _SURROGATE.format("this string", ord(text[at]), at))
        self.put(_quoted(text))

    def put_integer(self, value: int, trail: _Trail) -> None:
        if not -TOO_LARGE_INT < value < TOO_LARGE_INT:
            self.refuse(
                trail, f"this integer has more than {MOST_DIGITS:,} digits: pass it as a string"
            )
        if -HALF < value < HALF:
            self.put(int.__repr__(value))
        else:
            high, low = divmod(abs(value), HALF)
            self.put(f"{'-' if value < 0 else ''}{high}{low:0{HALF_DIGITS}d}")

    def put_float(self, value: float, trail: _Trail) -> None:
        # NaN and the infinities: the only floats that do not cancel themselves out.
        if value - value != 0:
            self.refuse(
                trail, f"JSON has no word for the number {value}: pass None or a string instead"
            )
        self.put(float.__repr__(value))

    def put_object(self, items: Iterable[tuple[Any, Any]], box: int, trail: _Trail) -> None:
        self.enter(box, trail)
        before = "{"
        for key, item in items:
            if not issubclass(type(key), str):
                self.refuse(trail, _key_is_no_string(key))
            name = str.__str__(key)
            inside = (trail, name)
            if "\0" in name:
                self.refuse(inside, _NUL.format("this key", name.index("\0")))
            if not name.isascii() and (at := _surrogate_in(name)) is not None:
                self.refuse(inside, _SURROGATE.format("this key", ord(name[at]), at))
            self.put(f"{before}{_quoted(name)}:")
            self.write(item, inside)
            before = ","
        self.put("}" if before == "," else "{}")
        self.open_boxes.pop()

    def put_array(self, items: Iterable[Any], box: int, trail: _Trail) -> None:
        self.enter(box, trail)
        before = "["
        for position, item in enumerate(items):
            self.put(before)
            self.write(item, (trail, position))
            before = ","
        self.put("]" if before == "," else "[]")
        self.open_boxes.pop()

    def enter(self, box: int, trail: _Trail) -> None:
        if box in self.open_boxes:
            self.refuse(trail, "this contains itself: JSON has no word for a cycle")
        if len(self.open_boxes) == MOST_LEVELS:
            self.refuse(trail, f"nested more than {MOST_LEVELS} levels deep: make it flatter")
        self.open_boxes.append(box)

    def refuse(self, trail: _Trail, reason: str) -> NoReturn:
        raise InvalidPayload(_path(trail), reason, index=self.index)


_NUL = "{} holds NUL (U+0000) at character {}, which PostgreSQL cannot store: remove it"
_SURROGATE = (
    "{} holds the lone surrogate U+{:04X} at character {}, which is no valid unicode:"
    " replace it, or pass the raw bytes as base64 text"
)


def _path(trail: _Trail) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif len(step) <= _LONGEST_STEP and _IDENTIFIER.fullmatch(step):
            steps.append(f".{step}")
        else:
            shown = step if len(step) <= _LONGEST_STEP else f"{step[:_LONGEST_STEP]}…"
            steps.append(f"[{_quoted_in_ascii(shown)}]")
    return "$" + "".join(reversed(steps))


def _surrogate_in(text: str) -> int | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _key_is_no_string(key: object) -> str:
    # Only of these is it known that printing them runs nobody's code and takes no time.
    shown = f" ({key!r})" if type(key) in (bool, type(None), float) else ""
    if type(key) is int and -HALF < key < HALF:
        shown = f" ({key})"
    return (
        f"this object has a key of type {type_name(type(key))}{shown}, and JSON's keys are strings:"
        " make it a string, or pass a list of pairs"
    )


def _no_word_for(kind: type) -> str:
    name = type_name(kind)
    advice = next(
        (said for base, said in _ADVICE.items() if base in map(type_name, _get_mro(kind))), ""
    )
    if not advice and name.startswith("numpy."):
        advice = "pass value.item(), or value.tolist() for an array"
    return f"JSON has no word for {name}: {advice or 'pass plain dicts, lists, strings or numbers'}"


_get_mro = type.__dict__["__mro__"].__get__
# By name, so that none of these modules is imported for it.
_ADVICE = {
    "tuple": "pass a list, which is what would come back",
    "set": "pass a sorted list",
    "frozenset": "pass a sorted list",
    "bytes": "pass text, such as base64",
    "bytearray": "pass text, such as base64",
    "memoryview": "pass text, such as base64",
    "datetime.date": "pass value.isoformat()",
    "datetime.time": "pass value.isoformat()",
    "datetime.timedelta": "pass value.total_seconds()",
    "decimal.Decimal": "pass str(value)",
    "fractions.Fraction": "pass str(value)",
    "uuid.UUID": "pass str(value)",
    "pathlib.PurePath": "pass str(value)",
    "pathlib._local.PurePath": "pass str(value)",
    "enum.Enum": "pass value.value",
}

"""Reads back the JSON text of a payload or a result, exactly, and a fresh object each time.

`json.loads` alone answers NaN and overflown numbers as floats, dies of deep nesting at a depth that
depends on the caller's stack, and of long integers at a limit that is set outside of this program.
A text that one process can read and another cannot would be retried for ever, so the bounds here
are fixed: those of the door (`tasks/payload.py`), around which plain SQL can go.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, cast

from wherry.errors import DecodeError

# The bounds of what may be stored: containers within one another, and digits of an integer.
MOST_LEVELS = 64
MOST_DIGITS = 1000

# Integers are printed and read in halves of this many digits: whole ones may be too long for the
# interpreter's own limit, which users may lower to 640 digits.
HALF_DIGITS = 500
HALF: int = 10**HALF_DIGITS
# Of 641 digits in a row, every 31st character of a text holds 20 in a row; a list of short numbers
# does not, since 31 is prime and never keeps step with its commas.
_LONG_IN_SAMPLE = re.compile("[0-9]{20}")

_DOUBLE_DIGITS = 17
_BOXES = frozenset((dict, list))
# A shorter text cannot open and close more levels than there may be, nor hold too long an integer.
_SURELY_FLAT = 2 * (MOST_LEVELS + 1)
_TOO_DEEP = f"is nested more than {MOST_LEVELS} levels deep"
_JSON_NAMES = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def decode(text: str, *, what: str = "payload") -> dict[str, Any]:
    """Return the payload that was stored as *text*, a fresh one at each call.

    Raises DecodeError, and nothing else, for what cannot be given back: broken JSON, no object,
    more than 64 levels, an integer of more than 1,000 digits, a number beyond a float. Of a
    repeated key (only plain SQL can store one) the last value counts, as in jsonb.
    """
    if len(text) < _SURELY_FLAT:
        # Nearly every payload. Anything unusual about it is found again, and named, below.
        try:
            plain, end = _scan(text, 0)
        except (ValueError, StopIteration, _Refused, RecursionError):
            plain, end = None, -1
        if end == len(text) and type(plain) is dict:
            return cast("dict[str, Any]", plain)
    value = decode_result(text, what=what)
    if type(value) is not dict:
        raise DecodeError(f"the stored {what} is no JSON object but {json_name_of(value)}")
    return cast("dict[str, Any]", value)


def decode_result(text: str, *, what: str = "result") -> Any:
    """Return the JSON value that was stored as *text*, by the rules of `decode`."""
    # Looking at every integer on its own is slow, and needed only where one may be long.
    read = _read_long if len(text) > 640 and _LONG_IN_SAMPLE.search(text[::31]) else _read
    try:
        value = read(text)
    except _Refused as refused:
        reason = refused.reason
    except json.JSONDecodeError as error:
        reason = f"is broken JSON: {error.msg} at character {error.pos:,} of {len(text):,}"
    except RecursionError:
        reason = _TOO_DEEP
    else:
        # Counting brackets, also those in strings, is the quick way to know that it is flat enough.
        if text.count("{") + text.count("[") <= MOST_LEVELS or not _too_deep(value):
            return value
        reason = _TOO_DEEP
    raise DecodeError(f"the stored {what} {reason}")


def json_name_of(value: Any) -> str:
    """Return what JSON calls a value that was read and is no object."""
    return _JSON_NAMES[type(value)]


def read_strictly(text: str) -> Any:
    """Return the value of a JSON text that is not stored yet.

    Raises ValueError, with words that follow "the payload", for what is broken, would be read
    differently elsewhere (a key that stands twice in one object, digits that a float cannot hold),
    or is beyond our bounds.
    """
    try:
        value = _read_strictly(text)
    except _Refused as refused:
        raise ValueError(refused.reason) from None
    except json.JSONDecodeError as error:
        reason = f"is broken JSON: {error.msg} at character {error.pos:,} of {len(text):,}"
        raise ValueError(reason) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("{") + text.count("[") > MOST_LEVELS and _too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


class _Refused(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason


def _finite(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise _Refused(f"holds the number {literal[:40]}, which is beyond a float")
    return value


def _long_integer(literal: str) -> int:
    digits = literal.removeprefix("-")
    if len(digits) <= HALF_DIGITS:
        return int(literal)
    if len(digits) > MOST_DIGITS:
        raise _Refused(f"holds an integer of {len(digits):,} digits; the limit is {MOST_DIGITS:,}")
    value = int(digits[:-HALF_DIGITS]) * HALF + int(digits[-HALF_DIGITS:])
    return -value if literal.startswith("-") else value


def _no_json(literal: str) -> NoReturn:
    raise _Refused(f"holds {literal}, which is no JSON")


def _exact(literal: str) -> float:
    value = _finite(literal)
    digits = _digits_of(literal)
    if not value and digits.strip("0"):
        raise _Refused(f"holds the number {literal[:40]}, which is too near to 0 for a float")
    # A double is told by 17 digits; more of them say something that it cannot hold.
    if len(digits) > _DOUBLE_DIGITS and Decimal(literal) != Decimal(value):
        raise _Refused(
            f"holds the number {literal[:40]}, which has more digits than a float: pass it as a"
            " string"
        )
    return value


def _digits_of(literal: str) -> str:
    mantissa = literal.lower().partition("e")[0]
    return mantissa.lstrip("-").replace(".", "").strip("0")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = json.dumps(key if len(key) <= 80 else f"{key[:80]}…")
                raise _Refused(f"has the key {shown} twice in one object: leave one out")
            seen.add(key)
    return value


_read_strictly = json.JSONDecoder(
    object_pairs_hook=_each_once,
    parse_float=_exact,
    parse_int=_long_integer,
    parse_constant=_no_json,
).decode
_reader = json.JSONDecoder(parse_float=_finite, parse_constant=_no_json)
_read = _reader.decode
# The same without looking for blanks around the value; returns it and where it ends.
_scan = cast("Callable[[str, int], tuple[Any, int]]", _reader.scan_once)  # type: ignore[attr-defined]
_read_long = json.JSONDecoder(
    parse_float=_finite, parse_int=_long_integer, parse_constant=_no_json
).decode


def _too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MOST_LEVELS):
        level = [
            item
            for box in level
            for item in (box.values() if type(box) is dict else box)  # pyright: ignore[reportUnknownVariableType]
            if type(item) in _BOXES  # pyright: ignore[reportUnknownArgumentType]
        ]
        if not level:
            return False
    return True

"""Encodes payloads and results as JSON text, so that what goes in comes out equal.

The rule: a value is accepted if it is one of JSON's words (dict, list, str, int, float, bool, None,
and subclasses of these such as StrEnum, IntEnum or OrderedDict) and what comes back from the
database is `==` to it. Subclasses come back as their base type. Everything else is refused at the
door, with its path: `json.dumps` alone would turn tuples into lists and the key 1 into "1" without
a word, and let through NULs, lone surrogates and digits that are refused only later.

Encoding is two passes: a quick look at the type of every value, then one C-speed `json.dumps`.
Whatever either finds suspicious is encoded again by `careful.py`, which finds the path or a reason
to accept. No method of the user's objects is ever called. Decoding is in `domain/stored.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, cast

from wherry.config import PAYLOAD_LIMIT_BYTES
from wherry.domain.stored import MOST_LEVELS, json_name_of, read_strictly
from wherry.errors import InvalidPayload
from wherry.tasks.careful import (
    TOO_LARGE_INT,
    refuse_not_an_object,
    refuse_size,
    write_carefully,
)

_NEITHER_INTS_NOR_BOXES: frozenset[type] = frozenset((str, float, bool, type(None)))
_INTS: set[type] = {int}
_LONG_LIST = 16

_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)
# What its encode() makes anew at each call, for twice what a small payload costs.
_parts = cast(
    "Callable[[Any, int], Iterable[str]]",
    c_make_encoder(None, _encoder.default, encode_basestring, None, ":", ",", False, False, False),
)


def encode(
    payload: Mapping[str, Any],
    *,
    limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    what: str = "payload",
    index: int | None = None,
) -> str:
    """Return *payload* (a dict) as JSON text in the order of its keys.

    Raises InvalidPayload with the path of what cannot come back equal; *index* is the position in
    a batch. The text is valid for PostgreSQL's json and, cast, for jsonb.
    """
    if not issubclass(type(payload), dict):
        refuse_not_an_object(payload, what=what, index=index)
    return encode_result(payload, limit_bytes=limit_bytes, what=what, index=index)


def encode_result(
    value: Any,
    *,
    limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    what: str = "result",
    index: int | None = None,
) -> str:
    """Return *value* as JSON text by the rules of `encode`, but of any of JSON's types.

    For a value that cannot be encoded InvalidPayload is raised and nothing else, whatever its
    class does, so that the failure itself can always be stored.
    """
    if _looks_plain(value, limit_bytes):
        try:
            text = "".join(_parts(value, 0))
        except ValueError:
            # NaN, an infinity, or more digits than this interpreter is set to print.
            return write_carefully(value, limit_bytes=limit_bytes, what=what, index=index)
        # The text `\\u0000` is innocent in a string that holds a backslash.
        if "\\u0000" not in text:
            try:
                size_bytes = len(text) if text.isascii() else len(text.encode())
            except UnicodeEncodeError:
                pass
            else:
                if size_bytes <= limit_bytes:
                    return text
                refuse_size(f"{size_bytes:,}", limit_bytes, what=what, index=index)
    return write_carefully(value, limit_bytes=limit_bytes, what=what, index=index)


def encode_text(
    text: str,
    *,
    limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    what: str = "payload",
    index: int | None = None,
) -> str:
    """Return a payload that somebody else wrote as JSON as the text that `encode` would give.

    Raises InvalidPayload with the path of what `encode` would refuse, and the position of what is
    no JSON: NaN, a key that stands twice in one object, anything that cannot be read back equal.
    """
    value = _read(text, limit_bytes=limit_bytes, what=what, index=index)
    if type(value) is not dict:
        # Who wrote JSON need not know what Python calls it.
        reason = f"the {what} must be a JSON object, not {json_name_of(value)}"
        raise InvalidPayload("$", reason, index=index)
    return encode(cast("dict[str, Any]", value), limit_bytes=limit_bytes, what=what, index=index)


def encode_result_text(
    text: str,
    *,
    limit_bytes: int = PAYLOAD_LIMIT_BYTES,
    what: str = "result",
    index: int | None = None,
) -> str:
    """Return a result that somebody else wrote as JSON, by the rules of `encode_text`."""
    value = _read(text, limit_bytes=limit_bytes, what=what, index=index)
    return encode_result(value, limit_bytes=limit_bytes, what=what, index=index)


def _read(text: str, *, limit_bytes: int, what: str, index: int | None) -> Any:
    # An escaped character takes up to twelve bytes (a pair of `\\uXXXX`), and blanks count for
    # nothing; beyond that nothing of it is worth reading.
    if len(text) > limit_bytes * 12:
        refuse_size(f"more than {limit_bytes * 12:,}", limit_bytes, what=what, index=index)
    try:
        return read_strictly(text)
    except ValueError as error:
        raise InvalidPayload("$", f"the {what} {error}", index=index) from None


def _looks_plain(value: Any, most_values: int) -> bool:
    """Say whether *value* holds exact JSON types only, in shape and number as we take them.

    Errs towards False. Ends after *most_values*: shared or circular parts may seem endless.
    """
    if type(value) is dict:
        # Nearly every payload is one of a few plain values, and needs no walk.
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            kind = type(item)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if kind not in _NEITHER_INTS_NOR_BOXES and not (
                kind is int and -TOO_LARGE_INT < item < TOO_LARGE_INT
            ):
                break
            if type(key) is not str:  # pyright: ignore[reportUnknownArgumentType]
                return False
        else:
            return True
    level: list[Any] = [[value]]
    seen = 0
    for _ in range(MOST_LEVELS + 1):
        below: list[Any] = []
        for box in level:
            seen += len(box)
            if seen > most_values and len(level) > 1:
                return False
            items = box
            shape = type(box)  # pyright: ignore[reportUnknownVariableType]
            if shape is dict:
                for key in box:
                    if type(key) is not str:
                        return False
                items = box.values()
            elif len(box) > _LONG_LIST:
                # Long lists mostly hold one type, which is told at C speed.
                kinds: set[type] = set(map(type, items))
                if kinds <= _NEITHER_INTS_NOR_BOXES:
                    continue
                if kinds == _INTS:
                    if min(items) > -TOO_LARGE_INT and max(items) < TOO_LARGE_INT:
                        continue
                    return False
            for item in items:
                kind = type(item)  # pyright: ignore[reportUnknownVariableType]
                if kind is str:
                    continue
                if kind is int:
                    if -TOO_LARGE_INT < item < TOO_LARGE_INT:
                        continue
                    return False
                if kind is dict or kind is list:
                    below.append(item)
                elif kind not in _NEITHER_INTS_NOR_BOXES:
                    return False
        if not below:
            return True
        level = below
    return False

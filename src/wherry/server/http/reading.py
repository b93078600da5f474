"""Reads requests: bodies within bounds of size and time, JSON without twice-said keys, queries.

msgspec takes the last of two equal keys. Whoever reads the same text elsewhere may take the first,
so such a body is refused, wherever the keys stand. What is inside a payload or a result is judged
where these are stored, so that one bad payload spoils no other task of its batch.
"""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from typing import Any, Final, NoReturn, TypeVar, cast, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect
from starlette.datastructures import Headers
from starlette.types import Receive

from wherry.server.http import fields
from wherry.server.http.refusals import Gone, Refused
from wherry.server.http.setting_apart import set_apart

T = TypeVar("T", bound=msgspec.Struct)

# Slower than this, on the whole, nobody may send a body, or read an answer: 64 KiB a second after
# the time that every request has.
SLOWEST_BYTES_A_SECOND: Final = 64 * 1024
# From here on looking for keys that stand twice takes long enough to be felt by others.
_LARGE_BYTES: Final = 128 * 1024
_MOST_PARAMETERS: Final = 100
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_JUDGED_ELSEWHERE: Final = frozenset({"payload", "merge_payload", "result"})
_AT: Final = re.compile(r" - at `([^`]*)`$")
_STEP: Final = re.compile(r"\.[^.\[]+|\[[^\]]*\]")
_NAMED: Final = re.compile(r"^Object (?:contains unknown|missing required) field `([^`]*)`")
_PATTERN: Final = re.compile(r"^Expected `str` matching regex '(.*)'$", re.DOTALL)


def _forms() -> dict[str, str]:
    found: dict[str, str] = {}
    for alias in vars(fields).values():
        for meta in get_args(alias)[1:] if get_origin(alias) is not None else ():
            if isinstance(meta, msgspec.Meta) and meta.pattern and meta.description:
                found[repr(meta.pattern)[1:-1]] = meta.description
    return found


# What a pattern means, for people.
_FORMS: Final = _forms()


def check_media(headers: Headers) -> None:
    """Refuse what is no plain JSON. No form of a web page can send such a type by itself."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        detail = f"the content encoding {encoding[:40]!r} is not taken: send the body as it is"
        raise Refused(
            415, "UNSUPPORTED_MEDIA_TYPE", detail, headers={"accept-encoding": "identity"}
        )
    media, _, parameters = headers.get("content-type", "").partition(";")
    charset = parameters.replace(" ", "").replace('"', "").strip().lower()
    if media.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        detail = "send JSON, with the header Content-Type: application/json"
        raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", detail)


def check_accepts(headers: Headers, media: str) -> None:
    """Refuse somebody who does not take *media*."""
    accept = headers.get("accept", "").strip()
    if not accept:
        return
    main = media.partition("/")[0]
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        unwanted = any(re.fullmatch(r"q=0(?:\.0*)?", p) for p in parameters)
        if name in (media, f"{main}/*", "*/*") and not unwanted:
            return
    raise Refused(406, "NOT_ACCEPTABLE", f"this is only to be had as {media}: accept that")


async def read_body(
    receive: Receive, headers: Headers, *, limit_bytes: int, timeout_seconds: float
) -> bytes:
    """Return the body. Raises Refused for one that is too large or too slow, Gone for none."""
    said = headers.get("content-length", "")
    if said.isdecimal() and (len(said) > 18 or int(said) > limit_bytes):
        raise _too_large(limit_bytes)
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    chunks: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(timeout_seconds) as limit:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                chunk = message.get("body", b"")
                size_bytes += len(chunk)
                if size_bytes > limit_bytes:
                    raise _too_large(limit_bytes)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
                more = size_bytes / SLOWEST_BYTES_A_SECOND
                limit.reschedule(began_at + timeout_seconds + more)
    except TimeoutError:
        detail = f"the body was not here after {timeout_seconds:g} s: send it faster"
        raise Refused(408, "TOO_SLOW", detail, headers={"connection": "close"}) from None


def _too_large(limit_bytes: int) -> Refused:
    detail = f"the body is too large; the limit is {limit_bytes:,} bytes: split it"
    return Refused(413, "TOO_LARGE", detail)


async def read_json(body: bytes, kind: type[T]) -> T:
    """Return the body as a value of *kind*. Raises Refused, with the path of what is wrong."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        _refuse(f"the body is no UTF-8: byte {error.start:,} begins no character")
    large = len(body) > _LARGE_BYTES
    try:
        value = decode(body, kind)
    except Malformed:
        apart = await asyncio.to_thread(set_apart, body, kind) if large else set_apart(body, kind)
        if apart is None:
            raise
        value, text = apart[0], apart[1].decode()
    # What stands twice is looked for in what is known to have the right shape.
    if large:
        await asyncio.to_thread(refuse_twice, text)
    else:
        refuse_twice(text)
    return value


def decode(data: bytes | msgspec.Raw, kind: type[T], *, at: str = "") -> T:
    """Return JSON as a value of *kind*; *at* is the path of where it stands."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _unfit(str(error), at=at, kind=kind) from None
    except msgspec.DecodeError as error:
        raise Malformed(_told(error, bytes(cast("Any", data))), field=at or None) from None
    except RecursionError:
        _refuse("the body is nested too deep", field=at or None)


class Malformed(Refused):
    """A body that is no JSON."""

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(400, "INVALID_REQUEST", detail, field=field)


def _told(error: msgspec.DecodeError, data: bytes) -> str:
    """Return what is wrong with JSON that is malformed."""
    # It is also called truncated, or the end of something else.
    if half := _HALF.match(data):
        told = f"the escape {half[1].decode()} at byte {half.start(1):,} is half of a pair"
        return f"JSON is malformed: {told}: send both, or neither"
    # Its own words are about bytes, so they hold nothing of the body; nor does one of these.
    place = _BYTE.search(str(error))
    if place and (word := _WORD.match(data, max(0, int(place[1]) - 1))):
        told = f"{word[1].decode()} at byte {word.start(1):,}"
        return f"JSON is malformed: {told}: JSON has no such word, send null or a text"
    return str(error)


_BYTE: Final = re.compile(r"\(byte ([0-9]+)\)$")
# Where a number begins with a sign, it is the byte behind that which is to blame.
_WORD: Final = re.compile(rb"[^-\w]?([-+]?(?:NaN|nan|Infinity|inf|undefined|None|True|False))\b")
# What stands before the first surrogate without its other half, and that.
_HALF: Final = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
    rb"(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _unfit(text: str, *, at: str, kind: type[msgspec.Struct]) -> Refused:
    found = _AT.search(text)
    inside = found[1].removeprefix("$") if found else ""
    path = at + inside
    said = text[: found.start()] if found else text
    if named := _NAMED.search(said):
        path = f"{path}.{named[1]}"
    if pattern := _PATTERN.match(said):
        said = f"does not have the right form. {_FORMS.get(pattern[1], '')}".rstrip()
    elif form := _form_at(_known(kind), _STEP.findall(inside)):
        said = f"{said}. {form}"
    return Refused(400, "INVALID_REQUEST", said, field=path.removeprefix(".")[:200] or None)


_known: Final = cache(inspect.type_info)


def _form_at(kind: inspect.Type, steps: list[str]) -> str:
    """Return, for people, what the text at a path has to be; nothing where it is to be no text."""
    match kind:
        case inspect.Metadata(extra_json_schema={"format": "date-time"}) if not steps:
            return "A time, such as `2030-01-31T12:00:00Z`"
        case inspect.Metadata(type=inner):
            return _form_at(inner, steps)
        case inspect.UnionType(types=kinds):
            return next(filter(None, (_form_at(inner, steps) for inner in kinds)), "")
        case inspect.StructType(fields=members) if steps:
            found = next((m.type for m in members if f".{m.encode_name}" == steps[0]), None)
            return "" if found is None else _form_at(found, steps[1:])
        case inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner) if steps:
            return _form_at(inner, steps[1:])
        case inspect.EnumType(cls=values) if not steps:
            return f"There are {', '.join(str(one.value) for one in values)}"
        case inspect.StrType(pattern=str(pattern)) if not steps:
            return _FORMS.get(repr(pattern)[1:-1], "")
        case _:
            return ""


def _refuse(detail: str, *, field: str | None = None) -> NoReturn:
    raise Refused(400, "INVALID_REQUEST", detail, field=field)


class _Twice:
    """The mark of an object in which a key stands twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def refuse_twice(text: str) -> None:
    """Raise Refused if a key stands twice in any object of *text* outside of payload and result."""
    try:
        found = _look_for_twice(text)
    except RecursionError:
        _refuse("the body is nested too deep")
    except ValueError as error:
        _refuse(f"JSON is malformed: {str(error)[:100]}")
    if isinstance(found, _Twice):
        _refuse(f"the key {found.key[:80]!r} stands twice in one object: leave one out")


def _mark_twice(pairs: list[tuple[str, Any]]) -> _Twice | None:
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        seen: set[str] = set()
        return _Twice(next(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
    for name, value in pairs:
        if name in _JUDGED_ELSEWHERE:
            continue
        if type(value) is _Twice:
            return value
        if type(value) is list:
            for item in value:  # pyright: ignore[reportUnknownVariableType]
                if type(item) is _Twice:  # pyright: ignore[reportUnknownArgumentType]
                    return item
    return None


# Numbers are not looked at, only stepped over: of whatever length, and at no cost.
_look_for_twice: Final = json.JSONDecoder(
    object_pairs_hook=_mark_twice, parse_int=len, parse_float=len
).decode


def read_query(query: bytes, kind: type[T]) -> T:
    """Return the query's parameters as a value of *kind*; unknown and repeated ones are refused."""
    kinds = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        _refuse("the query is no list of name=value in percent-encoded UTF-8, of at most 100")
    for name, value in pairs:
        if _holds(list, kinds.get(name)):
            given.setdefault(name, []).append(value)
        elif name in given:
            _refuse("this parameter is given twice", field=name[:80])
        elif _holds(int, kinds.get(name)):
            if not _INTEGER.fullmatch(value):
                _refuse("must be a whole number", field=name)
            given[name] = int(value)
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _unfit(str(error), at="", kind=kind) from None


def _holds(part: type, kind: Any) -> bool:
    return kind is part or get_origin(kind) is part or any(_holds(part, k) for k in get_args(kind))

"""Makes text that is safe to show: other people's data must not drive the reader's terminal.

Whoever may enqueue a task chooses its type, payload and errors. Everything that comes from the
database goes through `plain` before it reaches a terminal; JSON is written in ASCII.
"""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Any, cast

_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]")
_LONGEST_LINE = 200


class RawJSON(str):
    """JSON text that stands in a document exactly as it was stored, digit by digit."""

    __slots__ = ()


def plain(text: str, *, lines: bool = False) -> str:
    """Return *text* with everything that is no visible character written as an escape.

    That is control characters, and the invisible ones that turn the order of letters around.
    With *lines* line ends stay, and tabs become spaces.
    """
    if lines:
        text = text.replace("\r\n", "\n").replace("\t", "    ")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") or _is_space(char) else _escape(char)
        for char in text
    )


def first_line(text: str | None) -> str:
    """Return the first line of *text*, made plain and not too long."""
    line = plain((text or "").lstrip().partition("\n")[0])
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def rfc3339(instant: datetime | None) -> str | None:
    """Return *instant* in UTC, as in RFC 3339, for programs."""
    if instant is None:
        return None
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def moment(instant: datetime | None) -> str:
    """Return *instant* in the reader's own timezone, with its offset."""
    return "" if instant is None else instant.astimezone().isoformat(" ", "milliseconds")


def json_text(value: Any, *, indent: str = "") -> str:
    """Return *value* as indented JSON in ASCII; RawJSON goes in as it is but for such escapes."""
    deeper = indent + "  "
    if isinstance(value, RawJSON):
        return _NOT_ASCII.sub(_json_escape, value)
    if isinstance(value, datetime):
        return json.dumps(rfc3339(value))
    if value and isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        lines = [f"{json.dumps(name)}: {json_text(each, indent=deeper)}" for name, each in fields]
        return "{\n" + ",\n".join(deeper + line for line in lines) + f"\n{indent}}}"
    if value and isinstance(value, list | tuple):
        lines = [json_text(each, indent=deeper) for each in cast("list[Any]", value)]
        return "[\n" + ",\n".join(deeper + line for line in lines) + f"\n{indent}]"
    return json.dumps(value)


def _is_space(char: str) -> bool:
    return unicodedata.category(char) == "Zs"


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    # Outside its strings JSON holds no such character but tabs and returns, which mean nothing.
    return " " if found[0] in "\t\r" else json.dumps(found[0])[1:-1]

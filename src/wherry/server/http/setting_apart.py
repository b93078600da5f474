"""Sets apart, in a body that is no JSON, the items of a batch whose words or texts are to blame.

`NaN` and `Infinity`, as some programs write them, and half of a surrogate pair spoil a whole body,
and a batch of a thousand tasks would be refused without a word on which of them it was. Here each
such word is replaced by a text that nobody else can have written; if the body can be read then, the
items get their own words back, and are refused one by one, by whoever reads them.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, Final, TypeVar, cast

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

# More than there are items in any batch.
_MOST_WORDS: Final = 10_000
# In steps of so many words, between which other threads get their turn.
_GOOD: Final = re.compile(
    rb"(?:[\s\[\]{}:,]++"
    rb'|"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb'|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"'
    rb"|(?:true|false|null|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+)"
    rb'(?=[\s\[\]{}:,"]|\Z)'
    rb"){0,10000}+"
)
_BAD: Final = re.compile(rb'[^\s\[\]{}:,"]++|"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def set_apart(body: bytes, kind: type[T]) -> tuple[T, bytes] | None:
    """Return *body* as a value of *kind* whose bad items are left to whoever reads them.

    And a body of the same shape that is JSON. None if not only items are to blame.
    """
    mark = secrets.token_hex(16).encode()
    words: list[bytes] = []
    parts: list[bytes] = []
    at = 0
    while at < len(body):
        good = cast("re.Match[bytes]", _GOOD.match(body, at))
        parts.append(good[0])
        at = good.end()
        if good[0] or at == len(body):
            continue
        bad = _BAD.match(body, at)
        if bad is None or len(words) == _MOST_WORDS:
            return None
        parts.append(b'"%s%d."' % (mark, len(words)))
        words.append(bad[0])
        at = bad.end()
    marked = b"".join(parts)
    try:
        value = msgspec.json.decode(marked, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
    return (value, marked) if _restored(value, mark, words) else None


def _restored(value: msgspec.Struct, mark: bytes, words: list[bytes]) -> bool:
    """Give the items of *value* their words back; False if some stand elsewhere."""
    marked = re.compile(rb'"%s([0-9]+)\."' % mark)
    count = 0
    for name in value.__struct_fields__:
        given: object = getattr(value, name)
        items = cast("list[object]", given) if isinstance(given, list) else []
        for n, item in enumerate(items):
            if isinstance(item, msgspec.Raw):
                raw = bytes(cast("Any", item))
                text, found = marked.subn(lambda one: words[int(one[1])], raw)
                if found:
                    items[n] = msgspec.Raw(text)
                    count += found
    return count == len(words)

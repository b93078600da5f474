"""Stored JSON as pages set it: a text that is never read into numbers.

What is shown is what `hiding.py` gives. Here it is parted into keys and values for the eye, or told
in a line. Nothing here parses more than where a value begins and ends, so that a number stays the
digits that it is, and no depth is too deep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from wherry.server.dashboard.hiding import HIDDEN, Rules

_TOKEN: Final = re.compile(
    r'(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<mark>[{}\[\],:])|(?P<plain>[^\s{}\[\],:"]+)', re.DOTALL
)
_COLOURED: Final = re.compile(
    rf'(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")(?P<colon>\s*:)?|(?P<hidden>{re.escape(HIDDEN)})',
    re.DOTALL,
)
_OPENS, _CLOSES = frozenset("{["), frozenset("}]")


class Piece(NamedTuple):
    """Some characters of a text that is shown: `kind` is key, text, hidden, or empty."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be shown: its pieces, and how many characters are left out at its end."""

    pieces: tuple[Piece, ...]
    left_out: int = 0


def parted(shown: str, *, most: int) -> Text:
    """Return JSON that may be shown in pieces, no longer than *most* characters."""
    left_out = max(0, len(shown) - most)
    return Text(tuple(_pieces(shown[:most])), left_out)


def _pieces(shown: str) -> Iterator[Piece]:
    at = 0
    for found in _COLOURED.finditer(shown):
        if found.start() > at:
            yield Piece("", shown[at : found.start()])
        if found["hidden"] is not None:
            yield Piece("hidden", found["hidden"])
        else:
            yield Piece("key" if found["colon"] else "text", found["text"])
            if found["colon"]:
                yield Piece("", found["colon"])
        at = found.end()
    if at < len(shown):
        yield Piece("", shown[at:])


def brief_json(stored: str, *, of: str, rules: Rules, most: int) -> str:
    """Return a line of stored JSON without what is not to be shown, *most* characters at most.

    What is behind is not even looked at, however much it is. *of*: payload, result or headers.
    """
    said: list[str] = []
    length = 0
    for text in _brief_pieces(stored, of, rules):
        said.append(text)
        length += len(text)
        if length > most:
            return f"{''.join(said)[: most - 1]}…"
    return "".join(said)


def _brief_pieces(stored: str, of: str, rules: Rules) -> Iterator[str]:
    hidden_depth = 0
    for token in _tokens(stored, of):
        step = (token.text in _OPENS) - (token.text in _CLOSES) if token.is_mark else 0
        if hidden_depth:
            hidden_depth += step
        elif token.path and rules.hide(token.path):
            yield HIDDEN
            hidden_depth = max(step, 0)
        elif token.text in (":", ",") and token.is_mark:
            yield f"{token.text} "
        else:
            yield _readable(token.text) if token.text.startswith('"') else token.text


def _readable(text: str) -> str:
    """Return a JSON string with its letters in place of their escapes."""
    try:
        plain = json.dumps(json.loads(text), ensure_ascii=False)
        plain.encode()
    except ValueError:
        return text
    return plain


@dataclass(slots=True)
class _Box:
    """An object or array that is open; `key` or `n` is how a path goes to the value at hand."""

    is_object: bool
    key: str = ""
    n: int = 0
    wants_key: bool = False

    @property
    def step(self) -> str:
        return self.key if self.is_object else str(self.n)


class _Token(NamedTuple):
    """`path` is empty for what begins no value."""

    text: str
    is_mark: bool
    path: tuple[str, ...] = ()


def _tokens(text: str, of: str) -> Iterator[_Token]:
    boxes: list[_Box] = []
    for found in _TOKEN.finditer(text):
        is_mark = found["mark"] is not None
        token = _Token(found[0], is_mark)
        box = boxes[-1] if boxes else None
        if not is_mark and found["text"] is not None and box is not None and box.wants_key:
            box.key, box.wants_key = _name(token.text), False
            yield token
        elif not is_mark or token.text in _OPENS:
            yield token._replace(path=(of, *(each.step for each in boxes)))
            if is_mark:
                boxes.append(_Box(token.text == "{", wants_key=token.text == "{"))
        else:
            if token.text in _CLOSES and boxes:
                boxes.pop()
            elif token.text == "," and box is not None:
                box.n += 1
                box.wants_key = box.is_object
            yield token


def _name(text: str) -> str:
    try:
        name: str = json.loads(text)
    except ValueError:
        return text
    return name

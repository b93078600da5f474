"""Shows JSON as it was stored, without what an operator has said is not to be shown.

A rule is a path such as `payload.password`: its first name is what it is about (payload, result or
headers), the others lead into it; of a list each item counts as a name, its number. `*` stands for
any part of one name, `**` for any names, also for none: `payload.**.password`.

Numbers are shown as they were stored, digit by digit: no parser has made floats of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from wherry.errors import ConfigError

SUBJECTS: Final = ("payload", "result", "headers")
HIDDEN: Final = "••••••"
_INDENT: Final = "  "


class _Number(str):
    """A number, as the text that was stored."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """An object, with all of its keys in their order, also those that stand twice."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What is not to be shown, as paths."""

    paths: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, texts: Sequence[str]) -> Rules:
        """Return the rules that these texts are. Raises ConfigError for one that hides nothing."""
        paths: list[tuple[str, ...]] = []
        for text in texts:
            path = tuple(text.split("."))
            if len(path) < 2 or path[0] not in SUBJECTS or not all(path):
                known = ", ".join(f"{subject}.NAME" for subject in SUBJECTS)
                raise ConfigError(f"there is nothing to hide at {text!r}: say {known}, or deeper")
            paths.append(path)
        return cls(tuple(paths))

    def hide(self, path: tuple[str, ...]) -> bool:
        """Say whether what stands at *path* is not to be shown."""
        return any(_matches(rule, path) for rule in self.paths)


def shown_json(text: str, *, of: str, rules: Rules) -> str:
    """Return JSON text with a line for each value, and without what is not to be shown.

    What is no JSON is shown as it is, unless there is a rule for *of*: then not at all.
    """
    try:
        value: Any = _read(text)
        return "".join(_written(value, (of,), rules, ""))
    except (ValueError, RecursionError):
        if any(path[0] == of for path in rules.paths):
            return f"{HIDDEN} (what is stored is no readable JSON, and some of it is to be hidden)"
        return text


def _pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    return _Pairs(pairs)


def _number(text: str) -> _Number:
    # Functions, and not the classes themselves: between two of them other threads get their turn.
    return _Number(text)


_read: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_number, parse_float=_number, parse_constant=_number
).decode


def _written(value: Any, path: tuple[str, ...], rules: Rules, indent: str) -> Iterator[str]:
    if rules.hide(path):
        yield HIDDEN
    elif isinstance(value, _Number):
        yield str(value)
    elif isinstance(value, _Pairs):
        named = [(f"{_text(name)}: ", name, inner) for name, inner in value]
        yield from _block("{", named, "}", path, rules, indent)
    elif _is_list(value):
        items = [("", str(n), item) for n, item in enumerate(value)]
        yield from _block("[", items, "]", path, rules, indent)
    elif isinstance(value, str):
        yield _text(value)
    else:
        yield json.dumps(value)


def _block(
    opening: str,
    items: Sequence[tuple[str, str, Any]],
    closing: str,
    path: tuple[str, ...],
    rules: Rules,
    indent: str,
) -> Iterator[str]:
    yield opening
    inner = indent + _INDENT
    for n, (before, name, value) in enumerate(items):
        yield f"{',' if n else ''}\n{inner}{before}"
        yield from _written(value, (*path, name), rules, inner)
    yield f"\n{indent}{closing}" if items else closing


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _text(text: str) -> str:
    """Return a string as JSON; half of a pair of surrogates can only be written as an escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def _matches(rule: tuple[str, ...], path: tuple[str, ...]) -> bool:
    if not rule:
        return not path
    if rule[0] == "**":
        return any(_matches(rule[1:], path[n:]) for n in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], rule[0]) and _matches(rule[1:], path[1:])

"""How findings say numbers, names and other people's statements.

A statement that another session runs may hold payloads and names in its literals: they are left
out, and the rest is cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wherry.domain.counting import count

_LONGEST_STATEMENT = 120
_MOST_NAMES = 5
# PostgreSQL cuts the text of a long statement anywhere: what is not closed runs to the end.
_LITERAL = re.compile(
    r"'(?:[^']|'')*(?:'|\Z)|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)|/\*.*?(?:\*/|\Z)|--[^\n]*",
    re.DOTALL,
)


def size(count_bytes: float) -> str:
    """Return a number of bytes in a unit that can be read."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count_bytes < 1024:
            return f"{count_bytes:.0f} {unit}"
        count_bytes /= 1024
    return f"{count_bytes:.1f} TiB"


def count_up_to(most: int, n: int, what: str) -> str:
    """Return *n* and *what*, of which no more than *most* were counted."""
    return f"{'at least ' if n >= most else ''}{count(n, what)}"


def waits(n: int) -> str:
    """Return the verb for *n* that wait."""
    return "waits" if n == 1 else "wait"


def names(found: Sequence[str]) -> str:
    """Return some names, and how many there are more."""
    shown = ", ".join(found[:_MOST_NAMES])
    more = len(found) - _MOST_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def statement(text: str | None) -> str:
    """Return the beginning of a statement on one line, without its literals and comments."""
    bare = " ".join(
        _LITERAL.sub(lambda found: "'…'" if found[0][0] in "'$" else "", text or "").split()
    )
    return bare if len(bare) <= _LONGEST_STATEMENT else f"{bare[: _LONGEST_STATEMENT - 1]}…"

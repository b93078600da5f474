"""Says how many there are of something."""

from __future__ import annotations


def count(n: int, what: str) -> str:
    """Return *n* and *what*, in the plural unless there is one."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"

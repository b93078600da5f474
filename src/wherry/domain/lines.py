"""Puts on one line what a driver says on several."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """Return *text* on one line; what stood on lines of its own is parted by semicolons."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())

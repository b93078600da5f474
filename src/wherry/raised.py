"""What all that we raise has in common: it comes out of another process as it was, and it is brief.

A pool of processes that cannot read what a call raised ends, or waits for it for ever. By itself an
exception is made anew from its message, which few of ours take.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


class Raised(Exception):
    """An exception that can be pickled and copied, whatever its `__init__` takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _as_it_was, (type(self), self.args), self.__dict__


def _as_it_was(kind: type[Raised], args: tuple[Any, ...]) -> Raised:
    return kind.__new__(kind, *args)


def in_brief(value: object) -> str:
    """A bounded repr: an error about a huge value must not be huge itself."""
    try:
        text = str(value) if isinstance(value, datetime | timedelta) else repr(value)
    except Exception:  # noqa: BLE001 - its own repr is broken; the error must still come out
        text = f"<unprintable {type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:60]}…{text[-15:]}"

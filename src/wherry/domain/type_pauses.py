"""What is said of the pauses of a type: one in all queues and those in single ones are apart."""

from __future__ import annotations

from collections.abc import Iterable

from wherry.domain.task import PausedType

_MOST_NAMED = 3


def where(pause: PausedType) -> str:
    """Return where a type is paused, as people say it."""
    return "in all queues" if pause.queue is None else f"in {pause.queue}"


def pauses_of(type: str, found: Iterable[PausedType]) -> list[PausedType]:
    """Return those of a type among all that were found, that in all queues first."""
    pauses = [pause for pause in found if pause.type == type]
    return sorted(pauses, key=lambda pause: (pause.queue is not None, pause.queue or ""))


def places(pauses: list[PausedType]) -> str:
    """Return where a type is paused, as a list of a few; the others are counted."""
    named = [where(pause) for pause in pauses[:_MOST_NAMED]]
    more = len(pauses) - len(named)
    if more:
        named.append(f"in {more:,} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"

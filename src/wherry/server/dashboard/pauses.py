"""Types that are paused: where, how many tasks wait for that, and what is set aside besides.

A task of a paused type is set aside (`parked`) as one is whose type no live worker knows, and who
looks at three in the morning has to know which of the two it is. How many there are of each type is
known from sums that are some seconds old; a moment after a pause nothing is called unknown for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wherry.domain.flow import StateCount
from wherry.domain.task import PausedType, QueueDepth


@dataclass(frozen=True, slots=True)
class TypePauses:
    """The types that are paused, as far as the visitor may know, and what there is of each."""

    pauses: tuple[PausedType, ...] = ()
    counts: tuple[StateCount, ...] = ()

    def waiting(self, pause: PausedType) -> int:
        """How many tasks would be next in turn, or were set aside, but for this pause."""
        return sum(count.ready + count.parked for count in self.counts if _is_of(pause, count))

    def in_queue(self, queue: str) -> tuple[PausedType, ...]:
        """Return those of a queue, and those of all queues of which it holds tasks that wait."""
        known = {
            count.type
            for count in self.counts
            if count.queue == queue and (count.ready or count.parked or count.delayed)
        }
        return tuple(
            pause
            for pause in self.pauses
            if pause.queue == queue or (pause.queue is None and pause.type in known)
        )

    def of(self, queue: str, type: str) -> tuple[PausedType, ...]:
        """Return what holds a type in a queue: a pause in all queues comes first."""
        found = [p for p in self.pauses if p.type == type and p.queue in (None, queue)]
        return tuple(sorted(found, key=lambda pause: pause.queue is not None))

    def unknown(self, depth: QueueDepth) -> int:
        """How many of the tasks that a queue has set aside are not of a paused type."""
        if not self.in_queue(depth.queue):
            return depth.parked
        unknown = sum(
            count.parked
            for count in self.counts
            if count.queue == depth.queue and not self.of(depth.queue, count.type)
        )
        return min(depth.parked, unknown)


def _is_of(pause: PausedType, count: StateCount) -> bool:
    return count.type == pause.type and pause.queue in (None, count.queue)


def most_waiting_first(pauses: TypePauses) -> Sequence[PausedType]:
    """Return the pauses that hold the most tasks first."""
    return sorted(pauses.pauses, key=lambda pause: (-pauses.waiting(pause), pause.type))

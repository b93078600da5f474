"""The front of a queue: where its ready tasks begin.

While some transaction keeps vacuum from its work, each task that was ever leased leaves a dead
entry in the index, and whoever looks for the next task from the beginning walks past all of them. A
front says from which position on there may be ready tasks, for each stretch of priorities. It says
so for good: no task can become ready in front of it, since positions are drawn in order, and a
front goes no higher than what had been drawn before every transaction that may still commit one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from wherry.domain.options import HIGHEST_PRIORITY, LOWEST_PRIORITY

_BEFORE_ALL = -(2**63)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Priorities from `high` down to `low`, both included, and where ready tasks may begin."""

    high: int
    low: int
    start: int

    def split(self, priority: int, start: int) -> Iterator[Stretch]:
        """Give the same, a stretch of its own for *priority* in it, which has *start* at least."""
        if not self.low <= priority <= self.high:
            yield self
            return
        if priority < self.high:
            yield Stretch(self.high, priority + 1, self.start)
        yield Stretch(priority, priority, max(self.start, start))
        if priority > self.low:
            yield Stretch(priority - 1, self.low, self.start)


@dataclass(frozen=True, slots=True)
class Horizon:
    """A position, and who wrote to the live tasks when it had just been drawn.

    Once these writers have ended, whatever becomes ready has a position above it.
    """

    position: int
    writers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Front:
    """Stretches in the order in which tasks are leased; together they hold every priority."""

    stretches: tuple[Stretch, ...] = (Stretch(HIGHEST_PRIORITY, LOWEST_PRIORITY, _BEFORE_ALL),)

    @classmethod
    def of(cls, highs: Sequence[int], lows: Sequence[int], starts: Sequence[int]) -> Front:
        """Return the front that is stored so."""
        return cls(tuple(map(Stretch, highs, lows, starts)))

    @property
    def params(self) -> dict[str, list[int]]:
        """What statements take of it."""
        return {
            "highs": [stretch.high for stretch in self.stretches],
            "lows": [stretch.low for stretch in self.stretches],
            "starts": [stretch.start for stretch in self.stretches],
        }

    def is_beyond(self, position: int) -> bool:
        """Whether what gets this position, which was just drawn, could stand in front of it.

        Positions are drawn in order, so then their sequence was set back: the front was noted in a
        future that a restore or a failover has lost.
        """
        return any(stretch.start > position for stretch in self.stretches)

    def past(self, ends: Mapping[int, int]) -> Front:
        """Return the front that begins after these positions in the priorities that *ends* names.

        It is the caller's own from then on: what was passed over is not looked at again.
        """
        stretches: Iterable[Stretch] = self.stretches
        for priority, end in ends.items():
            stretches = [part for each in stretches for part in each.split(priority, end + 1)]
        return Front(tuple(stretches))

    def with_lanes(self, priorities: Sequence[int]) -> Front:
        """Return the same with a stretch of its own for each of *priorities*."""
        return self.past(dict.fromkeys(priorities, _BEFORE_ALL))

    def moved(self, firsts: Mapping[int, tuple[int, int]], *, safe: int) -> Front:
        """Return the front that what was found allows.

        *firsts* has, for each stretch by its number from 0, priority and position of the first
        ready task, if there is any. Nothing goes beyond *safe*, a horizon's position of which all
        writers had ended before that look.
        """
        stretches: list[Stretch] = []
        for number, (high, low, start) in enumerate(map(astuple, self.stretches)):
            if number not in firsts:
                stretches.append(Stretch(high, low, max(start, safe)))
                continue
            priority, position = firsts[number]
            if priority < high:
                stretches.append(Stretch(high, priority + 1, max(start, safe)))
            stretches.append(Stretch(priority, priority, max(start, min(position, safe))))
            if priority > low:
                # Nobody has looked there: its turn is next time.
                stretches.append(Stretch(priority - 1, low, start))
        return Front(tuple(stretches))

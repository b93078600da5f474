"""Find out where a queue's ready tasks begin, and see that none stands in front of that.

Everything here may be done by any number of callers at once: a front is true for good, so one that
is a moment older than another is only worth a little less.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Final

from wherry.commands.base import Answer, Command, Statement
from wherry.domain.front import Front, Horizon

# Somebody else has just moved it: that is good enough.
_FRESH_SECONDS: Final = 0.4
# A search for strays may take so much of the time, and comes so often if it is cheap.
_SEARCH_SHARE: Final = 50
_SEARCH_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class ListFronts(Command[dict[str, Front]]):
    """Return the newest front of each queue that has one; of `queues` only, unless that is None."""

    queues: tuple[str, ...] | None = None

    def answer(self) -> Answer[dict[str, Front]]:
        queues = None if self.queues is None else list(self.queues)
        rows = yield Statement("maintenance/list_fronts", {"queues": queues})
        return {queue: Front.of(*stored) for queue, *stored in rows}


@dataclass(frozen=True, slots=True)
class MoveFront(Command[tuple[Front, Horizon]]):
    """Move a queue's front to its first ready tasks, if it may be moved; answers it, and a horizon.

    `horizon` is what the call before this one answered: the front goes no further, and only if
    those who wrote then have ended. Each of `priorities` gets a stretch of its own. Its statements
    need a snapshot each: run it in no transaction.
    """

    queue: str
    priorities: tuple[int, ...] = ()
    horizon: Horizon | None = None

    def answer(self) -> Answer[tuple[Front, Horizon]]:
        writers = () if self.horizon is None else self.horizon.writers
        [[*stored, seconds_old, ended]] = yield Statement(
            "maintenance/get_front", {"queue": self.queue, "writers": list(writers)}
        )
        front = Front() if stored[0] is None else Front.of(*stored)
        if self.horizon is not None and not ended:
            return front, self.horizon
        [[position, now_writing]] = yield Statement("maintenance/draw_horizon_position", {})
        horizon = Horizon(position, tuple(now_writing))
        if front.is_beyond(position):
            # The sequence was set back: RescueTasks will forget this front.
            return Front(), horizon
        if self.horizon is None or self.horizon.position > position:
            return front, horizon
        if seconds_old is None or seconds_old > _FRESH_SECONDS:
            # With a newer snapshot, that has all that those writers have done.
            front = front.with_lanes(self.priorities)
            found = yield Statement(
                "maintenance/find_first_ready", {"queue": self.queue, **front.params}
            )
            firsts = {number - 1: (priority, at) for number, priority, at in found}
            front = front.moved(firsts, safe=self.horizon.position)
            yield Statement("maintenance/note_front", {"queue": self.queue, **front.params})
        return front, horizon


@dataclass(frozen=True, slots=True)
class Rescued:
    """How many tasks that stood in front of a queue's front stand behind it now."""

    rescued: int


@dataclass(frozen=True, slots=True)
class RescueTasks(Command[Rescued]):
    """Look for tasks in front of the fronts, where it is time, and forget fronts of long ago."""

    batch: int = 1000

    def answer(self) -> Answer[Rescued]:
        # Put off before the search, so that nobody else does the same meanwhile.
        due = yield _put_off(None, seconds=_SEARCH_SECONDS)
        if not due:
            return Rescued(0)
        yield Statement("maintenance/forget_fronts", {"batch": self.batch})
        began = monotonic()
        queues, highs, lows, starts = zip(
            *(
                (queue, each.high, each.low, each.start)
                for queue, *stored in due
                for each in Front.of(*stored).stretches
            ),
            strict=True,
        )
        [[found, _woken]] = yield Statement(
            "maintenance/rescue_tasks",
            {
                "queues": list(queues),
                "highs": list(highs),
                "lows": list(lows),
                "starts": list(starts),
                "batch": self.batch,
            },
        )
        rest = 0.0 if found == self.batch else (monotonic() - began) * _SEARCH_SHARE
        if not rest or rest > _SEARCH_SECONDS:
            yield _put_off([queue for queue, *_ in due], seconds=rest)
        return Rescued(found)


def _put_off(queues: list[str] | None, *, seconds: float) -> Statement:
    return Statement("maintenance/put_off_searches", {"queues": queues, "search_seconds": seconds})

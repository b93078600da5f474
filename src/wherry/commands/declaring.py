"""Declare the schedules of a worker's code, and add one by hand.

A declaration is said again and again while its worker lives. Of two that differ under one name the
newer one stands (`domain/schedule.py`), and what was due by the one that stood is settled first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from wherry import config
from wherry.commands.base import Answer, Command, Statement
from wherry.commands.scheduling import settle
from wherry.domain.schedule import Declared, Schedule, Stance, Standing, former_of, stance
from wherry.errors import LimitReached

# A server may take fewer than its default of 1,000 items in a call, and refuses more each time.
_MOST_IN_A_CALL: Final = 100
_MOST_LETTERS_IN_A_CALL: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Stood:
    """What became of a declaration; the names of each kind. `gave_way`: another definition stands.

    `by_hand`: a schedule that was made by hand stands in the way. `foreign`: one stands there whose
    queue is not the declarer's to fill. `refused`: what is declared is for such a queue. `no_room`:
    it is for one that has as many schedules as a queue may have.
    """

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    gave_way: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    no_room: tuple[str, ...] = ()
    # Whether something about it is new to the database; and whether the worker itself is unknown.
    is_news: bool = False
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class DeclareSchedules(Command[Stood]):
    """Say which schedules a worker's code declares, and see that they stand as it says.

    Sent again and again while the worker lives, which changes nothing unless something else did.
    The worker has to be known: what an unknown one declares is not noted, and brings no tasks yet.
    `may_fill` says of a queue whether this worker may store tasks there: what stands for another
    one it neither replaces nor holds, and what it declares for another one is refused.
    """

    schedules: tuple[Schedule, ...]
    instance: str
    may_fill: Callable[[str], bool] = lambda _queue: True

    @property
    def atomic(self) -> bool:
        return True

    def parts(self) -> list[DeclareSchedules]:
        """Return the same as commands none of which is too large for one call of a server."""
        parts: list[list[Schedule]] = []
        room = 0
        for schedule in self.schedules:
            size = len(schedule.task.payload)
            if not parts or size > room or len(parts[-1]) == _MOST_IN_A_CALL:
                parts.append([])
                room = _MOST_LETTERS_IN_A_CALL
            parts[-1].append(schedule)
            room -= size
        return [replace(self, schedules=tuple(part)) for part in parts]

    def answer(self) -> Answer[Stood]:
        ours = [each for each in self.schedules if self.may_fill(each.task.queue)]
        refused = tuple(each.name for each in self.schedules if not self.may_fill(each.task.queue))
        stood = yield from replace(self, schedules=tuple(ours))._stood()
        forgotten = [*stood.foreign, *refused]
        if forgotten:
            # What this worker said of them while they were for its own queues.
            yield Statement(
                "schedules/forget_declarations",
                {"names": forgotten, "instance": self.instance},
            )
        return replace(stood, refused=refused)

    def _stood(self) -> Answer[Stood]:
        found = yield from self._found()
        stances = self._stances(found)
        replaced = [name for name, of in stances.items() if of is Stance.REPLACE]
        added = [name for name, of in stances.items() if of is Stance.ADD]
        moved = self._moved(replaced, found)
        no_room = (yield from self._no_room([*added, *moved])) if added or moved else set[str]()
        replaced = [name for name in replaced if name not in no_room]
        added = [name for name in added if name not in no_room]
        if added:
            asked, added = added, (yield from self._add(added))
            if len(added) < len(asked):
                # Somebody was quicker, whose queue may be one that is not ours to fill.
                found = yield from self._found()
                stances = self._stances(found)
        foreign = self._foreign(found)
        is_news = bool(added) or any(
            each.rests or not each.noted for each in found.values() if each.name not in foreign
        )
        noted = 1
        if replaced:
            yield Statement("schedules/lock_schedules", {"names": replaced})
        if is_news or replaced:
            # Before anything is replaced: what is due of a schedule that is declared is settled.
            [[noted, _woken]] = yield Statement(
                "schedules/note_declarations", self._said(but=foreign)
            )
        if replaced:
            # Others may have been at them until now.
            found = yield from self._found()
            stances, foreign = self._stances(found), self._foreign(found)
            replaced = yield from self._replace(
                {name: found[name] for name in replaced if stances.get(name) is Stance.REPLACE}
            )
        gave_way = [name for name, of in stances.items() if of is Stance.GIVE_WAY]
        return Stood(
            tuple(added),
            tuple(replaced),
            tuple(name for name in gave_way if not found[name].by_hand),
            tuple(name for name in gave_way if found[name].by_hand),
            foreign,
            no_room=tuple(name for name in stances if name in no_room),
            is_news=is_news,
            is_unknown=noted == 0,
        )

    def _moved(self, names: Sequence[str], found: Mapping[str, Declared]) -> list[str]:
        queues = {each.name: each.task.queue for each in self.schedules}
        return [name for name in names if found[name].queue != queues[name]]

    def _no_room(self, names: Sequence[str]) -> Answer[set[str]]:
        """Return those of *names* for which their queue has no room."""
        new = [schedule for schedule in self.schedules if schedule.name in names]
        counts = yield from _counts({schedule.task.queue for schedule in new})
        refused: set[str] = set()
        for schedule in new:
            queue = schedule.task.queue
            counts[queue] = counts.get(queue, 0) + 1
            if counts[queue] > config.SCHEDULES_LIMIT:
                refused.add(schedule.name)
        return refused

    def _said(self, *, but: Sequence[str] = ()) -> dict[str, Any]:
        said = [schedule for schedule in self.schedules if schedule.name not in but]
        return {
            "names": [schedule.name for schedule in said],
            "definitions": [schedule.definition for schedule in said],
            "instance": self.instance,
        }

    def _found(self) -> Answer[dict[str, Declared]]:
        rows = yield Statement("schedules/read_declared", self._said())
        found = (Declared(name, of, tuple(former), *rest) for name, of, former, *rest in rows)
        return {each.name: each for each in found}

    def _foreign(self, found: Mapping[str, Declared]) -> tuple[str, ...]:
        return tuple(each.name for each in found.values() if not self.may_fill(each.queue))

    def _stances(self, found: Mapping[str, Declared]) -> dict[str, Stance]:
        foreign = self._foreign(found)
        return {
            schedule.name: stance(schedule.definition, found.get(schedule.name))
            for schedule in self.schedules
            if schedule.name not in foreign
        }

    def _add(self, names: Sequence[str]) -> Answer[list[str]]:
        [[now]] = yield Statement("tasks/read_now", {})
        rows = [
            _added(schedule, now=now, by_hand=False)
            for schedule in self.schedules
            if schedule.name in names
        ]
        added = yield Statement("schedules/add_schedules", {"schedules": json.dumps(rows)})
        return [name for (name,) in added]

    def _replace(self, found: Mapping[str, Declared]) -> Answer[list[str]]:
        """Put our definitions in the place of others, once what is due by those is settled."""
        if not found:
            return []
        settled = yield from settle(list(found))
        untold = {name for name, _ in settled.troubles}
        rows = yield Statement("schedules/read_standing", {"names": list(found)})
        standing = {each.name: each for each in map(Standing.of_row, rows)}
        changed: list[dict[str, Any]] = []
        for schedule in self.schedules:
            stands = standing.get(schedule.name)
            if stands is None:
                continue
            # A pause waits for the change: what of a very long one is left is not counted.
            if stands.next_at <= stands.now and not (stands.is_paused or stands.name in untold):
                # There is more to settle by what stands there: this is sent again before long.
                continue
            behind = max(stands.now, stands.last_at or stands.now)
            changed.append(
                schedule.row
                | {
                    "definition": schedule.definition,
                    "former": former_of(found[schedule.name], schedule.definition),
                    "next_at": schedule.cron.next_after(behind).isoformat(),
                }
            )
        done = yield Statement("schedules/change_schedules", {"schedules": json.dumps(changed)})
        return [name for (name,) in done]


@dataclass(frozen=True, slots=True)
class AddSchedule(Command[bool]):
    """Add a schedule that is made by hand, and fires whether or not a worker declares it.

    False, and nothing changes, if there is one of this name. Raises LimitReached if its queue has
    too many. `reason` is for the audit only.
    """

    schedule: Schedule
    reason: str | None = None

    @property
    def atomic(self) -> bool:
        return True

    def answer(self) -> Answer[bool]:
        [[now]] = yield Statement("tasks/read_now", {})
        row = _added(self.schedule, now=now, by_hand=True)
        added = yield Statement("schedules/add_schedules", {"schedules": json.dumps([row])})
        if not added:
            return False
        queue = self.schedule.task.queue
        counts = yield from _counts({queue})
        if counts[queue] > config.SCHEDULES_LIMIT:
            raise LimitReached(
                f"queue {queue!r} has {counts[queue] - 1:,} schedules; the limit is"
                f" {config.SCHEDULES_LIMIT:,}: delete some, or store tasks with a delay instead"
            )
        return True


def _counts(queues: Iterable[str]) -> Answer[dict[str, int]]:
    rows = yield Statement("schedules/count_of_queues", {"queues": sorted(queues)})
    return dict(rows)


def _added(schedule: Schedule, *, now: datetime, by_hand: bool) -> dict[str, Any]:
    """Return a new schedule as add_schedules.sql takes it; its first time is the next one."""
    return schedule.row | {
        "definition": schedule.definition,
        "by_hand": by_hand,
        "next_at": schedule.cron.next_after(now).isoformat(),
    }

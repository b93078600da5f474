"""Who works through this server: kept in memory, told to the database now and then.

A worker is known by its token and its name; it is heard of whenever it polls or beats, and stays
heard of while a poll of its waits. One statement beats for all of them, and its answer is what they
are asked to do. A worker that says which instance of its name it is has one row through all
servers: what was asked of it holds through each of them, also after a restart. One that does not is
another instance at each server; what was asked of the old one is not asked of the new one.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, NamedTuple

from wherry.commands.workers import BeatWorker, BeatWorkers, LeaveWorker
from wherry.domain.worker import Directive
from wherry.errors import Unavailable
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble, one_line, without_rows
from wherry.transport.patience import SOON_SECONDS, Patience

log = logger("wherry.server")

_BEAT_EVERY_SECONDS: Final = 18.0
# Newcomers that come together are told of together; their polls wait for it.
_GATHER_SECONDS: Final = 0.05
# One that polls for this and for that by turns is told of with the others, not at each turn.
_CHANGES_EVERY_SECONDS: Final = 5.0
_FORGET_AFTER_SECONDS: Final = 60.0
# Names come from outside; who comes beyond this works all the same, and is not listed.
MOST_WORKERS: Final = 10_000
_BATCH: Final = 1000

_SPACE: Final = uuid.UUID("6f2cf4a3-5f0b-4f0c-9a52-1d0a5f8f7a11")


class Who(NamedTuple):
    """Which worker: nobody can speak for one of another token."""

    token_id: str | None
    name: str
    # A UUID that it drew at its start; None if it does not say.
    instance: str | None

    @property
    def row(self) -> str | None:
        """The instance under which the database knows it, if that is the same at every server."""
        if self.instance is None:
            return None
        return str(uuid.uuid5(_SPACE, json.dumps(self)))


@dataclass(slots=True)
class _Entry:
    who: Who
    beat: BeatWorker
    seen_at: float
    # None: the database was not asked yet, and may know of something from before.
    directive: Directive | None
    told: bool = False
    told_at: float = 0.0
    told_types: tuple[str, ...] | None = ()


class Roster:
    """The workers of one server."""

    def __init__(
        self,
        transport: Transport,
        *,
        changed: Callable[[Who, Directive | None], object],
        came: Callable[[], object] = lambda: None,
        deaf_seconds: Callable[[], float | None] = lambda: None,
    ) -> None:
        """*changed* gets a worker that is asked for something else, and what it was before.

        *came* is called when the database has been told what workers know that have just come.
        *deaf_seconds*: for how long this server has heard no notification. Its workers hear of
        tasks through it alone, so that it is told of them.
        """
        self._transport = transport
        self._changed = changed
        self._came = came
        self._deaf_seconds = deaf_seconds
        self._entries: dict[Who, _Entry] = {}
        self._news = asyncio.Event()
        self._all_at = 0.0

    def seen(
        self,
        who: Who,
        *,
        host: str,
        queues: tuple[str, ...] | None = (),
        types: tuple[str, ...] | None = (),
        is_polling: bool = False,
    ) -> None:
        """A worker was heard of. Only a poll says what it serves; None stands for all."""
        entry = self._entries.get(who)
        if entry is None:
            if len(self._entries) >= MOST_WORKERS:
                return
            beat = BeatWorker(
                instance=who.row or str(uuid.uuid4()),
                name=who.name,
                host=host,
                pid=None,
                queues=queues,
                types=types,
            )
            unknown = None if who.instance else Directive.NONE
            self._entries[who] = _Entry(who, beat, monotonic(), unknown)
            self._news.set()
            return
        entry.seen_at = now = monotonic()
        if is_polling and (entry.beat.queues != queues or entry.beat.types != types):
            entry.beat = replace(entry.beat, queues=queues, types=types, host=host)
            entry.told = False
            if now >= entry.told_at + _CHANGES_EVERY_SECONDS:
                self._news.set()

    def keep(self, workers: Iterable[Who]) -> None:
        """These have polls that wait: they are as good as heard of just now."""
        now = monotonic()
        for who in workers:
            entry = self._entries.get(who)
            if entry is not None:
                entry.seen_at = now

    def directive_of(self, who: Who) -> Directive | None:
        """Return what a worker is asked to do; None if the database has yet to be asked."""
        entry = self._entries.get(who)
        return Directive.NONE if entry is None else entry.directive

    def ask_soon(self) -> None:
        """Beat for all of them now: somebody has just asked something of some."""
        self._all_at = 0.0
        self._news.set()

    async def leave(self, who: Who) -> None:
        """Forget a worker that says goodbye. Raises Unavailable."""
        entry = self._entries.pop(who, None)
        # Another server may have told of it.
        row = who.row if entry is None else entry.beat.instance
        if row is not None:
            await self._transport.call(LeaveWorker(row))

    async def run(self, waiting: Callable[[], Iterable[Who]]) -> None:
        """Beat for ever; *waiting* tells those whose polls wait. The owner cancels it."""
        patience = Patience(first=0.5, longest=SOON_SECONDS)
        while True:
            try:
                await self._pass(waiting)
                patience.reset()
            except Exception as error:
                # The border of a service's tick.
                if not is_trouble(error):
                    log.error(
                        "telling of workers failed; it will be tried again",
                        exc_info=without_rows(error),
                    )
                elif patience.may_complain():
                    log.warning("workers are not told of: %s", one_line(error))
                await asyncio.sleep(patience.next_pause())

    async def _pass(self, waiting: Callable[[], Iterable[Who]]) -> None:
        self.keep(waiting())
        now = monotonic()
        silent = [
            who
            for who, entry in self._entries.items()
            if entry.seen_at < now - _FORGET_AFTER_SECONDS
        ]
        for who in silent:
            del self._entries[who]
        everybody = now >= self._all_at
        if everybody:
            self._all_at = now + _BEAT_EVERY_SECONDS * random.uniform(0.85, 1.0)
        try:
            await self._beat([e for e in self._entries.values() if everybody or not e.told])
        except Unavailable:
            self._all_at = 0.0
            raise
        try:
            async with asyncio.timeout(max(0.0, self._all_at - monotonic())):
                await self._news.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GATHER_SECONDS)
        self._news.clear()

    async def _beat(self, entries: list[_Entry]) -> None:
        for start in range(0, len(entries), _BATCH):
            part = entries[start : start + _BATCH]
            beats = [entry.beat for entry in part]
            deaf_seconds = self._deaf_seconds()
            told = tuple(replace(beat, deaf_seconds=deaf_seconds) for beat in beats)
            # By its first beat a worker may not have said yet which types it knows.
            some_came = any(e.told_types == () and e.beat.types != () for e in part)
            directives = await self._transport.call(BeatWorkers(told))
            if some_came:
                self._came()
            for entry, beat, directive in zip(part, beats, directives, strict=True):
                entry.told = entry.beat is beat
                entry.told_at, entry.told_types = monotonic(), beat.types
                before, entry.directive = entry.directive, directive
                if before is not directive and self._entries.get(entry.who) is entry:
                    self._changed(entry.who, before)

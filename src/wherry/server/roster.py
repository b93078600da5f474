"""Who works through this server: kept in memory, told to the database now and then.

A worker is known by its token and its name; it is heard of whenever it polls or beats, and stays
heard of while a poll of its waits. One statement beats for all of them, and its answer is what they
are asked to do. A worker that goes on through another server, or through this one after a restart,
is another instance there; what was asked of the old one is not asked of the new one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, TypeAlias

from wherry.commands.workers import BeatWorker, BeatWorkers, LeaveWorker
from wherry.domain.worker import Directive
from wherry.errors import Unavailable
from wherry.server.caller import Caller
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble, one_line
from wherry.transport.patience import Patience

log = logging.getLogger("wherry.server")

_BEAT_EVERY_SECONDS: Final = 18.0
# Newcomers that come together are told of together.
_GATHER_SECONDS: Final = 0.5
# One that polls for this and for that by turns is told of with the others, not at each turn.
_CHANGES_EVERY_SECONDS: Final = 5.0
_FORGET_AFTER_SECONDS: Final = 60.0
# Names come from outside; who comes beyond this works all the same, and is not listed.
MOST_WORKERS: Final = 10_000
_BATCH: Final = 1000

_Name: TypeAlias = tuple[str | None, str]


@dataclass(slots=True)
class _Entry:
    beat: BeatWorker
    seen_at: float
    told: bool = False
    told_at: float = 0.0
    directive: Directive = Directive.NONE


class Roster:
    """The workers of one server."""

    def __init__(
        self, transport: Transport, *, changed: Callable[[str | None, str], object]
    ) -> None:
        """*changed* is called with the token and the name of a worker that is asked for more."""
        self._transport = transport
        self._changed = changed
        self._entries: dict[_Name, _Entry] = {}
        self._news = asyncio.Event()
        self._all_at = 0.0

    def seen(
        self,
        caller: Caller,
        worker: str,
        *,
        queues: tuple[str, ...] | None = (),
        types: tuple[str, ...] | None = (),
        is_polling: bool = False,
    ) -> None:
        """A worker was heard of. Only a poll says what it serves; None stands for all."""
        name = (caller.token_id, worker)
        entry = self._entries.get(name)
        if entry is None:
            if len(self._entries) >= MOST_WORKERS:
                return
            beat = BeatWorker(
                instance=str(uuid.uuid4()),
                name=worker,
                host=caller.peer,
                pid=None,
                queues=queues,
                types=types,
            )
            self._entries[name] = _Entry(beat, monotonic())
            self._news.set()
            return
        entry.seen_at = now = monotonic()
        if is_polling and (entry.beat.queues != queues or entry.beat.types != types):
            entry.beat = replace(entry.beat, queues=queues, types=types, host=caller.peer)
            entry.told = False
            if now >= entry.told_at + _CHANGES_EVERY_SECONDS:
                self._news.set()

    def keep(self, names: Iterable[_Name]) -> None:
        """These have polls that wait: they are as good as heard of just now."""
        now = monotonic()
        for name in names:
            entry = self._entries.get(name)
            if entry is not None:
                entry.seen_at = now

    def directive_of(self, caller: Caller, worker: str) -> Directive:
        """Return what a worker is asked to do, as far as is known here."""
        entry = self._entries.get((caller.token_id, worker))
        return Directive.NONE if entry is None else entry.directive

    def ask_soon(self) -> None:
        """Beat for all of them now: somebody has just asked something of some."""
        self._all_at = 0.0
        self._news.set()

    async def leave(self, caller: Caller, worker: str) -> None:
        """Forget a worker that says goodbye. Raises Unavailable."""
        entry = self._entries.pop((caller.token_id, worker), None)
        if entry is not None:
            await self._transport.call(LeaveWorker(entry.beat.instance))

    async def run(self, waiting: Callable[[], Iterable[_Name]]) -> None:
        """Beat for ever; *waiting* names those whose polls wait. The owner cancels it."""
        patience = Patience(first=0.5)
        while True:
            try:
                await self._pass(waiting)
                patience.reset()
            except Exception as error:
                # The border of a service's tick.
                if not is_trouble(error):
                    log.exception("telling of workers failed; it will be tried again")
                elif patience.may_complain():
                    log.warning("workers are not told of: %s", one_line(error))
                await asyncio.sleep(patience.next_pause())

    async def _pass(self, waiting: Callable[[], Iterable[_Name]]) -> None:
        self.keep(waiting())
        now = monotonic()
        silent = [
            name
            for name, entry in self._entries.items()
            if entry.seen_at < now - _FORGET_AFTER_SECONDS
        ]
        for name in silent:
            del self._entries[name]
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
            beats = tuple(entry.beat for entry in part)
            directives = await self._transport.call(BeatWorkers(beats))
            for entry, beat, directive in zip(part, beats, directives, strict=True):
                entry.told = entry.beat is beat
                entry.told_at = monotonic()
                if entry.directive is not directive:
                    entry.directive = directive
                    name = self._name_of(entry)
                    if name is not None:
                        self._changed(*name)

    def _name_of(self, entry: _Entry) -> _Name | None:
        return next((name for name, known in self._entries.items() if known is entry), None)

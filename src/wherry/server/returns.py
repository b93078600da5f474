"""Gives back what was leased for somebody who was gone, or who never said that it arrived.

A task must not wait for its lease to run out because a connection broke: what could not be
delivered is released at once, and the attempt is not counted. An answer may also get lost on the
way, which only its receiver can know: who asked for it (`confirm_within`) has to beat or to report
in time, or the lease goes back unstarted. Another server may have heard the beat, so the database
decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from time import monotonic
from typing import Final

from wherry.commands.leases import GiveBackTasks, ReleaseUnconfirmed
from wherry.domain.lease import Fence, Lease, LeaseRef
from wherry.domain.outcome import GivenBack
from wherry.errors import Unavailable
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble, one_line, without_rows
from wherry.transport.patience import SOON_SECONDS, Patience

log = logger("wherry.server")

_BATCH: Final = 1000
# Those whose time comes within so long of one another go together.
_GATHER_SECONDS: Final = 0.05


class Returns:
    """The leases of one server that may have to go back."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._undelivered: list[Lease] = []
        # By fence: the lease, and for how long it was leased.
        self._unconfirmed: dict[Fence, tuple[Lease, float]] = {}
        # When which of them goes back, the next one first. Those that were confirmed stay until
        # their time comes, since most are.
        self._due: list[tuple[float, Fence]] = []
        self._news = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()

    def give_back(self, leases: Sequence[Lease]) -> None:
        """Have leases released that nobody was given."""
        if not leases:
            return
        self.confirm(leases)
        self._undelivered += leases
        self._nothing.clear()
        self._news.set()

    def expect(self, leases: Iterable[Lease], *, within: float, lease_seconds: float) -> None:
        """Have leases given back unless somebody confirms them in time."""
        due_at = monotonic() + within
        if not self._due or due_at < self._due[0][0]:
            self._news.set()
        for lease in leases:
            self._unconfirmed[lease.fence] = (lease, lease_seconds)
            heappush(self._due, (due_at, lease.fence))

    def confirm(self, leases: Iterable[LeaseRef]) -> None:
        """Somebody has these leases: they said so."""
        if self._unconfirmed:
            for lease in leases:
                self._unconfirmed.pop(lease.fence, None)

    async def flushed(self) -> None:
        """Return when everything undelivered has been released."""
        await self._nothing.wait()

    async def run(self) -> None:
        """Give back for ever; the owner cancels it."""
        patience = Patience(longest=SOON_SECONDS)
        while True:
            try:
                await self._release()
                await self._release_unconfirmed()
                patience.reset()
            except Exception as error:
                # The border of a service's tick.
                if not is_trouble(error):
                    log.error(
                        "giving back leases failed; it will be tried again",
                        exc_info=without_rows(error),
                    )
                elif patience.may_complain():
                    log.warning("leases are not given back: %s", one_line(error))
                await asyncio.sleep(patience.next_pause())
                continue
            if not self._undelivered:
                self._nothing.set()
                await self._pause()

    async def _pause(self) -> None:
        seconds = None
        if self._due:
            seconds = max(0.0, self._due[0][0] - monotonic()) + _GATHER_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        finally:
            self._news.clear()

    async def _release(self) -> None:
        while self._undelivered:
            # One whose lease has run out by itself is not worth a word.
            self._undelivered = [lease for lease in self._undelivered if lease.remaining > 0]
            part = self._undelivered[:_BATCH]
            if part:
                outcomes = tuple(GivenBack(lease, "release") for lease in part)
                closed = tuple({lease.lease_id for lease in part})
                await self._transport.call(GiveBackTasks(outcomes, closed))
                log.info("given back, since their worker was gone: %d tasks", len(part))
            self._undelivered = self._undelivered[len(part) :]

    async def _release_unconfirmed(self) -> None:
        now = monotonic()
        due: list[tuple[Lease, float]] = []
        while self._due and self._due[0][0] <= now:
            _, fence = heappop(self._due)
            if fence in self._unconfirmed:
                due.append(self._unconfirmed[fence])
        for start in range(0, len(due), _BATCH):
            # Those that were confirmed while the statement before was under way stay.
            part = [
                (lease, seconds)
                for lease, seconds in due[start : start + _BATCH]
                if lease.fence in self._unconfirmed
            ]
            if not part:
                continue
            leases, lasting = zip(*part, strict=True)
            try:
                await self._transport.call(ReleaseUnconfirmed(leases, lasting))
            except Unavailable:
                for lease, _ in due[start:]:
                    heappush(self._due, (now, lease.fence))
                raise
            self.confirm(leases)
            log.info("given back if unconfirmed: %d tasks", len(part))

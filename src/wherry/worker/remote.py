"""Gets a worker's tasks from a server, which waits in its place.

A free slot asks for a task and the server answers when there is one; what is only prefetched is
asked for without waiting. So that an answer that got lost costs no attempt, leases last a few
seconds at first: they are confirmed, all of an answer at once, as soon as it is there, and those
that are not go back unstarted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

from wherry.commands.leases import HeartbeatLeases
from wherry.commands.remote import PollTasks
from wherry.config import LONGEST_POLL_SECONDS
from wherry.domain.lease import Lease
from wherry.errors import ConfigError, PermissionDenied, Unauthenticated
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble
from wherry.transport.patience import Patience
from wherry.worker.intake import Wanted
from wherry.worker.source import Keep

log = logger("wherry.worker")

CONFIRM_SECONDS = 5.0
# Whoever ends when nothing is due waits so long for what has just become due: the server puts it
# in its queue within a second or so.
_LAST_LOOK_SECONDS = 2.0


class RemoteSource:
    """Leases from a server."""

    place = "the server"

    def __init__(
        self,
        transport: Transport,
        *,
        worker: str,
        instance: str,
        queues: tuple[str, ...] | None,
        types: tuple[str, ...],
        lease_seconds: float,
    ) -> None:
        self._transport = transport
        self._worker = worker
        self._instance = instance
        self._queues = ("*",) if queues is None else queues
        self._types = types
        self._lease_seconds = lease_seconds
        self._patience = Patience()
        self._let_in = False
        self._poll: asyncio.Task[list[Lease]] | None = None
        self._woken = asyncio.Event()
        # Whether the last answer came sooner than it should have, with nothing in it.
        self._hasty = False

    async def take(self, want: Wanted, keep: Keep, *, may_wait: bool) -> int:
        """Ask for tasks, waiting for the first if that is allowed, and confirm what came."""
        return await self._take(want, keep, LONGEST_POLL_SECONDS if may_wait else 0.0)

    async def busy(self) -> None:
        """Do nothing: a server hears of us only when we ask."""

    async def pause(self) -> None:
        """Return at once, since asking is waiting; later if the server does not let us wait."""
        if not self._hasty:
            self._patience.reset()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience.next_pause()):
                await self._woken.wait()

    async def gather(self) -> None:
        """Yield: the server knows how often tasks come."""
        await asyncio.sleep(0)

    async def is_empty(self, keep: Keep) -> bool:
        """Whether nothing is due, not even of what was delayed until a moment ago."""
        return not await self._take(Wanted(1, 1), keep, _LAST_LOOK_SECONDS)

    def wake(self) -> None:
        """End the present poll: what the server leases for it in spite of that goes back."""
        self._woken.set()
        if self._poll is not None:
            self._poll.cancel()

    def is_final(self, error: Exception) -> bool:
        """Whether we were never let in, or ask what no server knows; a token may be rotated."""
        if isinstance(error, PermissionDenied | Unauthenticated):
            return not self._let_in
        return isinstance(error, ConfigError)

    async def _take(self, want: Wanted, keep: Keep, wait_seconds: float) -> int:
        self._woken.clear()
        began_at = monotonic()
        leases = await self._polled(
            PollTasks(
                worker=self._worker,
                instance=self._instance,
                queues=self._queues,
                limit=want.tasks,
                limit_last=want.last,
                types=self._types,
                lease_seconds=self._lease_seconds,
                wait_seconds=wait_seconds,
                confirm_seconds=CONFIRM_SECONDS,
            )
        )
        self._let_in = True
        self._hasty = not leases and monotonic() - began_at < wait_seconds / 2
        if leases:
            # They run at once: until it is confirmed, a lease is short, and known to be.
            keep(leases)
            await self._confirm(leases)
        return len(leases)

    async def _polled(self, command: PollTasks) -> list[Lease]:
        """Return what came, or nothing if the poll was ended by `wake`."""
        self._poll = asyncio.create_task(self._transport.call(command), name="poll")
        self._poll.add_done_callback(_look_at)
        try:
            await asyncio.wait([self._poll])
            return [] if self._poll.cancelled() else self._poll.result()
        finally:
            # Canceled together with us, if we are.
            self._poll.cancel()
            self._poll = None

    async def _confirm(self, leases: list[Lease]) -> None:
        """Make the leases as long as they were asked for; the keeper does what fails here."""
        try:
            await self._transport.call(HeartbeatLeases(tuple(leases), self._lease_seconds))
        except Exception as error:
            if not is_trouble(error):
                raise
            log.debug("leases are not confirmed yet: %s", error)


def _look_at(poll: asyncio.Task[list[Lease]]) -> None:
    """Take note of how it ended: the loop complains of an error that nobody looked at."""
    if not poll.cancelled():
        poll.exception()

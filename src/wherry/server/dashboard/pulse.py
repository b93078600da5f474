"""Tells everybody who watches that something has changed; one for a server, however many watch.

It looks only while somebody watches, and asks what the pages ask too, so that what it saw is not
asked again. It says no more than "changed": each viewer then gets their page anew, with their own
rights. Ages grow without anything happening, so that it is also said after a while of quiet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

from wherry.errors import WherryError
from wherry.telemetry.loggers import logger

log = logger("wherry.server.dashboard")

LOOK_SECONDS: Final = 2.0
QUIET_SECONDS: Final = 10.0


class Watch:
    """What one viewer has heard so far."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._heard = pulse.count

    async def changed(self, *, within_seconds: float) -> bool | None:
        """Return True once something has changed, False if nothing has in that time.

        None: the server is closing.
        """
        pulse = self._pulse
        try:
            async with asyncio.timeout(within_seconds), pulse.condition:
                await pulse.condition.wait_for(lambda: pulse.closed or pulse.count != self._heard)
        except TimeoutError:
            return False
        self._heard = pulse.count
        return None if pulse.closed else True


class Pulse:
    """Looks for changes while somebody watches; `look` returns something that differs if so."""

    def __init__(
        self, look: Callable[[], Awaitable[Hashable]], *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._look = look
        self._look_seconds = look_seconds
        self._watching = 0
        self._looking: asyncio.Task[None] | None = None
        self.condition = asyncio.Condition()
        self.count = 0
        self.closed = False

    @property
    def watching(self) -> int:
        """How many watch."""
        return self._watching

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[Watch, None]:
        """Watch; while anybody does, it looks."""
        self._watching += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._run(), name="pulse")
        try:
            yield Watch(self)
        finally:
            self._watching -= 1
            if not self._watching:
                await self._rest()

    async def tell(self) -> None:
        """Say that something has changed."""
        async with self.condition:
            self.count += 1
            self.condition.notify_all()

    async def close(self) -> None:
        """Let everybody go who watches, and look no more."""
        async with self.condition:
            self.closed = True
            self.condition.notify_all()
        await self._rest()

    async def _rest(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])

    async def _run(self) -> None:
        seen: Hashable = None
        told_at = monotonic()
        while not self.closed:
            try:
                found = await self._look()
            except (WherryError, TimeoutError) as error:
                # The pages say so themselves, as soon as they are told to look.
                found = type(error).__name__
            except Exception:
                log.exception("the dashboard could not look for changes")
                found = "failed"
            now = monotonic()
            if found != seen or now - told_at >= QUIET_SECONDS:
                seen, told_at = found, now
                await self.tell()
            await asyncio.sleep(self._look_seconds)

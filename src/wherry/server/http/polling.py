"""Gives up a long call whose client hangs up, and gives back what it had leased by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from starlette.types import Receive

from wherry.domain.lease import Lease
from wherry.server.http.call import Reply
from wherry.server.http.refusals import Gone

# What a closed connection takes until it is known here: its end is read, it is closed on this side
# too, who waits on it is woken, and who watches.
_TURNS: Final = 5

R = TypeVar("R")


class Client:
    """Somebody who waits for an answer; `is_gone` as soon as their connection is."""

    def __init__(self, receive: Receive) -> None:
        """Begin to watch; to be ended by `leave`."""
        self._watching = asyncio.create_task(_until_gone(receive), name="client")

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there to be answered."""
        return self._watching.done()

    async def look(self) -> None:
        """Raise Gone if the connection was closed at its other end by now."""
        for _ in range(_TURNS):
            if self.is_gone:
                raise Gone
            await asyncio.sleep(0)

    async def leave(self) -> None:
        """Watch no more."""
        self._watching.cancel()
        await asyncio.wait([self._watching])

    async def unless_gone_first(self, waiting: asyncio.Task[R]) -> R:
        """Return what *waiting* gives. Raises Gone if the client hangs up first; ends it then."""
        try:
            await asyncio.wait([waiting, self._watching], return_when=asyncio.FIRST_COMPLETED)
            if not self.is_gone:
                return waiting.result()
            raise Gone
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])

    async def unless_gone(
        self,
        call: Callable[[], Coroutine[Any, Any, Reply]],
        *,
        undelivered: Callable[[Sequence[Lease]], Coroutine[Any, Any, None]],
    ) -> Reply:
        """Return what *call* answers. Raises Gone if the client hangs up first.

        What was leased all the same goes to *undelivered*, also if this is canceled.
        """
        calling = asyncio.create_task(call(), name="long call")
        try:
            await asyncio.wait([calling, self._watching], return_when=asyncio.FIRST_COMPLETED)
            if calling.done() and not self.is_gone:
                return calling.result()
        except BaseException:
            await _give_up(calling, undelivered)
            raise
        await _give_up(calling, undelivered)
        raise Gone


async def _give_up(
    calling: asyncio.Task[Reply],
    undelivered: Callable[[Sequence[Lease]], Coroutine[Any, Any, None]],
) -> None:
    calling.cancel()
    await asyncio.wait([calling])
    if not calling.cancelled() and calling.exception() is None:
        await undelivered(calling.result().leases)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

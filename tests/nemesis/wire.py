"""The wire between some clients and a server, PostgreSQL or ours, which can lose replies.

What is asked arrives and is done; the answer does not come, and then the connection is cut. Nobody
can tell that from a server that never heard: it is the case for which whatever is repeatable is
sent again. It can also be slow, hold everything for a while and then let it through, or leave the
connections there are half open for good.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.listening import all_others, stop_listening

CHUNK_BYTES = 65_536


class Wire:
    """A proxy in front of a server, on a loop in a thread of its own.

    It listens at *mine* for what is meant for *theirs*: paths of sockets, or ports of this machine.
    """

    def __init__(self, mine: Path | int, theirs: Path | int) -> None:
        self._mine = mine
        self._theirs = theirs
        self._swallowing = False
        self._lag_seconds = 0.0
        self._held_until = 0.0
        self._ended = False
        self._open: set[asyncio.StreamWriter] = set()
        self._abandoned: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire")

    def lose_replies(self, seconds: float) -> None:
        """Let no reply through for so long, then cut all connections."""
        self._soon(self._swallow)
        self._soon(lambda: self._loop.call_later(seconds, self._cut))

    def lag(self, each_seconds: float, *, seconds: float) -> None:
        """Let whatever is sent come later, for a while."""
        self._soon(lambda: self._set_lag(each_seconds))
        self._soon(lambda: self._loop.call_later(seconds, self._set_lag, 0.0))

    def hold(self, seconds: float) -> None:
        """Let nothing through for so long, in neither direction, and then all of it."""
        self._held_until = self._loop.time() + seconds

    def abandon(self) -> None:
        """Let nothing through any more on the connections there are; new ones are well."""
        self._soon(lambda: self._abandoned.update(self._open))

    def __enter__(self) -> Self:
        self._thread.start()
        self._wait_for(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wait_for(self._end())
        self._soon(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _wait_for(self, act: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result(10)

    def _soon(self, act: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _swallow(self) -> None:
        self._swallowing = True

    def _set_lag(self, seconds: float) -> None:
        self._lag_seconds = seconds

    def _cut(self) -> None:
        self._swallowing = False
        for writer in list(self._open):
            writer.transport.abort()

    async def _listen(self) -> None:
        if isinstance(self._mine, Path):
            self._listening = await asyncio.start_unix_server(self._serve, self._mine)
        else:
            self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self._mine)

    async def _end(self) -> None:
        self._ended = True
        await stop_listening(self._listening)
        self._cut()
        # Those that were cut end by themselves, but not while they hold something.
        with suppress(TimeoutError):
            await all_others(seconds=5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await self._connect()
        except OSError:
            # The server is away: the client hears of it as it would without us.
            writer.transport.abort()
            return
        self._open |= {writer, there}
        if self._ended:
            # It came too late to be cut with the others.
            self._cut()
        try:
            await asyncio.gather(
                self._pass_on(reader, there, may_lose=False),
                self._pass_on(there_reader, writer, may_lose=True),
            )
        finally:
            self._open -= {writer, there}
            self._abandoned -= {writer, there}

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._theirs, Path):
            return await asyncio.open_unix_connection(self._theirs)
        return await asyncio.open_connection("127.0.0.1", self._theirs)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_lose: bool
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                held_seconds = self._held_until - self._loop.time()
                if self._lag_seconds or held_seconds > 0:
                    await asyncio.sleep(max(self._lag_seconds, held_seconds))
                if writer in self._abandoned:
                    continue
                if not (may_lose and self._swallowing):
                    writer.write(chunk)
                    await writer.drain()
        # Whoever has hung up hangs up the other side too.
        writer.transport.abort()

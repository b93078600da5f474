"""The wire between some clients and the server, which can lose replies.

What is asked arrives and is done; the answer does not come, and then the connection is cut. Nobody
can tell that from a server that never heard: it is the case for which whatever is repeatable is
sent again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

CHUNK_BYTES = 65_536


class Wire:
    """A proxy in front of the server's socket, on a loop in a thread of its own."""

    def __init__(self, dsn: str, folder: Path) -> None:
        given = conninfo_to_dict(dsn)
        socket = f".s.PGSQL.{given['port']}"
        self._server = Path(str(given["host"]), socket)
        self._mine = folder / socket
        self.dsn = make_conninfo(dsn, host=str(folder))
        self._swallowing = False
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire")

    def lose_replies(self, seconds: float) -> None:
        """Let no reply through for so long, then cut all connections."""
        self._soon(self._swallow)
        self._soon(lambda: self._loop.call_later(seconds, self._cut))

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

    def _cut(self) -> None:
        self._swallowing = False
        for writer in list(self._open):
            writer.transport.abort()

    async def _listen(self) -> None:
        self._listening = await asyncio.start_unix_server(self._serve, self._mine)

    async def _end(self) -> None:
        self._listening.close()
        self._cut()
        # Those that were cut end by themselves.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await asyncio.open_unix_connection(self._server)
        except OSError:
            # The server is away: the client hears of it as it would without us.
            writer.transport.abort()
            return
        self._open |= {writer, there}
        try:
            await asyncio.gather(
                self._pass_on(reader, there, may_lose=False),
                self._pass_on(there_reader, writer, may_lose=True),
            )
        finally:
            self._open -= {writer, there}

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_lose: bool
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if not (may_lose and self._swallowing):
                    writer.write(chunk)
                    await writer.drain()
        # Whoever has hung up hangs up the other side too.
        writer.transport.abort()

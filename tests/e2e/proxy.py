"""A proxy in the way of a connection: cuts it, swallows what comes, or is merely slow.

It runs in a thread with an event loop of its own, so that a test may block. It looks at bytes as
they are: gRPC without TLS writes names and payloads in the clear.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Literal, Self

from tests.listening import all_others, stop_listening

# reset: both sides hear of it at once; half: the client is told that no more comes and the server
# hears nothing; silent: nobody hears anything, as of a connection that a firewall forgot.
Cut = Literal["reset", "half", "silent"]
_AT_ONCE = struct.pack("ii", 1, 0)


class Connection:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.opened_at = time.monotonic()
        self.cut: Cut | None = None
        # Its client gets no more answers, and does not know.
        self.deaf = False
        self.up = b""
        self._client, self._server = client, server

    def carries(self, text: bytes) -> bool:
        """Whether its client has sent *text* among the first bytes."""
        return text in self.up

    def end(self, how: Cut) -> None:
        """Cut it; call it on the proxy's loop."""
        if self.cut is not None:
            return
        self.cut = how
        if how == "half":
            with suppress(OSError, RuntimeError):
                self._client.write_eof()
        elif how == "reset":
            self.close()

    def close(self) -> None:
        """Reset both sides."""
        for writer in (self._client, self._server):
            sock = writer.get_extra_info("socket")
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            writer.transport.abort()


class Proxy:
    """Listens on `port` and passes on to *targets*, each in its turn; a context manager.

    A target that is away is passed over.

    *seconds_each_way* holds everything up for so long. `forbidden`: a connection on which a client
    sends this is reset. `unanswered`: what a client sends with this reaches the server, but no
    answer comes back, and a second later the connection is reset; once.
    """

    def __init__(self, *targets: int, seconds_each_way: float = 0.0) -> None:
        self.port = 0
        self.forbidden: bytes | None = None
        self.unanswered: bytes | None = None
        self.swallowed: list[tuple[bytes, float]] = []
        self._targets = deque(targets)
        self._seconds = seconds_each_way
        self._connections: list[Connection] = []
        self._traps: dict[bytes, Cut] = {}
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)

    @property
    def address(self) -> str:
        """What a worker or an App is given."""
        return f"grpc://{self.name}"

    @property
    def name(self) -> str:
        """What a channel is opened to."""
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> list[Connection]:
        """All there have been, in their order."""
        return list(self._connections)

    def trap(self, text: bytes, how: Cut) -> None:
        """Cut the connection on which the server sends *text*, instead of delivering it; once."""
        self._traps[text] = how

    def cut(self, how: Cut, *, carrying: bytes = b"") -> int:
        """Cut all connections whose clients have sent *carrying*; returns how many."""

        async def cut() -> int:
            those = [c for c in self._connections if c.cut is None and c.carries(carrying)]
            for connection in those:
                connection.end(how)
            return len(those)

        return asyncio.run_coroutine_threadsafe(cut(), self._loop).result(10)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        await stop_listening(server)
        for connection in self._connections:
            connection.close()
        # They end by themselves then; a client that has just come back may have made some more.
        await all_others(seconds=8)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._targets:
            target = self._targets[0]
            self._targets.rotate(-1)
            with suppress(OSError):
                back, on = await asyncio.open_connection("127.0.0.1", target)
                break
        else:
            writer.transport.abort()
            return
        connection = Connection(writer, on)
        self._connections.append(connection)
        if self._stop.is_set():
            # It came too late to be closed with the others.
            connection.close()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(connection, reader, on, is_up=True))
                both.create_task(self._pass(connection, back, writer, is_up=False))
        finally:
            if connection.cut is None:
                connection.close()

    async def _pass(
        self,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_up: bool,
    ) -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write(connection, late, writer, is_up=is_up))
            with suppress(OSError):
                while data := await reader.read(65536):
                    if is_up:
                        self._look_up(connection, data)
                    else:
                        self._look_down(connection, data)
                    late.put_nowait((time.monotonic() + self._seconds, data))
            if connection.cut is None:
                # One side has gone, so has the other.
                connection.end("reset")
            writing.cancel()

    async def _write(
        self,
        connection: Connection,
        late: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        *,
        is_up: bool,
    ) -> None:
        while True:
            at, data = await late.get()
            if self._seconds:
                await asyncio.sleep(max(0.0, at - time.monotonic()))
            if connection.cut is None and (is_up or not connection.deaf):
                with suppress(OSError):
                    writer.write(data)
                    await writer.drain()

    def _look_up(self, connection: Connection, data: bytes) -> None:
        if len(connection.up) < 65536:
            connection.up += data
        if self.forbidden is not None and self.forbidden in data:
            connection.end("reset")
        if self.unanswered is not None and self.unanswered in data:
            self.unanswered = None
            connection.deaf = True
            self._loop.call_later(1.0, connection.end, "reset")

    def _look_down(self, connection: Connection, data: bytes) -> None:
        for text, how in list(self._traps.items()):
            if text in data:
                del self._traps[text]
                self.swallowed.append((text, time.monotonic()))
                connection.end(how)

"""Plain sockets to a door, for what no HTTP client would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE_SECONDS = 10.0


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def all(self, *, within_seconds: float = PATIENCE_SECONDS) -> bytes:
        """Return everything until the other end closes; what a reset cut off is not there."""
        found = b""
        async with asyncio.timeout(within_seconds):
            try:
                while data := await self.reader.read(65536):
                    found += data
            except ConnectionError:
                pass
        return found

    async def head(self, *, within_seconds: float = PATIENCE_SECONDS) -> bytes:
        """Return the next answer's head."""
        async with asyncio.timeout(within_seconds):
            return await self.reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Raw]:
    """Connect to a port of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    """Return an answer's status; 0 if there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def request(
    method: str, path: str, body: bytes = b"", *, port: int, headers: str = "", whole: bool = True
) -> bytes:
    """Return a request's bytes; one that is not *whole* lacks the end of its body."""
    length = len(body) if whole else len(body) + 1000
    said = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}"
    if method == "POST":
        said += f"Content-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"{said}\r\n".encode() + body

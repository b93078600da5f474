"""Clients that send too slowly, too much, or what is no protocol at all; others are served."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest

from tests.security.process import ANYWHERE, Served, started

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
MIB = 1024 * 1024
GROWTH_KIB = 48 * 1024


@pytest.fixture
def served(dsn: str, tmp_path: Path) -> Iterator[Served]:
    """A server of its own process that asks for no tokens, so that everything gets through."""
    with started(tmp_path, *ANYWHERE, dsn=dsn) as server:
        server.up()
        yield server


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[asyncio.StreamWriter]:
    """Connect, and read nothing."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    try:
        yield writer
    finally:
        writer.close()


async def all_of(address: str, data: bytes, *, seconds: float = 15.0) -> bytes:
    """Send *data*, and return everything until the other end closes."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    found = b""
    try:
        writer.write(data)
        with suppress(ConnectionError):
            await writer.drain()
            writer.write_eof()
        async with asyncio.timeout(seconds):
            with suppress(ConnectionError):
                while more := await reader.read(65536):
                    found += more
    finally:
        writer.close()
    return found


async def answers(served: Served, *, within_seconds: float = 10.0) -> None:
    """Fail unless both doors answer in time, and no mistake was made so far."""
    async with asyncio.timeout(within_seconds):
        async with httpx.AsyncClient(base_url=served.http, trust_env=False) as client:
            assert (await client.get("/api/v1/queues")).status_code == 200
        async with grpc.aio.insecure_channel(served.grpc) as channel:
            call: Any = channel.unary_unary("/wherry.v1.TaskQueue/ListQueues")
            await call(b"")
    assert served.process.poll() is None
    for word in ("Traceback", " error "):
        assert word not in served.said, served.said[-3000:]


async def test_many_that_send_a_byte_now_and_then_keep_nobody_out(served: Served) -> None:
    """API-06: slow loris; 300 connections at each door, in every stage of a request."""
    post = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    stages = [
        b"",
        b"G",
        b"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\n",
        post + b"Content-Length: 100000\r\n\r\n{",
        post + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ]
    held: list[asyncio.StreamWriter] = []
    try:
        for n in range(300):
            for address, data in (
                (served.http, stages[n % len(stages)]),
                (served.grpc, (b"", PREFACE[:9], PREFACE, PREFACE + SETTINGS)[n % 4]),
            ):
                host, _, port = address.removeprefix("http://").rpartition(":")
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(data)
                held.append(writer)

        for _ in range(3):
            for writer in held[::7]:
                writer.write(b"x")
            await answers(served)
    finally:
        for writer in held:
            writer.close()
    await answers(served)


async def test_a_body_without_end_costs_no_memory(served: Served) -> None:
    """API-06: endless chunks are cut at the limit, and so is what is said to be longer."""
    await answers(served)
    before = served.resident_kib()
    head = (
        b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"

    for _ in range(4):
        async with connected(served.http) as writer:
            writer.write(head)
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(20):
                    # It ends the connection at some time after 16 MiB.
                    for _ in range(16 * 64):
                        writer.write(chunk)
                        await writer.drain()
    said = await all_of(
        served.http, head.replace(b"Transfer-Encoding: chunked", b"Content-Length: 99999999999")
    )

    assert said.startswith(b"HTTP/1.1 413")
    await answers(served)
    assert served.resident_kib() < before + GROWTH_KIB


async def test_what_grows_when_it_is_unpacked_is_not_unpacked(served: Served) -> None:
    """API-06: gzip bombs, at both doors."""
    await answers(served)
    before = served.resident_kib()
    bomb = gzip.compress(bytes(256 * MIB), compresslevel=9)
    assert len(bomb) < MIB

    async with httpx.AsyncClient(base_url=served.http, trust_env=False) as client:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        said = await client.post("/api/v1/tasks", content=bomb, headers=headers)
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        call: Any = channel.unary_unary("/wherry.v1.TaskQueue/Enqueue")
        # Compressed by gRPC itself: 64 MiB are 64 KiB on the way.
        code = await call(bytes(64 * MIB), compression=grpc.Compression.Gzip, timeout=20).code()
        plain = await call(bytes(17 * MIB), timeout=20).code()

    assert said.status_code == 415
    # What is packed counts by what it becomes.
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert plain is grpc.StatusCode.RESOURCE_EXHAUSTED
    await answers(served)
    assert served.resident_kib() < before + 2 * GROWTH_KIB


async def test_two_readings_of_one_request_are_never_both_answered(served: Served) -> None:
    """API-06: shapes of request smuggling; what is hidden in a body is no request."""
    hidden = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    start = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = b"0\r\n\r\n"
    both = f"Content-Length: {len(chunks)}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    shapes = [
        start + both + chunks + hidden,
        start + b"Transfer-Encoding: chunked\r\nContent-Length: 300\r\n\r\n" + chunks + hidden,
        start + b"Content-Length: 5\r\nContent-Length: 300\r\n\r\n" + chunks + hidden,
        start + b"Content-Length: 5, 300\r\n\r\n" + chunks + hidden,
        start + b"Content-Length: +5\r\n\r\n" + chunks + hidden,
        start + b"Content-Length: 0x5\r\n\r\n" + chunks + hidden,
        start + b"Content-Length: 5 \x0b\r\n\r\n" + chunks + hidden,
        start + b"Transfer-Encoding: xchunked\r\n\r\n" + chunks + hidden,
        start + b"Transfer-Encoding : chunked\r\n\r\n" + chunks + hidden,
        start + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + chunks + hidden,
        start + b"Transfer-Encoding: chunked, identity\r\n\r\n" + chunks + hidden,
        start + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden,
        start + b"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + hidden,
        start + b"Transfer-Encoding: chunked\r\n\r\n5;\n" + hidden,
        start + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n" + hidden,
        start.replace(b"\r\n", b"\n") + b"Content-Length: 5\n\n" + chunks + hidden,
        start + b"X: y\rContent-Length: 300\r\n\r\n" + hidden,
        start + b"X: y\0\r\nContent-Length: 5\r\n\r\n" + chunks + hidden,
    ]
    by_line_feeds = [shape for shape in shapes if b"\nX: y\n\r\n" in shape or b"5\n\n" in shape]
    for shape in shapes:
        said = await all_of(served.http, shape)

        assert b"HTTP/1.1 5" not in said, shape
        answered = re.findall(rb"HTTP/1\.1 (\d{3})", said)
        # What is hidden is answered by 200. By any reading it is a second request behind what, for
        # us, a line feed alone ends.
        assert b"200" not in answered or shape in by_line_feeds, (shape, said)
        if b"Content-Length" in shape and b"\nTransfer-Encoding: chunked" in shape:
            # Where two programs could disagree about the end, the connection ends.
            assert len(answered) == 1, (shape, said)
    await answers(served)


async def test_requests_in_a_row_on_one_connection_are_answered_in_their_order(
    served: Served,
) -> None:
    """API-06: pipelining, a thousand at once, some of them bad."""
    draw = random.Random(3)
    paths = {b"/api/v1/queues": 200, b"/nowhere": 404, b"/api/v1/tasks/x": 400, b"/healthz": 200}
    asked = [draw.choice(list(paths)) for _ in range(1000)]
    data = b"".join(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in asked)
    last = b"GET /docs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    said = await all_of(served.http, data + last, seconds=30)

    statuses = [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [*(paths[path] for path in asked), 200]


def frame(kind: int, flags: int, stream: int, data: bytes, *, said: int | None = None) -> bytes:
    """Return an HTTP/2 frame, which may lie about its length."""
    length = len(data) if said is None else said
    return struct.pack(">I", length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data


async def test_frames_that_make_no_sense_end_their_connection_only(served: Served) -> None:
    """API-06: garbage on the gRPC port, before and after HTTP/2 has begun."""
    await answers(served)
    before = served.resident_kib()
    draw = random.Random(11)
    start = PREFACE + SETTINGS
    shapes = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        PREFACE[:-1] + b"x",
        start + frame(0x1, 0x4, 0, b""),
        start + frame(0x1, 0x4, 2, b"\x82"),
        start + frame(0x1, 0x4, 1, b"\xff" * 100),
        start + frame(0x1, 0x4, 1, b"\x3f\xff\xff\xff\xff\xff\xff\xff\xff"),
        start + frame(0x0, 0x1, 1, b"no headers came"),
        start + frame(0x0, 0x8, 1, b"\xff" + bytes(3)),
        start + frame(0x9, 0x4, 1, b"continues nothing"),
        start + frame(0x3, 0, 1, bytes(4)) * 1000,
        start + frame(0x8, 0, 0, b"\x7f\xff\xff\xff") * 3,
        start + frame(0x8, 0, 0, bytes(4)),
        start + frame(0x6, 0, 0, bytes(8)) * 5000,
        start + frame(0x6, 0, 0, bytes(3)),
        start + frame(0x4, 0, 0, b"\0\4\xff\xff\xff\xff"),
        start + frame(0x4, 0, 0, b"\0\5\0\0\0\1"),
        start + frame(0x4, 1, 0, bytes(6)),
        start + frame(0x5, 0x4, 1, bytes(4) + b"\x82"),
        start + frame(0x7, 0, 0, bytes(8) + b"x" * 5000),
        start + frame(0x0, 0, 1, b"", said=0xFFFFFF),
        start + frame(0xFF, 0xFF, 1, b"x" * 100),
    ]
    for _ in range(150):
        shapes.append(start + draw.randbytes(draw.randrange(1, 200)))
        kind, flags = draw.randrange(12), draw.randrange(256)
        data = draw.randbytes(draw.randrange(60))
        shapes.append(start + frame(kind, flags, draw.choice((0, 1, 3, 2**31 - 1)), data))

    async def send(shape: bytes) -> None:
        # Some of it is fine as far as it goes, and the server waits for more.
        with suppress(TimeoutError):
            await all_of(served.grpc, shape, seconds=3)

    for n in range(0, len(shapes), 40):
        await asyncio.gather(*(send(shape) for shape in shapes[n : n + 40]))
        await answers(served)

    assert served.resident_kib() < before + GROWTH_KIB


async def test_headers_that_open_and_reset_streams_without_end_are_borne(served: Served) -> None:
    """API-06: rapid reset, and a thousand metadata values."""
    await answers(served)
    before = served.resident_kib()
    # :method POST, :scheme http, :path and :authority literal, content-type.
    path, kind = b"/wherry.v1.TaskQueue/ListQueues", b"application/grpc"
    block = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x09localhost"
    block += b"\x0f\x10" + bytes([len(kind)]) + kind
    burst = PREFACE + SETTINGS
    for n in range(1, 4000, 2):
        burst += frame(0x1, 0x4, n, block) + frame(0x3, 0, n, b"\0\0\0\x08")

    for _ in range(3):
        with suppress(TimeoutError):
            await all_of(served.grpc, burst, seconds=5)
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        call: Any = channel.unary_unary("/wherry.v1.TaskQueue/ListQueues")
        many = [(f"x-{n}", "y" * 100) for n in range(1000)]
        code = await call(b"", metadata=many, timeout=10).code()

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    await answers(served)
    assert served.resident_kib() < before + GROWTH_KIB

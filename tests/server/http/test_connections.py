"""Connections that send nonsense, too slowly, or more than they should."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

import wherry
from tests.facts import await_for
from tests.server.http.raw import connected, request, status_of
from wherry.config import ServerSettings
from wherry.server.auth import Authenticator, Polls
from wherry.server.desk import Desk
from wherry.server.http import HttpDoor, HttpSettings, protocol
from wherry.server.service import Service


@pytest.fixture
async def hasty(
    app: wherry.App, desk: Desk, authenticator: Authenticator
) -> AsyncIterator[HttpDoor]:
    """A door with little patience."""
    settings = ServerSettings(request_timeout=timedelta(seconds=0.6))
    service = Service(app, desk=desk, settings=settings)
    where = HttpSettings(address="127.0.0.1:0", is_open=True)
    made = HttpDoor(service, authenticator, Polls(), where)
    await made.start()
    yield made
    await made.stop(0.5)


def nonsense(port: int) -> list[bytes]:
    host = f"Host: 127.0.0.1:{port}\r\n".encode()
    post = b"POST /api/v1/tasks HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    get = b"GET /api/v1/queues HTTP/1.1\r\n" + host
    return [
        b"\r\n\r\n\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /a b HTTP/1.1\r\n" + host + b"\r\n",
        b"GET http://evil.example/api/v1/queues HTTP/1.1\r\n" + host + b"\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\n" + host + b"\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /%zz%00%ff%c3%28/..%2f..%2fetc HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /api/v1/tasks?" + b"a=%zz&" * 500 + b" HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        get + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        get + b"X: y\r\n" * 5000 + b"\r\n",
        get + b"X\x00: y\r\n\r\n",
        get + b"X: \x00\r\n\r\n",
        get + b"X : y\r\n\r\n",
        get + b"no colon\r\n\r\n",
        get + host + b"\r\n",
        get + b"Content-Length: x\r\n\r\n",
        get + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        get + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
        get + b"Authorization: \xff\xfe\r\n\r\n",
        get + b"Authorization: Basic eDp5\r\nAuthorization: Bearer x\r\n\r\n",
        get + b"Transfer-Encoding: gzip\r\n\r\n",
        post + b"Content-Length: -1\r\n\r\n",
        post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        post + b"Content-Length: 99999999999999999999999999\r\n\r\n",
        post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        post + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        post + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        post + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        post + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        post + b"Content-Length: 2\r\n\r\n{}{}{}GET / HTTP/1.1\r\n\r\n",
        post + b"\r\n",
    ]


async def lives(port: int) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"http://127.0.0.1:{port}/api/v1/queues")).status_code == 200


async def test_nonsense_is_never_a_500_and_the_server_lives(
    hasty: HttpDoor, caplog: pytest.LogCaptureFixture
) -> None:
    for data in nonsense(hasty.port):
        async with connected(hasty.port) as raw:
            await raw.send(data)
            raw.writer.write_eof()
            answer = await raw.all()

        assert b"HTTP/1.1 5" not in answer, (data[:200], answer)

    assert await lives(hasty.port)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_broken_requests_are_never_a_500_and_the_server_lives(
    hasty: HttpDoor, caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(7)
    port = hasty.port
    bodies = [
        b'{"type": "a"}',
        b'{"type": "a", "payload": {"a": [1, 2.5, "x"]}}',
        b'{"leases": []}',
    ]
    paths = ["/tasks", "/tasks:batch", "/leases", "/leases:heartbeat", "/queues:pause"]

    for _ in range(300):
        whole = bytearray(
            request("POST", f"/api/v1{draw.choice(paths)}", draw.choice(bodies), port=port)
        )
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(whole))
            match draw.randrange(3):
                case 0:
                    whole[place] = draw.randrange(256)
                case 1:
                    del whole[place : place + draw.randint(1, 20)]
                case _:
                    whole[place:place] = draw.randbytes(draw.randint(1, 5))
            whole = whole or bytearray(b"x")
        async with connected(port) as raw:
            await raw.send(bytes(whole))
            raw.writer.write_eof()
            answer = await raw.all()
        assert b"HTTP/1.1 5" not in answer, (bytes(whole), answer)

    assert await lives(port)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_requests_on_one_connection_are_answered_in_turn(door: HttpDoor) -> None:
    one = request("POST", "/api/v1/tasks", b'{"type": "a"}', port=door.port)
    last = request("GET", "/api/v1/queues", port=door.port, headers="Connection: close\r\n")

    async with connected(door.port) as raw:
        await raw.send(one * 3 + last)
        answers = await raw.all()

    assert answers.count(b"HTTP/1.1 201") == 3
    assert answers.count(b"HTTP/1.1 200") == 1


async def test_a_head_that_does_not_come_is_not_waited_for(hasty: HttpDoor) -> None:
    async with connected(hasty.port) as silent, connected(hasty.port) as slow:
        await slow.send(b"GET /api/v1/queues HTTP/1.1\r\nHost: x")
        nothing = await silent.all()
        told = await slow.all()

    assert nothing == b""
    assert status_of(told) == 408
    assert b"TOO_SLOW" in told


async def test_a_head_that_drips_is_not_waited_for(hasty: HttpDoor) -> None:
    async with connected(hasty.port) as raw:

        async def drip() -> None:
            for byte in b"GET /api/v1/queues HTTP/1.1\r\n" + b"X: y\r\n" * 10_000:
                await raw.send(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        told = await raw.all()
        dripping.cancel()
        await asyncio.wait([dripping])

    assert status_of(told) == 408


async def test_the_second_head_of_a_connection_is_not_waited_for_either(hasty: HttpDoor) -> None:
    async with connected(hasty.port) as raw:
        await raw.send(request("GET", "/api/v1/server", port=hasty.port))
        first = await raw.head()
        await raw.send(b"GET /api")
        rest = await raw.all()

    assert status_of(first) == 200
    assert b"HTTP/1.1 408" in rest


@pytest.mark.parametrize("encoding", ["length", "chunked"])
async def test_a_body_that_does_not_come_is_not_waited_for(hasty: HttpDoor, encoding: str) -> None:
    async with connected(hasty.port) as raw:
        whole = request("POST", "/api/v1/tasks", b'{"type"', port=hasty.port, whole=False)
        if encoding == "chunked":
            whole = whole.replace(b"Content-Length: 1007", b"Transfer-Encoding: chunked")
            whole = whole.replace(b'{"type"', b'7\r\n{"type"\r\n')
        await raw.send(whole)
        told = await raw.all()

    assert status_of(told) == 408
    assert b"TOO_SLOW" in told


async def test_a_body_without_end_is_cut_at_the_limit(hasty: HttpDoor, service: Service) -> None:
    chunk = b"100000\r\n" + b"[" * 0x100000 + b"\r\n"
    head = request("POST", "/api/v1/tasks", port=hasty.port).replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )

    async with connected(hasty.port) as raw:
        sent = 0

        async def pour() -> None:
            nonlocal sent
            await raw.send(head)
            while True:
                await raw.send(chunk)
                sent += len(chunk)

        pouring = asyncio.create_task(pour())
        told = await raw.all(within_seconds=20)
        pouring.cancel()
        await asyncio.wait([pouring])
        if not pouring.cancelled():
            assert isinstance(pouring.exception(), ConnectionError)

    assert status_of(told) == 413
    assert sent >= service.settings.request_limit_bytes
    assert await lives(hasty.port)


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error(
    hasty: HttpDoor, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        async with connected(hasty.port) as raw:
            await raw.send(request("POST", "/api/v1/tasks", b'{"ty', port=hasty.port, whole=False))

    assert await lives(hasty.port)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def large(client: httpx.AsyncClient) -> int:
    """Store so much that no socket takes it in one go; return the size of its listing."""
    for _ in range(16):
        task = {"type": "t", "queue": "large", "payload": {"x": "x" * 1_000_000}}
        assert (await client.post("/tasks", json=task)).status_code == 201
    return len((await client.get("/tasks?queue=large")).content)


async def test_an_answer_that_nobody_reads_is_not_held(
    hasty: HttpDoor, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "SLOWEST_BYTES_A_SECOND", 1e9)
    size_bytes = await large(client)
    server: Any = hasty._server
    async with connected(hasty.port) as raw:
        await raw.send(request("GET", "/api/v1/tasks?queue=large", port=hasty.port))
        await raw.head()
        assert server.server_state.connections
        await await_for(lambda: not server.server_state.connections)

        found = await raw.all()

    assert len(found) < size_bytes


async def test_an_answer_that_is_read_slowly_comes_whole(
    hasty: HttpDoor, client: httpx.AsyncClient
) -> None:
    size_bytes = await large(client)
    async with connected(hasty.port) as raw:
        await raw.send(request("GET", "/api/v1/tasks?queue=large", port=hasty.port))
        await raw.head()
        found = 0
        began_at = asyncio.get_running_loop().time()
        while found < size_bytes:
            found += len(await raw.reader.read(size_bytes // 100))
            await asyncio.sleep(0.01)

    assert asyncio.get_running_loop().time() - began_at > 0.6
    assert found == size_bytes

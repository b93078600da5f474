"""A server that asks for no token: kept from other machines, and from other web sites' pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc.aio
import httpx
import pytest

import wherry
from tests.security.doors import GrpcCalls, HttpCalls, said_of
from tests.security.places import dump
from wherry.config import ServerSettings
from wherry.server.run import Server

ANYWHERE = "127.0.0.1:0"
EVIL = "http://evil.example"


@pytest.fixture
def settings() -> ServerSettings:
    """A server on loopback, as a developer starts it."""
    return ServerSettings(
        grpc_address=ANYWHERE, http_address=ANYWHERE, http_hosts=("queue.internal",)
    )


@pytest.mark.parametrize(("door", "place"), [("grpc", "0.0.0.0:0"), ("http", ":0")])
async def test_what_others_can_reach_asks_for_tokens_unless_told_not_to(
    app: wherry.App, door: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-02: one such door is enough, and both ask; the explicit flag is warned of."""
    grpc_at, http_at = (place, ANYWHERE) if door == "grpc" else (ANYWHERE, place)
    reachable = ServerSettings(grpc_address=grpc_at, http_address=http_at)

    async with Server(app, reachable) as server:
        assert server.bound.grpc is not None
        assert server.bound.http is not None
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.bound.grpc.port}")
        base = f"http://127.0.0.1:{server.bound.http.port}"
        async with channel, httpx.AsyncClient(base_url=base, trust_env=False) as client:
            for call in (GrpcCalls(channel), HttpCalls(client)):
                said = await call("ListQueues", {})
                assert said.code == "UNAUTHENTICATED"
    assert "ASKS FOR NO TOKENS" not in caplog.text

    open_ = ServerSettings(grpc_address=grpc_at, http_address=http_at, auth=False)
    async with Server(app, open_) as server:
        assert not server.auth
    assert "ASKS FOR NO TOKENS" in caplog.text


async def raw(server: Server, data: str) -> str:
    assert server.bound.http is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.bound.http.port)
    writer.write(data.encode())
    async with asyncio.timeout(30):
        found = await reader.read()
    writer.close()
    return found.decode()


async def test_a_name_that_is_not_this_servers_gets_nothing(
    server: Server, connect: Callable[..., Any]
) -> None:
    """SEC-02: a page whose name was pointed here (DNS rebinding) reads and changes nothing."""
    before = dump(connect())
    body, close = '{"type": "t"}', "Connection: close\r\n"
    post = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    for host in (
        "evil.example",
        "evil.example:7480",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "queue.internal.evil.example",
        "xqueue.internal",
        "localhost:80:80",
        "localhost:x",
        "[::1",
        "[::2]",
        "0.0.0.0",
        "10.0.0.1",
        "2130706433",
        "0x7f.1",
        "",
    ):
        for head in ("GET /api/v1/queues", "GET /docs", "GET /openapi.json", "GET /nowhere"):
            said = await raw(server, f"{head} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n")
            assert said.startswith("HTTP/1.1 403"), (host, head, said)
        said = await raw(
            server,
            f"POST /api/v1/tasks HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{post}\r\n{body}",
        )
        assert said.startswith("HTTP/1.1 403"), (host, said)
    for nameless in (
        "GET /api/v1/queues HTTP/1.0\r\n\r\n",
        "GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        "GET /api/v1/queues HTTP/1.1\r\nConnection: close\r\n\r\n",
    ):
        said = await raw(server, nameless)
        assert said.startswith(("HTTP/1.1 400", "HTTP/1.1 403")), said
    assert dump(connect()) == before

    for host in (
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.9.9.9:80",
        "[::1]:7",
        "queue.internal",
    ):
        said = await raw(
            server, f"GET /api/v1/queues HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        assert said.startswith("HTTP/1.1 200"), (host, said)


async def test_a_page_of_another_site_stores_nothing(
    server: Server, over_http: HttpCalls, connect: Callable[..., Any]
) -> None:
    """SEC-02: whatever a form or a script of another site can have a browser send."""
    client = over_http.client
    before = dump(connect())
    own = server.bound.http_url or ""
    json_type = {"content-type": "application/json"}
    simple: list[dict[str, str]] = [
        {"content-type": "text/plain"},
        {"content-type": "text/plain; a=application/json"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/jsonx"},
        {"content-type": ""},
    ]
    foreign = [
        {"origin": EVIL},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost:1"},
        {"origin": f"{own}.evil.example"},
        {"origin": f"{EVIL}/{own}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": own},
    ]
    paths = ["/api/v1/tasks", "/api/v1/tasks:purge", "/api/v1/queues:pause", "/api/v1/leases"]
    bodies = [
        b'{"type": "t"}',
        b'{"selection": {"filter": {"queue": "default"}}}',
        b'{"queue": "a"}',
    ]
    for path in paths:
        for body in bodies:
            for headers in simple:
                said = await client.post(path, content=body, headers=headers)
                assert said.status_code == 415, headers
                said = await client.post(path, content=body, headers=headers | {"origin": EVIL})
                assert said.status_code == 403, headers
            for headers in foreign:
                said = await client.post(path, content=body, headers=json_type | headers)
                assert said.status_code == 403, headers
    assert dump(connect()) == before

    for mine in (
        {},
        {"origin": own},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ):
        said = await client.post(paths[0], content=bodies[0], headers=json_type | mine)
        assert said_of(said).code == "OK", mine


async def test_no_other_site_is_ever_invited(server: Server, over_http: HttpCalls) -> None:
    """SEC-02: no answer allows another origin to read it, or to ask for more than a form can."""
    asking = {
        "origin": EVIL,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, authorization",
    }
    for method in ("OPTIONS", "GET", "HEAD", "POST"):
        for path in ("/api/v1/tasks", "/api/v1/queues", "/docs", "/openapi.json", "/nowhere"):
            said = await over_http.client.request(method, path, headers=asking)

            assert not [name for name in said.headers if name.startswith("access-control")]
            assert said.headers["cross-origin-resource-policy"] == "same-origin"

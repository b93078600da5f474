"""Where a server listens, whom it asks for tokens, and what it says of that."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

import wherry
from tests.facts import await_for
from wherry.config import ServerSettings
from wherry.errors import ConfigError
from wherry.server.addresses import Address, parse_address
from wherry.server.run import Bound, Server, serve

HERE = ServerSettings(grpc_address="127.0.0.1:0", http_address="127.0.0.1:0")


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        ("127.0.0.1:8080", Address("127.0.0.1", 8080), True),
        ("127.9.9.9:1", Address("127.9.9.9", 1), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:8080", Address("::1", 8080), True),
        (":8080", Address("0.0.0.0", 8080), False),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535), False),
        ("[::]:80", Address("::", 80), False),
        ("10.0.0.1:80", Address("10.0.0.1", 80), False),
        # A name may mean anything, today or tomorrow.
        ("localhost.example:80", Address("localhost.example", 80), False),
    ],
)
def test_an_address_is_read(text: str, address: Address, is_loopback: bool) -> None:
    assert parse_address(text) == address
    assert parse_address(text).is_loopback is is_loopback
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", ":", "80", "host", "host:", "host:x", "host:٣", "host:-1", "::1:80", "[x]:1", "[::1]"],
)
def test_what_is_no_address_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ConfigError, match=r"address|brackets"):
        parse_address(text)


@pytest.mark.parametrize(
    ("grpc", "http", "auth", "asks"),
    [
        ("127.0.0.1:0", "[::1]:0", None, False),
        ("127.0.0.1:0", ":0", None, True),
        (":0", None, None, True),
        (":0", None, False, False),
        ("127.0.0.1:0", None, True, True),
    ],
)
def test_tokens_are_asked_for_as_soon_as_others_can_call(
    app: wherry.App, grpc: str, http: str | None, auth: bool | None, asks: bool
) -> None:
    server = Server(app, ServerSettings(grpc_address=grpc, http_address=http, auth=auth))

    assert server.auth is asks


def test_a_server_without_doors_is_refused(app: wherry.App) -> None:
    with pytest.raises(ConfigError, match="without any door"):
        Server(app, ServerSettings(grpc_address=None, http_address=None))


def test_client_certificates_need_tls(app: wherry.App) -> None:
    with pytest.raises(ConfigError, match="client certificates need TLS"):
        Server(app, ServerSettings(tls_client_ca=Path("ca.pem")))


async def test_a_port_that_is_taken_may_be_left_to_whoever_has_it(app: wherry.App) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = ServerSettings(grpc_address=address, http_address=address, or_any_port=True)

        async with Server(app, settings) as server:
            found = {server.bound.grpc_url, str(server.bound.http)}

    assert address not in found
    assert len(found) == 2


async def test_a_door_that_cannot_open_leaves_nothing_open(
    app: wherry.App, caplog: pytest.LogCaptureFixture
) -> None:
    before = asyncio.all_tasks()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(ConfigError, match=address):
            async with Server(
                app, ServerSettings(grpc_address="127.0.0.1:0", http_address=address)
            ):
                pytest.fail("it cannot have opened")

    await await_for(lambda: not any("wherry" in t.get_name() for t in asyncio.all_tasks() - before))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_serving_ends_when_it_is_canceled(app: wherry.App) -> None:
    bound: list[Bound] = []
    serving = asyncio.create_task(serve(app, HERE, ready=bound.append))
    await await_for(lambda: bound)

    serving.cancel()
    await asyncio.wait([serving], timeout=5)

    assert serving.cancelled()
    assert bound[0].grpc is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((bound[0].grpc.host, bound[0].grpc.port), timeout=1).close()


async def test_a_part_that_ends_by_itself_ends_the_server(
    app: wherry.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be a mistake of ours; a server that only seems to serve would hide it."""

    async def broken(self: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("wherry.maintenance.service.Maintenance.run", broken)

    with pytest.raises(RuntimeError, match="a mistake of ours"):
        async with asyncio.timeout(30):
            await serve(app, HERE)

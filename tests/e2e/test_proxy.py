"""The proxies of these tests and of the torture leave nothing behind, whenever a client comes."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from tests.e2e.proxy import Proxy
from tests.nemesis.wire import Wire


def come_as_it_ends(
    loop: asyncio.AbstractEventLoop, port: int, monkeypatch: pytest.MonkeyPatch
) -> socket.socket:
    """Connect, and have the loop notice in the very turn in which it is next asked for something.

    It stands still until it is.
    """
    came: list[socket.socket] = []
    has_come, was_asked = threading.Event(), threading.Event()
    ask = loop.call_soon_threadsafe

    def asking(*args: Any, **more: Any) -> asyncio.Handle:
        handle = ask(*args, **more)
        was_asked.set()
        return handle

    def come() -> None:
        came.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        has_come.set()
        assert was_asked.wait(10)

    ask(come)
    assert has_come.wait(10)
    monkeypatch.setattr(loop, "call_soon_threadsafe", asking)
    return came[0]


def is_hung_up(client: socket.socket) -> bool:
    with client:
        try:
            return client.recv(1) == b""
        except ConnectionError:
            return True


@pytest.fixture
def nobody() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return port_of(free)


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def test_a_client_that_comes_as_the_proxy_ends_is_closed(
    nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(nobody) as proxy:
        client = come_as_it_ends(proxy._loop, proxy.port, monkeypatch)

    assert is_hung_up(client)


def test_so_is_one_that_comes_as_the_wire_of_the_torture_ends(
    nobody: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, Wire(nobody, port_of(there)) as wire:
        client = come_as_it_ends(wire._loop, nobody, monkeypatch)

    assert is_hung_up(client)

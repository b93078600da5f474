"""A database in the hands of the state machine, and a server in front of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import wherry
from tests.conformance.conftest import served
from tests.property.model import MAX_RELEASES, MAX_SNOOZES
from tests.property.play import Place
from wherry.maintenance.service import Maintenance


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that an example reaches."""
    monkeypatch.setattr("wherry.config.MAX_SNOOZES", MAX_SNOOZES)
    monkeypatch.setattr("wherry.config.MAX_RELEASES", MAX_RELEASES)


@pytest.fixture
def place(
    dsn: str, connect: Callable[..., psycopg.Connection[Any]], limits: None
) -> Iterator[Place]:
    """A database, its clock in our hands."""
    with wherry.App(dsn) as app:
        yield Place(app, app, connect(), connect())


@pytest.fixture
def place_behind_a_server(
    dsn: str,
    connect: Callable[..., psycopg.Connection[Any]],
    limits: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    """The same, but what is asked goes through a server, which maintains nothing by itself."""

    async def rest(_: Maintenance) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Maintenance, "run", rest)
    address: list[str] = []
    began = threading.Event()
    loop = asyncio.new_event_loop()
    ends = asyncio.Event()

    async def serve() -> None:
        async with served(dsn) as made:
            address.append(made)
            began.set()
            await ends.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            began.set()
            loop.close()

    thread = threading.Thread(target=run, name="server")
    thread.start()
    try:
        assert began.wait(30)
        with wherry.App(address[0]) as app, wherry.App(dsn) as direct:
            yield Place(app, direct, connect(), connect())
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(30)


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int | None:
    """How many were asked for; None in the suite."""
    found: Any = request.config.getoption("--property-examples")
    return found if found is None else int(found)

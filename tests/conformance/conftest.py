"""Every test here is run twice: by an App on the database, and by one that has only a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import wherry
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.running import running_service


@asynccontextmanager
async def served(dsn: str, *, port: int = 0) -> AsyncIterator[str]:
    """Run a gRPC server for the database, in this loop; gives its address."""
    async with wherry.App(dsn) as behind, running_service(behind) as running:
        authenticator = Authenticator(behind, required=False)
        settings = GrpcSettings(address=f"127.0.0.1:{port}")
        door = GrpcDoor(running.service, authenticator, Polls(), settings)
        await door.start()
        try:
            yield f"grpc://127.0.0.1:{door.port}"
        finally:
            running.desk.drain()
            await door.stop(0.5)
            await authenticator.aclose()


@pytest.fixture
async def address(dsn: str) -> AsyncIterator[str]:
    """The address of a server for the test's database."""
    async with served(dsn) as made:
        yield made


@pytest.fixture
async def remote(address: str) -> AsyncIterator[wherry.App]:
    """An App that has only a server."""
    async with wherry.App(address) as made:
        yield made


@pytest.fixture(params=["direct", "grpc"])
def app(request: pytest.FixtureRequest) -> wherry.App:
    """An App that reaches the test's database in one of the two ways."""
    chosen = {"direct": "database", "grpc": "remote"}[request.param]
    made: wherry.App = request.getfixturevalue(chosen)
    return made


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[wherry.App]:
    """An App on the database itself, to look, and to do what a server does not do for anybody."""
    async with wherry.App(dsn) as made:
        yield made

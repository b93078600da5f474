"""An HTTP door on the test's database, and a client of it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

import wherry
from wherry.server.auth import Authenticator, Polls
from wherry.server.http import HttpDoor, HttpSettings
from wherry.server.service import Service

# The example for curl needs curl.
collect_ignore = [] if shutil.which("curl") else ["test_curl.py"]


@pytest.fixture
async def authenticator(app: wherry.App) -> AsyncIterator[Authenticator]:
    """Lets everybody do everything."""
    made = Authenticator(app, required=False)
    yield made
    await made.aclose()


@pytest.fixture
async def door(service: Service, authenticator: Authenticator) -> AsyncIterator[HttpDoor]:
    """A door that listens; `door.port` says where."""
    settings = HttpSettings(address="127.0.0.1:0", is_open=True)
    made = HttpDoor(service, authenticator, Polls(), settings)
    await made.start()
    yield made
    await made.stop(0.5)


@pytest.fixture
async def client(door: HttpDoor) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose addresses are relative to the API."""
    base = f"http://127.0.0.1:{door.port}/api/v1"
    async with httpx.AsyncClient(base_url=base, timeout=10, trust_env=False) as made:
        yield made


@pytest.fixture
def root(door: HttpDoor) -> Callable[[str], str]:
    """Return the whole address of a path."""
    return lambda path: f"http://127.0.0.1:{door.port}{path}"

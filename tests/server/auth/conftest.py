"""Authenticators: on a scripted store, and on a database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import wherry
from tests.server.auth.support import Store, Time
from wherry.server.auth import Authenticator


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def door(store: Store, time: Time) -> AsyncIterator[Authenticator]:
    """An Authenticator on a scripted store."""
    made = Authenticator(store, clock=time)
    yield made
    await made.aclose()


@pytest.fixture
async def real(app: wherry.App, time: Time) -> AsyncIterator[Authenticator]:
    """An Authenticator on a database."""
    made = Authenticator(app, clock=time)
    yield made
    await made.aclose()

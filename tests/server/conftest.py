"""A service on the test's database, as both doors have it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import wherry
from wherry.server.desk import Desk
from wherry.server.service import Service


@pytest.fixture
async def service(app: wherry.App) -> AsyncIterator[Service]:
    """The service of a server, with its desk running."""
    made = Service(app, desk=Desk(app))
    yield made

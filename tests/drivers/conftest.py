"""Fixtures that open each kind of connection that `tx=` takes.

Which of the three a test asks for says over what it runs: all kinds at each isolation level, all
kinds at the level that PostgreSQL begins with, or all kinds in autocommit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from tests.drivers.kinds import AUTOCOMMIT, ISOLATIONS, KINDS, READ_COMMITTED, Kind

Stored = Callable[[], list[int]]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Kind]:
    """A kind of connection."""
    found: type[Kind] = request.param
    return found


@pytest.fixture(params=ISOLATIONS)
async def caller(request: pytest.FixtureRequest, kind: type[Kind], dsn: str) -> AsyncIterator[Kind]:
    """An open connection of every kind, at every isolation level."""
    async with kind.open(dsn, request.param) as opened:
        yield opened


@pytest.fixture
async def plain_caller(kind: type[Kind], dsn: str) -> AsyncIterator[Kind]:
    """An open connection of every kind, at READ COMMITTED."""
    async with kind.open(dsn, READ_COMMITTED) as opened:
        yield opened


@pytest.fixture
async def autocommit_caller(kind: type[Kind], dsn: str) -> AsyncIterator[Kind]:
    """An open connection of every kind, in autocommit."""
    async with kind.open(dsn, AUTOCOMMIT) as opened:
        yield opened


@pytest.fixture
def observer(connect: Callable[..., psycopg.Connection[Any]]) -> psycopg.Connection[Any]:
    """A connection of nobody's, in autocommit."""
    return connect()


@pytest.fixture
def stored(observer: psycopg.Connection[Any]) -> Stored:
    """Return the ids of all tasks that are committed, whatever their state."""

    def ids() -> list[int]:
        rows = observer.execute("select id from wherry.tasks order by id").fetchall()
        return [row[0] for row in rows]

    return ids

"""Fixtures for pytest; there for whoever has Wherry installed, and idle until one is asked for.

pytest imports this module at each of its starts, also in projects that never use it: nothing heavy
may be imported here but inside a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wherry.testing.clock import Clock
    from wherry.testing.postgres import TemplateServer


@pytest.fixture(scope="session")
def wherry_server() -> Iterator[TemplateServer]:
    """The PostgreSQL server of this test run, with a migrated template database."""
    from wherry.testing.postgres import TemplateServer

    with TemplateServer() as server:
        yield server


@pytest.fixture
def wherry_dsn(wherry_server: TemplateServer) -> Iterator[str]:
    """The DSN of a migrated database that is this test's own."""
    with wherry_server.database() as dsn:
        yield dsn


@pytest.fixture
def wherry_clock(wherry_dsn: str) -> Clock:
    """The clock of this test's database; `wherry_clock.advance(minutes=6)` moves it."""
    from wherry.testing.clock import Clock

    return Clock(wherry_dsn)

"""Fixtures for pytest; there for whoever has Wherry installed, and idle until one is asked for.

pytest imports this module at each of its starts, also in projects that never use it: nothing heavy
may be imported here but inside a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wherry.testing.clock import Clock
    from wherry.testing.postgres import TemplateServer


@pytest.fixture(scope="session")
def wherry_schema() -> str:
    """The schema that Wherry's tables are in; redefine it if your App names another one."""
    return "wherry"


@pytest.fixture(scope="session")
def wherry_prepare() -> Callable[[str], object] | None:
    """Redefine it to return a function that makes your own tables in the database of a DSN."""
    return None


@pytest.fixture(scope="session")
def wherry_server(
    wherry_schema: str, wherry_prepare: Callable[[str], object] | None
) -> Iterator[TemplateServer]:
    """The PostgreSQL server of this test run, with a template that every test gets a copy of."""
    from wherry.testing.postgres import TemplateServer

    with TemplateServer(schema=wherry_schema, prepare=wherry_prepare) as server:
        yield server


@pytest.fixture
def wherry_dsn(wherry_server: TemplateServer) -> Iterator[str]:
    """The DSN of a migrated database that is this test's own, and gone after it."""
    with wherry_server.database() as dsn:
        yield dsn


@pytest.fixture
def wherry_clock(wherry_dsn: str, wherry_schema: str) -> Clock:
    """The clock of this test's database; `wherry_clock.advance(minutes=6)` moves it."""
    from wherry.testing.clock import Clock

    return Clock(wherry_dsn, schema=wherry_schema)

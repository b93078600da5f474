"""Fixtures for all tests: a database of their own, an App on it, connections to it, its clock.

They are those that users get (`wherry.testing.plugin`), under shorter names. Folders that need
something else, such as an empty database, redefine a name in their own conftest.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import settings

import wherry
from tests.pg.support import OpenSession, Session
from wherry.testing import Clock

# How long an example takes is nothing that a shared machine can tell.
settings.register_profile("wherry", deadline=None)
settings.load_profile("wherry")

# A shell has what it starts with `&` ignore Ctrl-C, and so would all that the tests start and stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["wherry.testing.plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the tests that are run on request only."""
    parser.addoption(
        "--race-triples",
        action="store_true",
        help="play all of every three operations on one task, not only some (tests/race)",
    )
    parser.addoption(
        "--browser",
        action="store_true",
        help="run what needs a Chromium (tests/browser; ./run browser)",
    )
    parser.addoption(
        "--screenshots",
        metavar="FOLDER",
        help="with --browser: write the pictures of the documents into this folder",
    )
    parser.addoption(
        "--fuzz-calls",
        type=int,
        default=800,
        metavar="N",
        help="so many bad calls each door of a server gets, and the command line half of them"
        " (tests/security, tests/fuzz; default: 800)",
    )
    parser.addoption(
        "--property-examples",
        type=int,
        metavar="N",
        help="try so many random examples, in place of the suite's own (tests/property)",
    )


@pytest.fixture
def dsn(wherry_dsn: str) -> str:
    """A fresh migrated database of this test's own."""
    return wherry_dsn


@pytest.fixture
def clock(wherry_clock: Clock) -> Clock:
    """The clock of the test's database."""
    return wherry_clock


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[wherry.App]:
    """An App on the test's database; its pools are closed afterwards."""
    made = wherry.App(dsn)
    yield made
    await made.aclose()


@pytest.fixture
def open_session(dsn: str) -> Iterator[OpenSession]:
    """Open sessions; they are closed afterwards."""
    opened: list[Session] = []

    def open_session(**options: str) -> Session:
        opened.append(Session(dsn, **options))
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


@pytest.fixture
def session(open_session: OpenSession) -> Session:
    """One session, for tests that need no second."""
    return open_session()


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """Connect to the test's database, in autocommit unless said; closed afterwards."""
    opened: list[psycopg.Connection[Any]] = []

    def connect(**options: Any) -> psycopg.Connection[Any]:
        connection = psycopg.connect(dsn, **{"autocommit": True, "connect_timeout": 10, **options})
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()

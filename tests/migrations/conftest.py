"""A server and databases of their own for tests that change what no other test may see."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.migrations.support import Server, WriteFiles
from wherry.embedded import Embedded, acquire


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """The server of this test run; it ends with it."""
    home = Path(tempfile.mkdtemp(prefix="wherry-mig-"))
    # As root the server runs as somebody else, who has to reach it.
    home.chmod(0o711)
    with acquire(home / "home", settings={"fsync": False, "max_connections": 60}) as server:
        yield server
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def server(embedded: Embedded) -> Iterator[Server]:
    """The server, whose databases and roles made by the test go when it ends."""
    with psycopg.connect(embedded.dsn, autocommit=True) as admin:
        made = Server(embedded, admin)
        yield made
        made.drop_all()


@pytest.fixture
def dsn(server: Server) -> str:
    """An empty database of this test's own, as a superuser."""
    return server.make_database()


@pytest.fixture
def folder(tmp_path: Path) -> WriteFiles:
    """A folder of migrations to write, by file name and SQL."""
    return WriteFiles(tmp_path / "migrations")

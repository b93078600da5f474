"""What the tests of migrations share: a server to make databases and roles on, folders, threads."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from wherry.embedded import Embedded

Result = TypeVar("Result")
PATIENCE_SECONDS = 30.0


class Server:
    """Makes databases and roles with names of their own, and drops them again."""

    def __init__(self, embedded: Embedded, admin: psycopg.Connection) -> None:
        self.dsn = embedded.dsn
        self.bin = embedded.bin
        self.admin = admin
        self._databases: list[str] = []
        self._roles: list[str] = []

    def make_database(self, owner: str | None = None) -> str:
        name = f"mig_{secrets.token_hex(6)}"
        self.execute("create database {}", name)
        self._databases.append(name)
        if owner is not None:
            self.execute("alter database {} owner to {}", name, owner)
        return make_conninfo(self.dsn, dbname=name)

    def make_role(self) -> str:
        """Return a new role that may log in and has no right at all of its own."""
        name = f"mig_{secrets.token_hex(6)}"
        self.execute("create role {} login nosuperuser nocreatedb nocreaterole", name)
        self._roles.append(name)
        return name

    def execute(self, statement: LiteralString, *names: str) -> None:
        self.admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def drop_all(self) -> None:
        for name in self._databases:
            self.execute("drop database {} with (force)", name)
        for name in self._roles:
            self.execute("drop role {}", name)


class WriteFiles:
    """A folder of migrations; calling it writes or replaces files, and returns the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def __call__(self, files: Mapping[str, str]) -> Path:
        for name, content in files.items():
            (self.path / f"{name}.sql").write_text(content)
        return self.path


class Running(Generic[Result]):
    """A call in a thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._result: list[Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Result:
        self._thread.join(PATIENCE_SECONDS)
        assert self.is_over, f"the call is not over after {PATIENCE_SECONDS:g} s"
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error


def wait_until(fact: Callable[[], object]) -> None:
    """Return as soon as *fact* is true; fail the test if it does not become so."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < ends_at, f"not true after {PATIENCE_SECONDS:g} s"
        time.sleep(0.005)


def value(conn: psycopg.Connection[Any], statement: LiteralString, *params: object) -> Any:
    """Return the one value that the statement selects."""
    row = conn.execute(statement, params).fetchone()
    assert row is not None
    return row[0]


def user_dsn(dsn: str, role: str) -> str:
    return make_conninfo(dsn, user=role)

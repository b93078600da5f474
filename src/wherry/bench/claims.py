"""Which schemas a benchmark may make and drop: those that were not there before it.

A database may be somebody's. So a name that is taken is refused, never dropped; what was made here
is dropped here, also after Ctrl-C; and what a benchmark that was killed has left is told with the
statement that removes it. Only in the benchmarks' own embedded server it is removed without asking.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from wherry.errors import ConfigError

SCHEMA = "wherry_bench"
# All start like this, so that whoever finds one knows whose it is.
PREFIX = f"{SCHEMA}_"
# Benchmarks of one database take turns: a session's lock, which goes with the session.
_LOCK = 0x77686272
# Sessions of processes that were just ended may hold locks for a moment.
_PATIENCE = "set lock_timeout = '30s'"


class Claims:
    """The schemas that one benchmark has made in a database."""

    def __init__(
        self, dsn: str, connection: psycopg.Connection[Any], *, is_ours: bool = False
    ) -> None:
        self._dsn = dsn
        self._connection = connection
        self._is_ours = is_ours
        self._mine: list[str] = []

    def begin(self) -> None:
        """Take the turn. Raises ConfigError if another benchmark runs, or has left something."""
        row = self._connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
        if row != (True,):
            raise ConfigError("another benchmark is measuring in this database: wait until it ends")
        left = self._found(r"wherry\_bench%")
        if self._is_ours:
            for name in left:
                _drop(self._connection, name)
        elif left:
            raise ConfigError(_refusal(left))

    def clear(self, name: str) -> None:
        """See that there is no such schema, and from now on count it as made here.

        Raises ConfigError if it is there and was not made here.
        """
        assert name == SCHEMA or name.startswith(PREFIX)
        if name in self._mine:
            _drop(self._connection, name)
        elif self._found(name.replace("_", r"\_")):
            raise ConfigError(_refusal([name]))
        else:
            self._mine.append(name)

    def end(self) -> None:
        """Drop all that was made here. Raises psycopg.Error; `left` tells what is not dropped."""
        if not self._mine:
            return
        # Over a connection of its own: a statement may have been interrupted on the other one.
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(_PATIENCE)
            while self._mine:
                _drop(connection, self._mine[-1])
                self._mine.pop()

    def left(self) -> str:
        """Say what is still there and how to drop it; empty if nothing is."""
        return _how_to_drop(self._mine) if self._mine else ""

    def _found(self, pattern: str) -> list[str]:
        rows = self._connection.execute(
            "select nspname from pg_namespace where nspname like %s order by nspname", (pattern,)
        )
        return [name for (name,) in rows]


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))


def _refusal(names: list[str]) -> str:
    return (
        f"schema {', '.join(map(repr, names))} is already in this database, and a benchmark touches"
        " nothing that it has not made itself. If a benchmark that was killed has left it:"
        f" {_how_to_drop(names)}"
    )


def _how_to_drop(names: list[str]) -> str:
    return " ".join(f'drop schema if exists "{name}" cascade;' for name in names)

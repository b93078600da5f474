"""The database that is looked at: one connection that changes nothing and waits for nothing long.

It is made as an application's own connections are, without the options by which ours pin their
plans: so what it sees of the settings is what everybody gets. Each statement is a transaction of
its own, read-only and with limits that end with it; so it is safe behind a pooler, too, and on a
database that is sick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg.conninfo import make_conninfo

from wherry.commands.base import Answer, Command, Rows, Statement
from wherry.config import PoolSettings
from wherry.dsn import read_dsn
from wherry.errors import Unavailable
from wherry.transport.base import run
from wherry.transport.bounded import Connection
from wherry.transport.faults import one_line

STATEMENT_SECONDS: Final = 3.0
_LOCK_SECONDS: Final = 0.5
# Above the server's own limit, which speaks first if it still can.
ANSWER_SECONDS: Final = 10.0
_LIMITS: Final = (
    "select pg_catalog.set_config('statement_timeout', %s, true),"
    " pg_catalog.set_config('lock_timeout', %s, true),"
    " pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
)
_NAME: Final = "wherry doctor"


@dataclass(frozen=True, slots=True)
class _Look(Command[Rows]):
    """One statement, for its rows."""

    name: str
    params: Mapping[str, Any]

    def answer(self) -> Answer[Rows]:
        return (yield Statement(self.name, self.params))


class Patient:
    """A database and a schema in it; a context manager that closes its connection.

    Raises Unavailable if no connection can be made, and ConfigError for a DSN that is none.
    """

    def __init__(self, dsn: str, *, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self._connection = connect(dsn)
        info = self._connection.info
        # Where the server is, without anything secret, and as whom we look: these are asked for
        # when the connection may be lost, too.
        self.server = f"{info.host}:{info.port}"
        self.database = info.dbname
        self.role = info.user

    @property
    def connection(self) -> Connection:
        """The open connection; one that was lost is made anew."""
        if self._connection.closed:
            self._connection = connect(self.dsn)
        return self._connection

    def rows(self, name: str, **params: Any) -> Rows:
        """Return the rows of the statement sql/<name>.sql. Raises what the driver raises."""
        connection = self.connection
        with connection.transaction():
            limits = (_milliseconds(STATEMENT_SECONDS), _milliseconds(_LOCK_SECONDS))
            connection.execute(_LIMITS, limits)
            return run(connection, _Look(name, params), schema=self.schema)

    def row(self, name: str, **params: Any) -> tuple[Any, ...]:
        """Return the only row of a statement."""
        [row] = self.rows(name, **params)
        return row

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(dsn: str) -> Connection:
    """Return a connection that can only read. Raises Unavailable.

    Of several hosts it is to the one that takes writes; if there is none, to any: then that is what
    has to be said of them.
    """
    bounds = PoolSettings()
    given = read_dsn(dsn)
    wanted: dict[str, Any] = {
        "application_name": _NAME,
        "client_encoding": "UTF8",
        "connect_timeout": int(bounds.connect_timeout.total_seconds()),
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": bounds.network_timeout // timedelta(milliseconds=1),
    }
    if "," not in str(given.get("host", "")):
        return _connect(wanted | given)
    try:
        return _connect({**wanted, "target_session_attrs": "read-write", **given})
    except Unavailable as error:
        try:
            return _connect({**wanted, **given, "target_session_attrs": "any"})
        except Unavailable:
            raise error from None


def _connect(parameters: Mapping[str, Any]) -> Connection:
    try:
        connection = Connection.connect(
            make_conninfo(**parameters), autocommit=True, prepare_threshold=None
        )
    except psycopg.OperationalError as error:
        raise Unavailable(f"cannot connect to the database: {one_line(error)}") from error
    connection.answer_seconds = ANSWER_SECONDS
    connection.read_only = True
    return connection


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))

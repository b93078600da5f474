"""The session that migrations run in: how it connects, and how it takes turns with others.

The turn is an advisory lock of the transaction, always *tried*, never waited for: a session that
waits inside pg_advisory_lock() deadlocks with CREATE INDEX CONCURRENTLY of the one that holds it.
It belongs to the transaction, so it cannot outlive a migrator that died behind a broken network:
the server ends an idle transaction, and with it the turn.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from wherry.config import PoolSettings
from wherry.domain.lines import on_one_line
from wherry.dsn import read_dsn
from wherry.errors import MigrationError, ReadOnly, Unavailable
from wherry.migrations.records import rows

Connection = psycopg.Connection[Any]

# Everybody who wants a row of a table queues behind a migration that waits for its lock, so it
# waits briefly and comes back later.
TABLE_LOCK_WAIT = timedelta(seconds=1)
# How long the server keeps the transaction of a migrator that has fallen silent.
SILENCE_LIMIT = timedelta(seconds=60)

# Names resolve in pg_catalog only: a file that forgets to write the schema fails, wherever it runs.
LOCAL_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "lock_timeout": f"{TABLE_LOCK_WAIT // timedelta(milliseconds=1)}ms",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": f"{SILENCE_LIMIT // timedelta(milliseconds=1)}ms",
    "standard_conforming_strings": "on",
}

_HOLDERS_OF_TURN = """\
select l.pid, a.application_name, a.usename, a.state
  from pg_catalog.pg_locks l
  left join pg_catalog.pg_stat_activity a using (pid)
 where l.locktype = 'advisory'
   and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
   and l.granted
   and l.objsubid = 1
   and l.classid::bigint = %s
   and l.objid::bigint = %s
"""

_HOLDERS_OF_TABLES = """\
select l.pid, a.application_name, a.usename, a.state
  from pg_catalog.pg_locks l
  join pg_catalog.pg_class c on c.oid = l.relation
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_stat_activity a using (pid)
 where l.database = (select oid from pg_catalog.pg_database where datname = current_database())
   and l.granted
   and l.pid is distinct from pg_backend_pid()
   and n.nspname = %s
 group by 1, 2, 3, 4
 order by min(a.xact_start) nulls last
 limit 3
"""


@contextmanager
def connected(where: str | Connection) -> Generator[Connection, None, None]:
    """Give an idle connection in autocommit: an own one to a DSN, or the caller's.

    Raises Unavailable if the server cannot be reached or is lost on the way, and ConfigError for a
    DSN that cannot be read.
    """
    if isinstance(where, str):
        conn = _connect(where)
        try:
            with _silence_named():
                yield conn
        finally:
            conn.close()
        return
    if where.info.transaction_status is not TransactionStatus.IDLE:
        raise MigrationError(
            "the connection is inside a transaction or closed: pass one that is idle, or a DSN"
        )
    autocommit = where.autocommit
    where.autocommit = True
    try:
        with _silence_named():
            yield where
    finally:
        if not where.closed:
            where.autocommit = autocommit


@contextmanager
def _silence_named() -> Generator[None, None, None]:
    try:
        yield
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"the database could not answer: {on_one_line(str(error))}. What was being applied is"
            " applied whole or not at all: run it again"
        ) from error


def _connect(dsn: str) -> Connection:
    bounds = PoolSettings()
    given = read_dsn(dsn)
    wanted: dict[str, Any] = {
        "application_name": "wherry migrate",
        "client_encoding": "UTF8",
        "connect_timeout": int(bounds.connect_timeout.total_seconds()),
        "keepalives_idle": 5,
        "keepalives_interval": 5,
        "keepalives_count": 2,
        "tcp_user_timeout": bounds.network_timeout // timedelta(milliseconds=1),
    }
    if "," in str(given.get("host", "")):
        # Of several servers, the one that takes writes; it is not always the first.
        wanted["target_session_attrs"] = "read-write"
    try:
        return psycopg.connect(make_conninfo(dsn, **(wanted | given)), autocommit=True)
    except psycopg.OperationalError as error:
        raise Unavailable(f"cannot connect to the database: {on_one_line(str(error))}") from error


def require_writable(conn: Connection) -> None:
    """Raise ReadOnly on a standby, or where the role or database may only read."""
    [[standby, read_only]] = rows(
        conn, "select pg_is_in_recovery(), current_setting('transaction_read_only')::boolean"
    )
    if standby:
        raise ReadOnly(
            "connected to a read-only server: it is a standby. Migrate on the primary"
            " (in a DSN with several hosts, target_session_attrs=read-write finds it)"
        )
    if read_only:
        raise ReadOnly(
            "connected to a read-only server: default_transaction_read_only is on for this"
            " server, database or role. Connect as a role that may write"
        )


def is_pooled(conn: Connection) -> bool:
    """Return whether a pooler such as PgBouncer sits between, where a session is nobody's own."""
    [[pid]] = rows(conn, "select pg_backend_pid()")
    return bool(pid != conn.info.backend_pid)


def turn_key(schema: str) -> int:
    """Return the key of the advisory lock that gives the turn to migrate *schema*."""
    digest = hashlib.sha256(b"wherry migrations of " + schema.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


@contextmanager
def transaction(conn: Connection) -> Generator[None, None, None]:
    """A transaction with the settings of migrations, which end with it."""
    with conn.transaction():
        # The role's default may be SERIALIZABLE, where reading the records again shows old ones.
        conn.execute("set transaction isolation level read committed", prepare=False)
        _set(conn, LOCAL_SETTINGS, local=True)
        yield


def take_turn(conn: Connection, schema: str) -> bool:
    """Try to be the one who migrates until the transaction ends; return whether we are."""
    [[taken]] = rows(conn, "select pg_try_advisory_xact_lock(%s)", [turn_key(schema)])
    return bool(taken)


@contextmanager
def session_turn(conn: Connection, schema: str) -> Generator[bool, None, None]:
    """Try to be the one who migrates, outside of transactions; give whether we are."""
    [[taken]] = rows(conn, "select pg_try_advisory_lock(%s)", [turn_key(schema)])
    try:
        yield bool(taken)
    finally:
        if taken and not conn.closed:
            conn.execute("select pg_advisory_unlock(%s)", [turn_key(schema)], prepare=False)


def holders_of_turn(conn: Connection, schema: str) -> list[str]:
    """Return who is migrating *schema* now, each as a sentence's part."""
    unsigned = turn_key(schema) % 2**64
    found = rows(conn, _HOLDERS_OF_TURN, [unsigned >> 32, unsigned % 2**32])
    return [_holder(row) for row in found]


def holders_of_tables(conn: Connection, schema: str) -> list[str]:
    """Return who holds locks on tables of *schema*, the oldest transactions first."""
    return [_holder(row) for row in rows(conn, _HOLDERS_OF_TABLES, [schema])]


def _holder(row: Sequence[Any]) -> str:
    pid, application_name, user, state = row
    if pid is None:
        return "a prepared transaction"
    # Another role's state is hidden from roles that may not monitor.
    doing = f", {state}" if state else ""
    return f"pid {pid} (application_name {application_name or ''!r}, role {user}{doing})"


@contextmanager
def settings(conn: Connection, *, lock_timeout: timedelta) -> Generator[None, None, None]:
    """Settings for statements that must run outside a transaction, put back at the end."""
    wanted = {
        "lock_timeout": f"{lock_timeout // timedelta(milliseconds=1)}ms",
        "statement_timeout": "0",
        "search_path": "pg_catalog, pg_temp",
    }
    before = {name: rows(conn, "select current_setting(%s)", [name])[0][0] for name in wanted}
    _set(conn, wanted)
    try:
        yield
    finally:
        if not conn.closed:
            _set(conn, before)


def _set(conn: Connection, values: Mapping[str, str], *, local: bool = False) -> None:
    for name, value in values.items():
        rows(conn, "select pg_catalog.set_config(%s, %s, %s)", [name, value, local])


class Patience:
    """How long somebody else may keep us waiting; starts when it is made."""

    def __init__(self, limit: timedelta) -> None:
        self.limit = limit
        self._ends_at = time.monotonic() + limit.total_seconds()

    def pause(self) -> bool:
        """Sleep a moment, unevenly, so that many who wait do not try at once.

        Returns False, without sleeping, once the time is over.
        """
        left = self._ends_at - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, random.uniform(0.05, 0.3)))
        return True

"""Brings a schema to the version that this code knows, one file at a time.

Each file and its record commit together, so a schema is always at a whole version. Any number of
processes may migrate at once: whoever has the turn applies the next file, the others see its record
and go on. Nothing is held between two files, which is what lets a migrator die anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources.abc import Traversable
from typing import Literal

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus

from wherry.config import DEFAULT_SCHEMA
from wherry.domain.names import check_schema, quote_identifier, render_schema
from wherry.errors import MigrationFailed
from wherry.migrations import session
from wherry.migrations.files import MigrationFile, read_folder
from wherry.migrations.records import (
    CREATE_TABLE,
    Record,
    encoded,
    insert_record,
    outstanding,
    read_records,
    require_current,
    rows,
    table_exists,
)
from wherry.migrations.refusals import failure, locked

WAIT_FOR = timedelta(seconds=60)

# Somebody else's lock was in the way, or a deadlock was ended at our cost: nothing is wrong.
_TRY_AGAIN = (pg.LockNotAvailable, pg.DeadlockDetected)


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration that was applied just now, and how long its file took.

    `tried` is False only in a dry run, for a file that cannot run in a transaction.
    """

    version: int
    name: str
    took: timedelta
    tried: bool = True


@dataclass(frozen=True, slots=True)
class MigrationState:
    """How one migration stands; `unknown` is in the database and has no file here."""

    version: int
    name: str
    checksum: str
    state: Literal["applied", "pending", "edited", "renamed", "unknown"]
    applied_at: datetime | None = None
    applied_by: str | None = None


def migrate(
    where: str | session.Connection,
    *,
    schema: str = DEFAULT_SCHEMA,
    up_to: int | None = None,
    wait_for: timedelta = WAIT_FOR,
    folder: Traversable | None = None,
) -> list[Applied]:
    """Apply what the schema lacks, through version *up_to*, and return what this call applied.

    *where* is a DSN, or an idle connection. Of many callers at once each file is applied by one;
    all return. *wait_for* bounds each wait for another migrator or for a lock, counted anew
    whenever a file was applied. Raises MigrationError, SchemaTooNew, ReadOnly or Unavailable;
    what was applied before stays.
    """
    check_schema(schema)
    files = read_folder(folder)
    applied: list[Applied] = []
    with session.connected(where) as conn:
        session.require_writable(conn)
        seen, patience = -1, session.Patience(wait_for)
        while True:
            records = _records(conn, schema)
            pending = outstanding(files, records, schema=schema)
            if not pending or (up_to is not None and pending[0].version > up_to):
                return applied
            if len(records) != seen:
                seen, patience = len(records), session.Patience(wait_for)
            file = pending[0]
            obstacle: psycopg.Error | None = None
            started_at = time.monotonic()
            try:
                done = _apply(conn, schema, file, files, wait_for=wait_for)
            except _TRY_AGAIN as error:
                done, obstacle = False, error
            except psycopg.Error as error:
                raise failure(error, file, schema=schema, conn=conn) from error
            if done:
                applied.append(_applied(file, started_at))
            elif not patience.pause():
                raise locked(
                    conn, file, schema=schema, waited=wait_for, obstacle=obstacle
                ) from obstacle


def dry_run(
    where: str | session.Connection,
    *,
    schema: str = DEFAULT_SCHEMA,
    up_to: int | None = None,
    wait_for: timedelta = WAIT_FOR,
    folder: Traversable | None = None,
) -> list[Applied]:
    """Run what the schema lacks in one transaction, roll it back, and return what was run.

    An error shows as it would from `migrate`. The files' locks are really taken, and held until
    the last file has run: on a busy database, workers wait for that long.
    """
    check_schema(schema)
    files = read_folder(folder)
    with session.connected(where) as conn:
        session.require_writable(conn)
        patience = session.Patience(wait_for)
        while True:
            obstacle: psycopg.Error | None = None
            try:
                run = _run_and_roll_back(conn, schema, files, up_to)
            except _TRY_AGAIN as error:
                run, obstacle = None, error
            if run is not None:
                return run
            if not patience.pause():
                raise locked(
                    conn, None, schema=schema, waited=wait_for, obstacle=obstacle
                ) from obstacle


def status(
    where: str | session.Connection,
    *,
    schema: str = DEFAULT_SCHEMA,
    folder: Traversable | None = None,
) -> list[MigrationState]:
    """Return how every migration stands, in order; nothing is changed and nothing refused."""
    check_schema(schema)
    files = {file.version: file for file in read_folder(folder)}
    with session.connected(where) as conn:
        records = _records(conn, schema)
    states = [_state(record, files.pop(record.version, None)) for record in records]
    states += [
        MigrationState(file.version, file.name, file.checksum, "pending") for file in files.values()
    ]
    return sorted(states, key=lambda state: state.version)


def check(
    where: str | session.Connection,
    *,
    schema: str = DEFAULT_SCHEMA,
    folder: Traversable | None = None,
) -> int:
    """Return the schema's version if this code can run on it; one query that needs only SELECT.

    Raises SchemaMissing, SchemaTooOld, SchemaTooNew, SchemaForeign or a MigrationError. A schema
    that is newer is accepted as long as its migrations say that this code still works on it.
    """
    check_schema(schema)
    files = read_folder(folder)
    with session.connected(where) as conn:
        records = read_records(conn, schema)
        return require_current(files, records, schema=schema)


def _records(conn: session.Connection, schema: str) -> list[Record]:
    return read_records(conn, schema) if table_exists(conn, schema) else []


def _apply(
    conn: session.Connection,
    schema: str,
    file: MigrationFile,
    files: Sequence[MigrationFile],
    *,
    wait_for: timedelta,
) -> bool:
    """Apply *file* if it is still the next one and nobody else has the turn; return whether."""
    if not file.in_transaction:
        return _apply_without_transaction(conn, schema, file, files, wait_for=wait_for)
    with session.transaction(conn):
        if not session.take_turn(conn, schema):
            return False
        if outstanding(files, _records(conn, schema), schema=schema)[:1] != [file]:
            return False
        _prepare(conn, schema)
        _run(conn, schema, file)
    return True


def _apply_without_transaction(
    conn: session.Connection,
    schema: str,
    file: MigrationFile,
    files: Sequence[MigrationFile],
    *,
    wait_for: timedelta,
) -> bool:
    if session.is_pooled(conn):
        raise MigrationFailed(
            f"migration {file.name} cannot run through a connection pooler: connect directly to"
            " PostgreSQL",
            name=file.name,
        )
    with session.session_turn(conn, schema) as ours:
        if not ours or outstanding(files, _records(conn, schema), schema=schema)[:1] != [file]:
            return False
        with session.transaction(conn):
            _prepare(conn, schema)
        # Its locks stop no reader and no writer, so it may wait for them, but not for ever.
        with session.settings(conn, lock_timeout=wait_for):
            for statement in file.statements:
                _execute(conn, render_schema(statement, schema))
        _execute(conn, insert_record(file, schema))
    return True


def _run_and_roll_back(
    conn: session.Connection, schema: str, files: Sequence[MigrationFile], up_to: int | None
) -> list[Applied] | None:
    """Return what was run, or None if another migrator has the turn."""
    run: list[Applied] = []
    with session.transaction(conn):
        if not session.take_turn(conn, schema):
            return None
        for file in outstanding(files, _records(conn, schema), schema=schema):
            if up_to is not None and file.version > up_to:
                break
            started_at = time.monotonic()
            try:
                _prepare(conn, schema)
                if file.in_transaction:
                    _run(conn, schema, file)
                else:
                    _execute(conn, insert_record(file, schema))
            except _TRY_AGAIN:
                raise
            except psycopg.Error as error:
                raise failure(error, file, schema=schema, conn=conn) from error
            run.append(_applied(file, started_at, tried=file.in_transaction))
        raise psycopg.Rollback
    return run


def _prepare(conn: session.Connection, schema: str) -> None:
    """Make the schema and the table of records where they are missing.

    CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even where the schema exists,
    which an owner that was given a ready schema does not have.
    """
    [[exists]] = rows(conn, "select exists (select from pg_namespace where nspname = %s)", [schema])
    if not exists:
        _execute(conn, f"create schema {quote_identifier(schema)}")
    if not table_exists(conn, schema):
        _execute(conn, render_schema(CREATE_TABLE, schema))


def _run(conn: session.Connection, schema: str, file: MigrationFile) -> None:
    _execute(conn, render_schema(file.sql, schema))
    if conn.info.transaction_status is not TransactionStatus.INTRANS:
        raise MigrationFailed(
            f"migration {file.name} ends its own transaction: take its COMMIT or ROLLBACK out,"
            " and look at what it left behind",
            name=file.name,
        )
    _execute(conn, insert_record(file, schema))


def _execute(conn: session.Connection, rendered: str) -> None:
    conn.execute(encoded(conn, rendered), prepare=False)


def _applied(file: MigrationFile, started_at: float, *, tried: bool = True) -> Applied:
    took = timedelta(seconds=time.monotonic() - started_at)
    return Applied(version=file.version, name=file.name, took=took, tried=tried)


def _state(record: Record, file: MigrationFile | None) -> MigrationState:
    state: Literal["applied", "edited", "renamed", "unknown"] = "applied"
    if file is None:
        state = "unknown"
    elif file.name != record.name:
        state = "renamed"
    elif file.checksum != record.checksum:
        state = "edited"
    return MigrationState(
        record.version, record.name, record.checksum, state, record.applied_at, record.applied_by
    )

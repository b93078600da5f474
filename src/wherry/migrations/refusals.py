"""Says why a migration did not come about: what PostgreSQL refused, or who was in the way.

PostgreSQL counts its positions in the text it was sent, which is the rendered file; the line is
still the file's own, unless the schema's name holds line ends, which are taken off again.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg
from psycopg import errors as pg

from wherry.domain.lines import on_one_line
from wherry.domain.names import quote_identifier, render_schema
from wherry.errors import MigrationFailed, MigrationLocked, ReadOnly, Unavailable, WherryError
from wherry.migrations import session
from wherry.migrations.files import MigrationFile


def failure(
    error: psycopg.Error, file: MigrationFile, *, schema: str, conn: session.Connection
) -> WherryError:
    """Return what to raise for a driver's error while *file* was applied."""
    diagnosis = error.diag
    if conn.closed:
        return Unavailable(
            f"the database went away during migration {file.name}:"
            f" {on_one_line(str(error))}. It is applied whole or not at all: run it again"
        )
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return ReadOnly("connected to a read-only server: migrate on the primary")
    line = _line(error, file, schema)
    where = file.name if line is None else f"{file.name}, line {line},"
    reason = diagnosis.message_primary or on_one_line(str(error))
    if diagnosis.message_detail:
        reason += f" ({diagnosis.message_detail})"
    return MigrationFailed(
        f"migration {where} failed: {reason} [SQLSTATE {diagnosis.sqlstate}]."
        f" {_advice(error, file, schema, conn)}",
        name=file.name,
        sqlstate=diagnosis.sqlstate,
        line=line,
    )


def locked(
    conn: session.Connection,
    file: MigrationFile | None,
    *,
    schema: str,
    waited: timedelta,
    obstacle: psycopg.Error | None,
) -> MigrationLocked:
    """Return what to raise when patience is over: for the turn, or for a lock of *obstacle*."""
    if obstacle is None:
        wanted = "another migration of it to finish"
        holders = session.holders_of_turn(conn, schema)
    else:
        wanted = f"a lock ({obstacle.diag.message_primary})"
        holders = session.holders_of_tables(conn, schema)
    who = "; ".join(holders) or "a session that has ended meanwhile, so try again"
    return MigrationLocked(
        f"could not migrate schema {schema!r}: waited {waited.total_seconds():g} s for {wanted},"
        f" held by {who}. Let it finish, wait longer, or end it with `select"
        " pg_terminate_backend(pid)`. Nothing was changed by this migration",
        name="" if file is None else file.name,
        holders=holders,
    )


def _line(error: psycopg.Error, file: MigrationFile, schema: str) -> int | None:
    position = error.diag.statement_position
    if position is None or not file.in_transaction:
        return None
    before = render_schema(file.sql, schema)[: int(position) - 1]
    quoted = quote_identifier(schema)
    return 1 + before.count("\n") - before.count(quoted + ".") * quoted.count("\n")


def _advice(
    error: psycopg.Error, file: MigrationFile, schema: str, conn: session.Connection
) -> str:
    if isinstance(error, pg.InsufficientPrivilege):
        owner, quoted = quote_identifier(conn.info.user), quote_identifier(schema)
        return (
            "Migrate as the role that owns the schema; if there is no schema yet, let an"
            f" administrator run: create schema {quoted} authorization {owner}"
        )
    if not file.in_transaction:
        return "What it did before that stays; it is written so that it can be run again"
    return "Nothing of it was applied; earlier migrations stay. Mend the cause and run it again"

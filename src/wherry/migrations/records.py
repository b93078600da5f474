"""What a database says was applied to it, and whether that agrees with the files.

The records are in the table `migration` of the schema. Only `require_current` and `outstanding`
judge; they are pure, and take what was read. A worker and a migration ask different questions:
a worker also runs on a schema one step newer, a migration refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from wherry.domain.names import quote_literal, render_schema
from wherry.errors import (
    MigrationEdited,
    MigrationMissing,
    MigrationRenamed,
    SchemaError,
    SchemaForeign,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
)
from wherry.migrations.files import MigrationFile

CREATE_TABLE = """\
create table wherry.migration (
    version integer not null,
    name text not null,
    checksum text not null,
    works_from integer not null,
    applied_at timestamptz not null default pg_catalog.statement_timestamp(),
    applied_by text not null,
    constraint migration_is_applied_once primary key (version)
);
comment on table wherry.migration is 'What was applied to this schema; written by wherry migrate';
"""

_READ = """\
select version, name, checksum, works_from, applied_at, applied_by
  from wherry.migration
 order by version
"""

_TABLE_EXISTS = """\
select exists (
    select
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = %s
       and c.relname = 'migration'
)
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the table `migration`."""

    version: int
    name: str
    checksum: str
    works_from: int
    applied_at: datetime
    applied_by: str


_COLUMN_TYPES = (int, str, str, int, datetime, str)


def own_version() -> str:
    """Return what is recorded as the applier of a migration, such as `wherry 0.1.0`."""
    try:
        return f"wherry {version('wherry')}"
    except PackageNotFoundError:
        # Run from a zip or a bare source folder, there is no record of what was installed.
        return "wherry (not installed)"


def encoded(conn: psycopg.Connection[Any], statement: str) -> bytes:
    """Return SQL as it goes over this connection; nothing in it is looked at by the driver."""
    return statement.encode(conn.info.encoding)


def rows(
    conn: psycopg.Connection[Any],
    statement: str,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows, whatever row factory the connection has."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(encoded(conn, statement), params, prepare=False).fetchall()


def table_exists(conn: psycopg.Connection[Any], schema: str) -> bool:
    """Return whether something named as our table is there; the catalog tells it to any role."""
    [[found]] = rows(conn, _TABLE_EXISTS, [schema])
    return bool(found)


def read_records(conn: psycopg.Connection[Any], schema: str) -> list[Record]:
    """Return the records in order, with one query.

    Raises SchemaMissing, SchemaForeign, or SchemaError where the role may not look. The error
    aborts a transaction that is open.
    """
    try:
        found = rows(conn, render_schema(_READ, schema))
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        raise SchemaMissing(schema) from None
    except (pg.UndefinedColumn, pg.WrongObjectType) as error:
        raise SchemaForeign(schema, reason=error.diag.message_primary or "it differs") from error
    except pg.InsufficientPrivilege as error:
        raise SchemaError(
            f"role {conn.info.user!r} may not read the migrations of schema {schema!r}"
            f" ({error.diag.message_primary}): grant it its rights, `wherry migrate --grants`"
            " prints them"
        ) from error
    return [_record(row, schema) for row in found]


def insert_record(file: MigrationFile, schema: str) -> str:
    """Return the statement that records *file* as applied.

    It has no parameters: it also stands in the script that people run, and a `%` in the schema's
    name means itself.
    """
    values = (file.name, file.checksum, own_version())
    name, checksum, applied_by = (quote_literal(value) for value in values)
    return render_schema(
        "insert into wherry.migration (version, name, checksum, works_from, applied_by)\n"
        f"values ({file.version}, {name}, {checksum}, {file.works_from}, {applied_by});\n",
        schema,
    )


def _record(row: tuple[Any, ...], schema: str) -> Record:
    for column, value, expected in zip(fields(Record), row, _COLUMN_TYPES, strict=True):
        if not isinstance(value, expected):
            raise SchemaForeign(schema, reason=f"its column {column.name} holds {value!r}")
    return Record(*row)


def require_current(
    files: Sequence[MigrationFile], records: Sequence[Record], *, schema: str
) -> int:
    """Return the schema's version if code that knows *files* can run on it.

    A schema whose newer migrations all say that this code still works is fine: during a deploy,
    workers of the old version go on while the schema is already new.
    """
    if not records:
        raise SchemaMissing(schema)
    require_agreement(files, records, schema=schema)
    known, found = len(files), len(records)
    if found < known:
        raise SchemaTooOld(schema, found=found, needed=known)
    if any(record.works_from > known for record in records[known:]):
        raise SchemaTooNew(schema, found=found, known=known)
    return found


def outstanding(
    files: Sequence[MigrationFile], records: Sequence[Record], *, schema: str
) -> list[MigrationFile]:
    """Return the files that the database lacks; refuse a database that has more than the files."""
    require_agreement(files, records, schema=schema)
    for record in records[len(files) :]:
        if record.applied_by == own_version():
            raise MigrationMissing(
                f"migration {record.name} was applied to this database by this very version of"
                " Wherry, but has no file: reinstall the wherry package, or put the file back",
                name=record.name,
            )
        raise SchemaTooNew(schema, found=len(records), known=len(files))
    return list(files[len(records) :])


def require_agreement(
    files: Sequence[MigrationFile], records: Sequence[Record], *, schema: str
) -> None:
    """Refuse records with a gap, and files that are not the ones that were applied."""
    for expected, record in enumerate(records, start=1):
        if record.version != expected:
            raise MigrationMissing(
                f"migration {expected:04} has no record in schema {schema!r}, though {record.name}"
                " has: restore the table 'migration' from a backup",
                name=f"{expected:04}",
            )
    for file, record in zip(files, records, strict=False):
        if file.name != record.name:
            raise MigrationRenamed(
                f"migration {record.name} is applied to this database, but its file is now named"
                f" {file.name}: reinstall the wherry package, or give the file its old name; a"
                " change goes into a new file",
                name=file.name,
            )
        if file.checksum != record.checksum:
            raise MigrationEdited(
                f"migration {file.name} was edited after it was applied to this database"
                f" (checksum {record.checksum[:12]} then, {file.checksum[:12]} now): reinstall the"
                " wherry package, or put the file back as it was; a change goes into a new file",
                name=file.name,
            )

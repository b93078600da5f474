"""Writes the migrations as a script for psql, for databases where people run every DDL themselves.

Each file is a transaction that begins by checking that it is the next one, so that a script that is
run twice, from the wrong version or on after an error changes nothing more.
"""

from __future__ import annotations

from importlib.resources.abc import Traversable

from wherry.config import DEFAULT_SCHEMA
from wherry.domain.names import (
    check_schema,
    quote_body,
    quote_identifier,
    quote_literal,
    render_schema,
)
from wherry.migrations.files import MigrationFile, read_folder
from wherry.migrations.records import CREATE_TABLE, insert_record
from wherry.migrations.session import LOCAL_SETTINGS, turn_key

_GUARD = """
begin
    if not pg_catalog.pg_try_advisory{kind}_lock({key}) then
        raise exception 'another migration of this schema is running: run this script again later';
    end if;
    if not exists (select from pg_catalog.pg_namespace where nspname = {literal}) then
        create schema {identifier};
    end if;
    if not exists (
        select
          from pg_catalog.pg_class c
          join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.nspname = {literal}
           and c.relname = 'migration'
    ) then
        {create_table}
    end if;
    if (select count(*) from wherry.migration) <> {before} then
        raise exception 'this schema is not at migration {before}: print a script from its version';
    end if;
end
"""


def sql(
    *,
    schema: str = DEFAULT_SCHEMA,
    after: int = 0,
    up_to: int | None = None,
    folder: Traversable | None = None,
) -> str:
    """Return the script that takes *schema* from version *after* to *up_to*, or to the newest.

    It holds all that `migrate` would do, the records included. Nothing is connected to.
    """
    check_schema(schema)
    wanted = [
        file
        for file in read_folder(folder)
        if file.version > after and (up_to is None or file.version <= up_to)
    ]
    if not wanted:
        return "-- Nothing to apply.\n"
    parts = [
        _in_transaction(file, schema) if file.in_transaction else _alone(file, schema)
        for file in wanted
    ]
    return "\n".join(["-- Run with: psql --set ON_ERROR_STOP=1 --file <this script>", *parts])


def _in_transaction(file: MigrationFile, schema: str) -> str:
    settings = "".join(
        f"set local {name} = {value if ',' in value else quote_literal(value)};\n"
        for name, value in LOCAL_SETTINGS.items()
    )
    return (
        f"-- {file.name}\n"
        "begin isolation level read committed;\n"
        f"{settings}"
        f"{_guard(file, schema, kind='_xact')}"
        f"{_closed(render_schema(file.sql, schema))}"
        f"{insert_record(file, schema)}"
        "commit;\n"
    )


def _alone(file: MigrationFile, schema: str) -> str:
    statements = "".join(_closed(render_schema(statement, schema)) for statement in file.statements)
    return (
        f"-- {file.name}: must not run in a transaction, so an error has to stop the script\n"
        "\\set ON_ERROR_STOP on\n"
        f"{_guard(file, schema, kind='')}"
        f"{statements}"
        f"{insert_record(file, schema)}"
        f"select pg_catalog.pg_advisory_unlock({turn_key(schema)});\n"
    )


def _guard(file: MigrationFile, schema: str, *, kind: str) -> str:
    body = _GUARD.format(
        kind=kind,
        key=turn_key(schema),
        literal=quote_literal(schema),
        identifier=quote_identifier(schema),
        create_table=CREATE_TABLE.replace("\n", "\n        ").rstrip(),
        before=file.version - 1,
    )
    return f"do {quote_body(render_schema(body, schema))};\n"


def _closed(statements: str) -> str:
    """Return SQL that the next statement can follow, also after a comment without a line end."""
    ended = statements.rstrip()
    return f"{ended}\n" if ended.endswith(";") else f"{ended}\n;\n"

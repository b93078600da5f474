"""Any schema name is only a name, whatever signs it holds."""

from __future__ import annotations

from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql

from tests.migrations.support import value
from wherry import migrations
from wherry.errors import ConfigError

HOSTILE = [
    "x'; drop table public.bystander; --",
    'x"; drop table public.bystander; --',
    "x$$; drop table public.bystander; --",
    "x$wherry_1$ $$",
    "a%",
    "%s %(name)s",
    "a_b",
    "back\\slash",
    "with space",
    "UPPER",
    "Fähre ⛴",
    ":name",
    "two\nlines",
    "wherry.live",
    "select",
    "x" * 63,
]


@pytest.mark.parametrize("schema", HOSTILE)
def test_a_schema_of_any_name_is_migrated_step_by_step_and_works(dsn: str, schema: str) -> None:
    """MIG-07, MIG-12: from the first version through every upgrade, and nothing else is touched."""
    versions = [state.version for state in migrations.status(dsn, schema=schema)]
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table public.bystander (id integer)")

        steps = [migrations.migrate(dsn, schema=schema, up_to=version) for version in versions]

        assert [[step.version for step in applied] for applied in steps] == [[v] for v in versions]
        assert migrations.check(dsn, schema=schema) == versions[-1]
        assert schemas(conn) == {"public", schema}
        assert value(conn, "select count(*) from public.bystander") == 0
        first = enqueue(conn, schema)
        assert first.created
        assert enqueue(conn, schema) == (first.id, False)
        tasks = sql.SQL("select id, type, state from {}").format(sql.Identifier(schema, "tasks"))
        assert conn.execute(tasks).fetchall() == [(first.id, "shop.send", "queued")]


class Seen(NamedTuple):
    id: int
    created: bool


def enqueue(conn: psycopg.Connection, schema: str) -> Seen:
    """Enqueue one task, with one key, through the function for plain SQL."""
    function = sql.Identifier(schema, "enqueue").as_string(conn)
    call = f"select id, created from {function}('mail', 'shop.send', '{{}}', key => 'once')"
    row = conn.execute(call.encode()).fetchone()
    assert row is not None
    return Seen(*row)


def test_two_schemas_of_one_database_are_apart(dsn: str) -> None:
    migrations.migrate(dsn, schema="one")
    migrations.migrate(dsn, schema="two", up_to=1)

    assert {state.state for state in migrations.status(dsn, schema="one")} == {"applied"}
    assert migrations.status(dsn, schema="two")[1].state == "pending"


@pytest.mark.parametrize(
    "schema, complaint", [("", "empty"), ("a\0b", "NUL"), ("x" * 64, "64 bytes long")]
)
def test_a_name_that_postgresql_would_change_is_refused_before_connecting(
    schema: str, complaint: str
) -> None:
    nowhere = "host=/nonexistent"

    for call in (migrations.migrate, migrations.dry_run, migrations.status, migrations.check):
        with pytest.raises(ConfigError, match=complaint):
            call(nowhere, schema=schema)
    with pytest.raises(ConfigError, match=complaint):
        migrations.sql(schema=schema)


def schemas(conn: psycopg.Connection) -> set[str]:
    found = conn.execute(
        "select nspname from pg_namespace"
        " where nspname not like 'pg\\_%' and nspname <> 'information_schema'"
    )
    return {name for (name,) in found}

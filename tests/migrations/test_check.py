"""What a worker is told at its start when the database is not what it needs."""

from __future__ import annotations

import psycopg
import pytest

from tests.migrations.support import Server, WriteFiles, user_dsn
from wherry import migrations
from wherry.errors import (
    ReadOnly,
    SchemaError,
    SchemaForeign,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
    WherryError,
)

THREE_STEPS = {
    "0001_a": "create table wherry.a (id integer);",
    "0002_b": "create table wherry.b (id integer);",
    "0003_c": "create table wherry.c (id integer);",
}


def test_an_empty_database_lacks_the_schema(dsn: str) -> None:
    """MIG-11: one line that says what to run."""
    with pytest.raises(SchemaMissing) as refused:
        migrations.check(dsn)

    assert str(refused.value) == "schema 'wherry' is not in this database: run `wherry migrate`"


def test_a_schema_one_version_behind_is_too_old(dsn: str, folder: WriteFiles) -> None:
    """MIG-11: found X, need Y, run migrate."""
    files = folder(THREE_STEPS)
    migrations.migrate(dsn, folder=files, up_to=2)

    with pytest.raises(SchemaTooOld, match="at migration 2, .* needs 3: run `wherry migrate`"):
        migrations.check(dsn, folder=files)


def test_code_runs_on_a_schema_one_step_newer_unless_that_step_breaks_it(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder({**THREE_STEPS, "0003_c": "-- wherry: works from 2\nselect 1;"})
    migrations.migrate(dsn, folder=files)

    (files / "0003_c.sql").unlink()
    assert migrations.check(dsn, folder=files) == 3
    (files / "0002_b.sql").unlink()
    with pytest.raises(SchemaTooNew, match="at migration 3, .* only up to 1: upgrade"):
        migrations.check(dsn, folder=files)


@pytest.mark.parametrize(
    "theirs",
    [
        "create table wherry.migration (id integer, label text)",
        "create view wherry.migration as select 1 as version",
        "create sequence wherry.migration",
        "create type wherry.migration as (version integer)",
        "create index migration on wherry.other (id)",
    ],
)
def test_something_of_another_product_in_our_place_is_recognised(dsn: str, theirs: str) -> None:
    """MIG-11: a foreign table gives a sentence, and not an error about columns."""
    with psycopg.connect(dsn) as conn:
        conn.execute("create schema wherry; create table wherry.other (id integer)")
        conn.execute(theirs.encode())

    for call in (migrations.check, migrations.migrate, migrations.dry_run, migrations.status):
        with pytest.raises(SchemaForeign, match="not Wherry's, or is damaged: .* another schema"):
            call(dsn)


@pytest.mark.parametrize(
    "damage, reason",
    [
        ("alter table wherry.migration alter version type text using 'three'", "version .*'three'"),
        (
            """
            alter table wherry.migration alter checksum drop not null;
            update wherry.migration set checksum = null
            """,
            "checksum holds None",
        ),
        ("alter table wherry.migration drop column applied_by", "applied_by"),
    ],
)
def test_a_damaged_record_is_told_in_one_line(
    dsn: str, folder: WriteFiles, damage: str, reason: str
) -> None:
    """MIG-11: a version that is no number must not end in a traceback of ours."""
    files = folder(THREE_STEPS)
    migrations.migrate(dsn, folder=files)
    with psycopg.connect(dsn) as conn:
        conn.execute("alter table wherry.migration drop constraint migration_is_applied_once")
        conn.execute(damage.encode())

    with pytest.raises(SchemaForeign, match=reason) as refused:
        migrations.check(dsn, folder=files)

    assert "\n" not in str(refused.value)


def test_a_version_that_nobody_can_have_is_refused(dsn: str, folder: WriteFiles) -> None:
    """MIG-11: a row that was changed by hand."""
    files = folder(THREE_STEPS)
    migrations.migrate(dsn, folder=files)
    with psycopg.connect(dsn) as conn:
        conn.execute("update wherry.migration set version = -7 where version = 2")

    for call in (migrations.check, migrations.migrate):
        with pytest.raises(WherryError, match="0001 has no record"):
            call(dsn, folder=files)


def test_checking_needs_no_right_but_to_read_the_records(server: Server, dsn: str) -> None:
    role = server.make_role()
    version = len(migrations.migrate(dsn))

    with pytest.raises(SchemaError, match=f"role '{role}' may not read .*--grants"):
        migrations.check(user_dsn(dsn, role))

    with psycopg.connect(dsn) as conn:
        conn.execute(f'grant usage on schema wherry to "{role}"'.encode())
        conn.execute(f'grant select on wherry.migration to "{role}"'.encode())
    assert migrations.check(user_dsn(dsn, role)) == version


def test_migrating_where_only_reading_is_allowed_fails_at_once(dsn: str) -> None:
    """MIG-13: a default of read-only, as some set it on a server that was switched away."""
    read_only = f"{dsn} options='-c default_transaction_read_only=on'"

    for call in (migrations.migrate, migrations.dry_run):
        with pytest.raises(ReadOnly, match="connected to a read-only server: default_trans"):
            call(read_only)

    migrations.migrate(dsn)
    assert migrations.check(read_only) > 0
    assert migrations.status(read_only)

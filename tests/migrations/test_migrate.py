"""Migrating one database: what is applied, what is recorded, what is refused, what stays."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from tests.migrations.support import WriteFiles, value
from wherry import migrations
from wherry.errors import (
    ConfigError,
    MigrationEdited,
    MigrationError,
    MigrationFailed,
    MigrationMissing,
    MigrationRenamed,
    SchemaTooNew,
    Unavailable,
)

TWO_STEPS = {
    "0001_things": "create table wherry.thing (id integer primary key);",
    "0002_words": "alter table wherry.thing add column word text;",
}


def test_an_empty_database_gets_every_migration_once(dsn: str) -> None:
    applied = migrations.migrate(dsn)
    again = migrations.migrate(dsn)

    states = migrations.status(dsn)
    assert [step.name for step in applied] == [state.name for state in states]
    assert again == []
    assert {state.state for state in states} == {"applied"}
    assert all(state.applied_by and state.applied_at for state in states)
    assert migrations.check(dsn) == len(states)


def test_migrating_goes_on_from_where_it_stopped(dsn: str, folder: WriteFiles) -> None:
    files = folder(TWO_STEPS)

    first = migrations.migrate(dsn, folder=files, up_to=1)
    between = migrations.status(dsn, folder=files)
    second = migrations.migrate(dsn, folder=files)

    assert [step.name for step in first] == ["0001_things"]
    assert [state.state for state in between] == ["applied", "pending"]
    assert [step.name for step in second] == ["0002_words"]


def test_a_failing_file_leaves_nothing_and_names_its_line_and_code(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder(
        {
            "0001_things": TWO_STEPS["0001_things"],
            "0002_broken": "create table wherry.half (id integer);\n"
            "insert into wherry.thing values (1);\n\n"
            "select * from wherry.thing where nonsense;\n",
        }
    )

    with pytest.raises(MigrationFailed, match="0002_broken, line 4, failed: .*nonsense") as refused:
        migrations.migrate(dsn, folder=files)

    assert (refused.value.name, refused.value.line) == ("0002_broken", 4)
    assert refused.value.sqlstate == "42703"
    assert "Nothing of it was applied" in str(refused.value)
    with psycopg.connect(dsn) as conn:
        assert value(conn, "select to_regclass('wherry.half')") is None
        assert value(conn, "select count(*) from wherry.thing") == 0
        assert value(conn, "select array_agg(version) from wherry.migration") == [1]

    folder({"0002_broken": "create table wherry.half (id integer);"})
    assert [step.name for step in migrations.migrate(dsn, folder=files)] == ["0002_broken"]


def test_a_first_file_that_fails_leaves_not_even_the_schema(dsn: str, folder: WriteFiles) -> None:
    files = folder({"0001_broken": "create table wherry.a (id integer); select 1/0;"})

    with pytest.raises(MigrationFailed, match="division by zero .SQLSTATE 22012"):
        migrations.migrate(dsn, folder=files)

    with psycopg.connect(dsn) as conn:
        assert value(conn, "select to_regnamespace('wherry')") is None


def test_a_line_is_the_files_own_also_when_the_schemas_name_has_line_ends(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder({"0001_broken": "create table wherry.a ();\n\nselect nonsense from wherry.a;"})

    with pytest.raises(MigrationFailed) as refused:
        migrations.migrate(dsn, folder=files, schema="two\nlines")

    assert refused.value.line == 3


def test_an_edited_file_is_refused_before_anything_is_applied(dsn: str, folder: WriteFiles) -> None:
    files = folder(TWO_STEPS)
    migrations.migrate(dsn, folder=files, up_to=1)
    folder({"0001_things": TWO_STEPS["0001_things"] + " -- better"})

    with pytest.raises(MigrationEdited, match="0001_things was edited"):
        migrations.migrate(dsn, folder=files)

    assert [s.state for s in migrations.status(dsn, folder=files)] == ["edited", "pending"]


def test_a_renamed_file_is_refused(dsn: str, folder: WriteFiles) -> None:
    files = folder(TWO_STEPS)
    migrations.migrate(dsn, folder=files)
    (files / "0002_words.sql").rename(files / "0002_terms.sql")

    with pytest.raises(MigrationRenamed, match="0002_words is applied .* now named 0002_terms"):
        migrations.migrate(dsn, folder=files)

    assert [s.state for s in migrations.status(dsn, folder=files)] == ["applied", "renamed"]


def test_a_deleted_file_is_refused_wherever_it_stood(dsn: str, folder: WriteFiles) -> None:
    files = folder(TWO_STEPS)
    migrations.migrate(dsn, folder=files)

    (files / "0002_words.sql").unlink()
    with pytest.raises(MigrationMissing, match="0002_words was applied .* has no file"):
        migrations.migrate(dsn, folder=files)
    assert [s.state for s in migrations.status(dsn, folder=files)] == ["applied", "unknown"]

    folder({"0002_words": TWO_STEPS["0002_words"]})
    (files / "0001_things.sql").unlink()
    with pytest.raises(MigrationMissing, match="0001 has no file, though 0002_words has"):
        migrations.migrate(dsn, folder=files)


def test_a_database_newer_than_the_code_is_refused(dsn: str, folder: WriteFiles) -> None:
    files = folder(TWO_STEPS)
    migrations.migrate(dsn, folder=files)
    with psycopg.connect(dsn) as conn:
        conn.execute("update wherry.migration set applied_by = 'wherry 99.0'")
    (files / "0002_words.sql").unlink()

    with pytest.raises(SchemaTooNew, match="at migration 2, .* knows only up to 1: upgrade"):
        migrations.migrate(dsn, folder=files)


def test_a_lost_record_is_refused(dsn: str, folder: WriteFiles) -> None:
    files = folder(TWO_STEPS)
    migrations.migrate(dsn, folder=files)
    with psycopg.connect(dsn) as conn:
        conn.execute("delete from wherry.migration where version = 1")

    with pytest.raises(MigrationMissing, match="0001 has no record .* restore the table"):
        migrations.migrate(dsn, folder=files)


def test_a_dry_run_applies_nothing_and_says_what_it_would_apply(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder(TWO_STEPS)

    run = migrations.dry_run(dsn, folder=files)

    assert [(step.name, step.tried) for step in run] == [
        ("0001_things", True),
        ("0002_words", True),
    ]
    with psycopg.connect(dsn) as conn:
        assert value(conn, "select to_regnamespace('wherry')") is None
    assert [s.state for s in migrations.status(dsn, folder=files)] == ["pending", "pending"]


def test_a_dry_run_shows_the_error_that_migrating_would(dsn: str, folder: WriteFiles) -> None:
    files = folder({**TWO_STEPS, "0003_broken": "select wherry.no_such();"})

    with pytest.raises(MigrationFailed, match="0003_broken, line 1, failed: .*no_such"):
        migrations.dry_run(dsn, folder=files)


def test_a_dry_run_says_which_file_it_could_not_try(dsn: str, folder: WriteFiles) -> None:
    files = folder(
        {
            "0001_things": TWO_STEPS["0001_things"],
            "0002_index": "-- wherry: no transaction\n"
            "create index concurrently thing_id on wherry.thing (id);",
        }
    )

    run = migrations.dry_run(dsn, folder=files)

    assert [(step.name, step.tried) for step in run] == [
        ("0001_things", True),
        ("0002_index", False),
    ]


def test_a_file_that_commits_by_itself_is_refused(dsn: str, folder: WriteFiles) -> None:
    files = folder({"0001_commits": "create table wherry.a (id integer); commit;"})

    with pytest.raises(MigrationFailed, match="ends its own transaction"):
        migrations.migrate(dsn, folder=files)


def test_names_without_a_schema_resolve_nowhere_in_a_migration(
    dsn: str, folder: WriteFiles
) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("create table public.thing (id integer)")
    files = folder(
        {"0001_a": "create table wherry.thing (id integer); insert into thing values (1);"}
    )

    with pytest.raises(MigrationFailed, match='"thing" does not exist'):
        migrations.migrate(dsn, folder=files)


def test_a_migration_runs_without_the_time_limits_of_its_role(dsn: str, folder: WriteFiles) -> None:
    files = folder(
        {
            "0001_settings": "create table wherry.seen as select name, setting from"
            " pg_catalog.pg_settings where name in"
            " ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout');"
        }
    )

    migrations.migrate(f"{dsn} options='-c statement_timeout=5s'", folder=files)

    with psycopg.connect(dsn) as conn:
        seen: dict[str, str] = dict(
            conn.execute("select name, setting from wherry.seen").fetchall()
        )
    assert seen == {
        "statement_timeout": "0",
        "lock_timeout": "1000",
        "idle_in_transaction_session_timeout": "60000",
    }


def test_a_role_that_defaults_to_serializable_migrates(dsn: str, folder: WriteFiles) -> None:
    serializable = f"{dsn} options='-c default_transaction_isolation=serializable'"

    assert len(migrations.migrate(serializable, folder=folder(TWO_STEPS))) == 2


def test_a_borrowed_connection_is_given_back_as_it_was(dsn: str, folder: WriteFiles) -> None:
    with psycopg.Connection[DictRow].connect(dsn, row_factory=dict_row) as conn:
        conn.execute("set lock_timeout = '7s'")
        conn.commit()

        applied = migrations.migrate(conn, folder=folder(TWO_STEPS))

        assert len(applied) == 2
        assert not conn.autocommit
        assert conn.execute("show lock_timeout").fetchone() == {"lock_timeout": "7s"}


def test_a_borrowed_connection_inside_a_transaction_is_refused(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("select 1")

        with pytest.raises(MigrationError, match="inside a transaction"):
            migrations.migrate(conn)


def test_a_server_that_is_not_there_is_named_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot connect to the database"):
        migrations.migrate("host=/nonexistent dbname=x")


def test_a_dsn_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="the DSN cannot be read"):
        migrations.migrate("no equals sign")


def test_a_connection_that_dies_in_a_file_leaves_nothing_of_it(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder(
        {
            "0001_things": TWO_STEPS["0001_things"],
            "0002_dies": "create table wherry.half (id integer);"
            " select pg_terminate_backend(pg_backend_pid());",
        }
    )

    with pytest.raises(Unavailable, match="during migration 0002_dies: .* run it again"):
        migrations.migrate(dsn, folder=files)

    with psycopg.connect(dsn) as conn:
        assert value(conn, "select to_regclass('wherry.half')") is None
        assert value(conn, "select max(version) from wherry.migration") == 1


def test_how_long_a_file_took_is_told(dsn: str, folder: WriteFiles) -> None:
    files = folder({"0001_naps": "select pg_sleep(0.05);"})

    [applied] = migrations.migrate(dsn, folder=files)

    assert timedelta(milliseconds=50) <= applied.took < timedelta(seconds=20)

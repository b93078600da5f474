"""The script that people run with psql does what `migrate` does, and never half of it twice."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.migrations.support import Server, WriteFiles, value
from wherry import migrations
from wherry.migrations.session import turn_key

Psql = Callable[[str, str], subprocess.CompletedProcess[str]]

TWO_STEPS = {
    "0001_things": "create table wherry.thing (id integer primary key) -- no semicolon",
    "0002_words": "alter table wherry.thing add column word text;\n",
}
INDEX = {
    **TWO_STEPS,
    "0003_index": "-- wherry: no transaction\n"
    "drop index concurrently if exists wherry.thing_word;\n"
    "-- wherry: next\n"
    "create index concurrently thing_word on wherry.thing (word)\n",
}


@pytest.fixture
def psql(server: Server) -> Psql:
    return partial(run_psql, server.bin / "psql")


def run_psql(program: Path, dsn: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "--no-psqlrc", "--quiet", "--dbname", dsn],
        input=f"set client_min_messages = warning;\n{script}",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("schema", ["wherry", 'it\'s $$ "%s" :name \\', "two\nlines"])
def test_the_script_brings_a_database_to_where_migrate_would(
    dsn: str, psql: Psql, schema: str
) -> None:
    done = psql(dsn, migrations.sql(schema=schema))

    assert (done.returncode, done.stderr) == (0, "")
    assert migrations.migrate(dsn, schema=schema) == []
    assert {state.state for state in migrations.status(dsn, schema=schema)} == {"applied"}


def test_printing_connects_to_nothing_and_starts_where_it_is_told(folder: WriteFiles) -> None:
    files = folder(INDEX)

    script = migrations.sql(folder=files, after=1, up_to=2)

    assert "0002_words" in script
    assert "0001_things" not in script
    assert "0003_index" not in script
    assert migrations.sql(folder=files, after=3) == "-- Nothing to apply.\n"


def test_a_script_goes_on_from_the_version_it_was_printed_for(
    dsn: str, psql: Psql, folder: WriteFiles
) -> None:
    files = folder(INDEX)
    migrations.migrate(dsn, folder=files, up_to=1)

    done = psql(dsn, migrations.sql(folder=files, after=1))

    assert (done.returncode, done.stderr) == (0, "")
    assert [state.state for state in migrations.status(dsn, folder=files)] == ["applied"] * 3


def test_a_script_that_is_run_twice_changes_nothing_the_second_time(
    dsn: str, psql: Psql, folder: WriteFiles
) -> None:
    script = migrations.sql(folder=folder(TWO_STEPS))
    psql(dsn, script)

    again = psql(dsn, script)

    assert "not at migration 0: print a script from its version" in again.stderr
    with psycopg.connect(dsn) as conn:
        assert value(conn, "select count(*) from wherry.migration") == 2


def test_a_script_that_fails_in_one_file_applies_none_after_it(
    dsn: str, psql: Psql, folder: WriteFiles
) -> None:
    files = folder({**INDEX, "0002_words": "select nonsense;"})

    psql(dsn, migrations.sql(folder=files))

    assert [s.state for s in migrations.status(dsn, folder=files)] == ["applied"] + ["pending"] * 2


def test_a_script_does_not_run_beside_another_migration(
    dsn: str, psql: Psql, folder: WriteFiles
) -> None:
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(%s)", [turn_key("wherry")])

        done = psql(dsn, migrations.sql(folder=folder(TWO_STEPS)))

    assert "another migration of this schema is running" in done.stderr
    with psycopg.connect(dsn) as conn:
        assert value(conn, "select to_regnamespace('wherry')") is None


def test_a_file_without_a_transaction_is_not_recorded_when_it_failed(
    dsn: str, psql: Psql, folder: WriteFiles
) -> None:
    files = folder({**INDEX, "0003_index": "-- wherry: no transaction\nselect nonsense;"})

    done = psql(dsn, migrations.sql(folder=files))

    assert done.returncode == 3
    assert [s.state for s in migrations.status(dsn, folder=files)] == ["applied"] * 2 + ["pending"]

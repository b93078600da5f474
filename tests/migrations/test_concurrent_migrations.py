"""Many who migrate at once, one who never lets go, and tables that are in use meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.migrations.support import Running, WriteFiles, value, wait_until
from wherry import migrations
from wherry.errors import MigrationFailed, MigrationLocked
from wherry.migrations.session import turn_key

AT_ONCE = 20
SOON = timedelta(milliseconds=300)
# Loads everything, says so, and begins on the word: so that they really begin together.
MIGRATE = """\
import sys
from wherry import migrations
print("ready", flush=True)
sys.stdin.readline()
print([step.version for step in migrations.migrate(sys.argv[1])])
"""
THING = {"0001_things": "create table wherry.thing (id integer primary key, word text);"}
ADD_COLUMN = {**THING, "0002_more": "alter table wherry.thing add column more text;"}


def test_twenty_processes_migrate_an_empty_database_at_once(dsn: str) -> None:
    """MIG-02: one applies each file, and all of them succeed."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, dsn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(AT_ONCE)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

        ends = [Running(partial(process.communicate, "go\n", timeout=60)) for process in processes]
        outputs = [end.result() for end in ends]

        assert [stderr for _, stderr in outputs] == [""] * AT_ONCE
        assert [process.returncode for process in processes] == [0] * AT_ONCE
    finally:
        for process in processes:
            process.kill()
            process.wait()
    states = migrations.status(dsn)
    with psycopg.connect(dsn) as conn:
        recorded = value(conn, "select array_agg(version order by version) from wherry.migration")
    assert recorded == [state.version for state in states]


def test_twenty_migrate_at_once_from_one_version_before(dsn: str) -> None:
    """MIG-02: the upgrade of a running system, when all its instances start together."""
    newest = migrations.status(dsn)[-1].version
    migrations.migrate(dsn, up_to=newest - 1)
    together = threading.Barrier(AT_ONCE)

    def migrate() -> list[int]:
        together.wait(timeout=30)
        return [step.version for step in migrations.migrate(dsn)]

    applied = [run.result() for run in [Running(migrate) for _ in range(AT_ONCE)]]

    assert sorted(applied, reverse=True) == [[newest]] + [[]] * (AT_ONCE - 1)
    assert {state.state for state in migrations.status(dsn)} == {"applied"}


def test_different_schemas_do_not_wait_for_each_other(dsn: str, folder: WriteFiles) -> None:
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(%s)", [turn_key("theirs")])

        applied = migrations.migrate(dsn, schema="ours", folder=folder(THING), wait_for=SOON)

    assert len(applied) == 1


def test_a_turn_that_is_never_given_back_ends_the_wait_naming_its_holder(
    dsn: str, folder: WriteFiles
) -> None:
    """DB-08: a dead process whose session lives on must not block every start for ever."""
    files = folder(THING)
    with psycopg.connect(dsn, autocommit=True, application_name="stuck deploy") as holder:
        holder.execute("select pg_advisory_lock(%s)", [turn_key("wherry")])

        with pytest.raises(MigrationLocked) as refused:
            migrations.migrate(dsn, folder=files, wait_for=SOON)

        assert f"pid {holder.info.backend_pid} (application_name 'stuck deploy'" in str(
            refused.value
        )
        assert "pg_terminate_backend" in str(refused.value)
        assert len(refused.value.holders) == 1
        with pytest.raises(MigrationLocked, match="stuck deploy"):
            migrations.dry_run(dsn, folder=files, wait_for=SOON)

        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s)", [holder.info.backend_pid])
        assert len(migrations.migrate(dsn, folder=files)) == 1


def test_who_is_up_to_date_does_not_wait_for_the_turn(dsn: str, folder: WriteFiles) -> None:
    files = folder(THING)
    migrations.migrate(dsn, folder=files)
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(%s)", [turn_key("wherry")])

        assert migrations.migrate(dsn, folder=files, wait_for=timedelta(0)) == []


def test_a_migration_lets_the_workers_pass_while_it_waits_for_a_table(
    dsn: str, folder: WriteFiles
) -> None:
    """MIG-03: its lock request stands in everybody's way, so it steps back and asks again."""
    files = folder(ADD_COLUMN)
    migrations.migrate(dsn, folder=files, up_to=1)
    with psycopg.connect(dsn) as reader, psycopg.connect(dsn, autocommit=True) as worker:
        reader.execute("select count(*) from wherry.thing")
        upgrade = Running(lambda: migrations.migrate(dsn, folder=files))

        # Behind a request that stays in the queue they would wait for the reader's end.
        worker.execute("set lock_timeout = '30s'")
        for attempt in range(2):
            wait_until(lambda: waiting_for(worker, reader.info.backend_pid))
            worker.execute("insert into wherry.thing values (%s)", [attempt])
        assert not upgrade.is_over
        reader.rollback()

        assert [step.name for step in upgrade.result()] == ["0002_more"]
        assert value(worker, "select count(*) from wherry.thing where more is null") == 2


def test_a_table_that_is_never_free_ends_the_wait_naming_who_uses_it(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder(ADD_COLUMN)
    migrations.migrate(dsn, folder=files, up_to=1)
    with psycopg.connect(dsn, application_name="long report") as reader:
        reader.execute("select count(*) from wherry.thing")

        with pytest.raises(MigrationLocked) as refused:
            migrations.migrate(dsn, folder=files, wait_for=SOON)

        assert f"pid {reader.info.backend_pid} (application_name 'long report'" in str(
            refused.value
        )
        assert refused.value.name == "0002_more"
    assert [s.state for s in migrations.status(dsn, folder=files)] == ["applied", "pending"]


def test_an_index_is_built_concurrently_while_others_wait_for_their_turn(
    dsn: str, folder: WriteFiles
) -> None:
    """MIG-03: who waits for the turn holds no snapshot that the build would have to wait for."""
    files = folder({**THING, "0002_index": concurrently("create index")})
    migrations.migrate(dsn, folder=files, up_to=1)
    with psycopg.connect(dsn) as old, psycopg.connect(dsn, autocommit=True) as worker:
        old.execute("insert into wherry.thing values (1)")
        runs = [Running(lambda: migrations.migrate(dsn, folder=files)) for _ in range(3)]
        wait_until(lambda: waiting_for(worker, old.info.backend_pid))
        worker.execute("insert into wherry.thing values (2)")
        old.commit()

        applied = [len(run.result()) for run in runs]

        assert sorted(applied) == [0, 0, 1]
        assert value(
            worker, "select indisvalid from pg_index where indexrelid = %s::regclass", INDEX
        )


def test_a_file_without_a_transaction_is_run_again_after_it_failed_half_way(
    dsn: str, folder: WriteFiles
) -> None:
    files = folder({**THING, "0002_index": concurrently("create unique index")})
    migrations.migrate(dsn, folder=files, up_to=1)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("insert into wherry.thing values (1, 'same'), (2, 'same')")

        with pytest.raises(MigrationFailed, match="0002_index failed: .* it can be run again"):
            migrations.migrate(dsn, folder=files)
        assert [s.state for s in migrations.status(dsn, folder=files)] == ["applied", "pending"]
        conn.execute("delete from wherry.thing where id = 2")

        assert [step.name for step in migrations.migrate(dsn, folder=files)] == ["0002_index"]
        assert value(conn, "select indisvalid from pg_index where indexrelid = %s::regclass", INDEX)


INDEX = "wherry.thing_by_word"


def concurrently(create: str) -> str:
    return (
        "-- wherry: no transaction\n"
        f"drop index concurrently if exists {INDEX};\n"
        "-- wherry: next\n"
        f"{create} concurrently thing_by_word on wherry.thing (word);\n"
    )


def waiting_for(conn: psycopg.Connection, pid: int) -> bool:
    """Return whether somebody waits for a lock that the session *pid* holds."""
    return bool(
        value(
            conn,
            "select exists (select from pg_stat_activity a"
            " where a.datname = current_database() and %s = any (pg_blocking_pids(a.pid)))",
            pid,
        )
    )


def test_a_migrator_that_dies_gives_the_turn_back(dsn: str, tmp_path: Path) -> None:
    """The turn belongs to a transaction, which the server ends with the connection."""
    with psycopg.connect(dsn) as dying:
        dying.execute("select pg_advisory_xact_lock(%s)", [turn_key("wherry")])
        waiting = Running(lambda: migrations.migrate(dsn))
        dying.close()

        assert waiting.result()

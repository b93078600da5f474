"""Databases for tests: fresh, fast, and gone afterwards, whatever happens to their makers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.facts import wait_for
from wherry.testing import TemplateServer
from wherry.testing.postgres import url_of

Connect = Callable[..., psycopg.Connection[Any]]

USER = """
import sys
from wherry.testing import TemplateServer

with TemplateServer() as server:
    dsn = server.create()
    print(server.template, dsn, flush=True)
    sys.stdin.readline()
"""


class Process:
    """Another process with a database."""

    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", USER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self) -> tuple[str, str]:
        """Return its template and the name of its database."""
        assert self.popen.stdout is not None
        template, dsn = self.popen.stdout.readline().split()
        return template, name_in(dsn)

    def end(self, number: int | None = None) -> None:
        if number is not None:
            self.popen.send_signal(number)
        self.popen.communicate("\n", timeout=30)


@pytest.fixture
def start() -> Iterator[Callable[[], Process]]:
    started: list[Process] = []

    def start() -> Process:
        started.append(Process())
        return started[-1]

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.popen.kill()
            process.popen.communicate(timeout=30)


def name_in(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["dbname"])


def databases(connection: psycopg.Connection[Any]) -> set[str]:
    return {name for (name,) in connection.execute("select datname from pg_database")}


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_database_of_its_own(app: wherry.App, turn: int) -> None:
    before = app.list_tasks().tasks

    app.enqueue("note", {"turn": turn})

    assert before == ()


async def test_an_app_works_in_both_forms(app: wherry.App) -> None:
    enqueued = await app.aenqueue("note", {"n": 1})

    task = await app.aget_task(enqueued.id)
    assert task is not None
    assert task.payload == {"n": 1}


def test_a_database_is_dropped_under_those_connected_to_it(wherry_server: TemplateServer) -> None:
    with wherry_server.database() as dsn:
        held = psycopg.connect(dsn)

    with psycopg.connect(wherry_server.dsn) as connection:
        assert name_in(dsn) not in databases(connection)
    with held, pytest.raises(psycopg.OperationalError):
        held.execute("select 1")


def test_processes_that_start_at_once_share_one_template(start: Callable[[], Process]) -> None:
    processes = [start() for _ in range(4)]

    said = [process.say() for process in processes]

    assert len({template for template, _ in said}) == 1
    assert len({name for _, name in said}) == 4
    for process in processes:
        process.end()


def test_what_a_killed_process_left_is_dropped_by_the_next(
    start: Callable[[], Process], wherry_server: TemplateServer
) -> None:
    killed, alive = start(), start()
    lost, kept = killed.say()[1], alive.say()[1]
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        assert {lost, kept} <= databases(connection)
        killed.end(signal.SIGKILL)
        wait_for(lambda: _is_free(connection, lost), what="the killed process's lock is gone")

        TemplateServer(wherry_server.dsn).close()

        assert databases(connection) & {lost, kept} == {kept}


def _is_free(connection: psycopg.Connection[Any], database: str) -> bool:
    run = int(database.split("_")[2], 16)
    held = connection.execute(
        "select 1 from pg_locks where locktype = 'advisory' and objid::bigint = %s", [run]
    )
    return held.fetchone() is None


def test_a_half_made_template_is_made_anew(wherry_server: TemplateServer) -> None:
    schema = f"half_{os.getpid()}"
    with TemplateServer(wherry_server.dsn, schema=schema) as server:
        template = server.template
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        # As it stands while it is being migrated.
        connection.execute(
            sql.SQL("alter database {} with is_template false").format(sql.Identifier(template))
        )

    with (
        TemplateServer(wherry_server.dsn, schema=schema) as server,
        server.database() as dsn,
        wherry.App(dsn, schema=schema) as app,
    ):
        assert server.template == template
        assert app.enqueue("note", {}).created


def test_own_tables_are_made_once_and_copied(wherry_server: TemplateServer) -> None:
    prepared: list[str] = []
    left_open: list[psycopg.Connection[Any]] = []

    def prepare(dsn: str) -> None:
        prepared.append(dsn)
        left_open.append(psycopg.connect(dsn, autocommit=True))
        left_open[0].execute("create table orders (id int)")
        left_open[0].execute("select wherry.enqueue('q', 'note', '{}')")

    with TemplateServer(wherry_server.dsn, prepare=prepare) as server:
        for _ in range(2):
            with server.database() as dsn, psycopg.connect(dsn) as connection:
                connection.execute("insert into orders values (1)")
                found = connection.execute(
                    "select count(*), (select count(*) from wherry.tasks) from orders"
                ).fetchone()
                assert found == (1, 1)

    assert len(prepared) == 1
    left_open[0].close()
    with psycopg.connect(wherry_server.dsn) as connection:
        assert name_in(prepared[0]) not in databases(connection)


def test_another_server_is_used_where_one_is_named(
    wherry_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = make_conninfo(wherry_dsn, application_name="named by the test")
    monkeypatch.setenv("WHERRY_TEST_DSN", named)

    with TemplateServer() as server, server.database() as dsn, psycopg.connect(dsn) as connection:
        assert server.dsn == named
        assert connection.execute("show application_name").fetchone() == ("named by the test",)


def test_it_works_for_a_role_that_may_only_create_databases(wherry_server: TemplateServer) -> None:
    role = f"maker_{os.getpid()}"
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login createdb").format(sql.Identifier(role)))
        try:
            dsn = make_conninfo(wherry_server.dsn, user=role)
            with TemplateServer(dsn, schema=role) as server:
                template = server.template
                with server.database() as made, wherry.App(made, schema=role) as app:
                    assert app.enqueue("note", {}).created
            name = sql.Identifier(template)
            connection.execute(sql.SQL("alter database {} with is_template false").format(name))
            connection.execute(sql.SQL("drop database {}").format(name))
        finally:
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.mark.parametrize(
    "dsn",
    [
        "host=/tmp/some:where port=5433 user=me dbname=x",
        "host=localhost,other port=5432,5433 user='m e@x' password='p:/w@' dbname='a b/c?d'",
        "postgresql://me:secret@[::1]:5433/x?connect_timeout=5",
        "dbname=x",
    ],
)
def test_a_dsn_as_a_url_means_the_same(dsn: str) -> None:
    url = url_of(dsn)

    assert url.startswith("postgresql://")
    assert conninfo_to_dict(url) == conninfo_to_dict(dsn)
    assert conninfo_to_dict(url_of(dsn, "other"))["dbname"] == "other"


async def test_the_url_is_read_alike_by_asyncpg_and_sqlalchemy(wherry_dsn: str) -> None:
    import asyncpg
    import sqlalchemy

    connection = await asyncpg.connect(wherry_dsn)
    seen = [await connection.fetchval("select current_database()")]
    await connection.close()
    engine = sqlalchemy.create_engine(wherry_dsn.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as other:
        seen.append(other.execute(sqlalchemy.text("select current_database()")).scalar())
    engine.dispose()

    assert seen == [name_in(wherry_dsn)] * 2


def test_the_servers_files_are_in_memory_where_there_is_room(
    wherry_server: TemplateServer,
) -> None:
    with psycopg.connect(wherry_server.dsn) as connection:
        row = connection.execute("show data_directory").fetchone()
    assert row is not None
    folder = Path(row[0])

    roomy = Path("/dev/shm").is_dir() and os.statvfs("/dev/shm").f_blocks > 0
    assert folder.is_relative_to("/dev/shm") or not roomy or "WHERRY_TEST_DSN" in os.environ

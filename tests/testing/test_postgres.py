"""Databases for tests: fresh, fast, and gone afterwards, whatever happens to their makers."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import wherry
from tests.facts import wait_for
from wherry.migrations.files import read_folder
from wherry.testing import TemplateServer, postgres
from wherry.testing.postgres import TEMPLATES_KEPT, name_in, remove_unused_homes, url_of

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
        wait_for(lambda: not _is_connected(connection, lost), what="the killed process is gone")

        TemplateServer(wherry_server.dsn).close()

        assert databases(connection) & {lost, kept} == {kept}


def test_a_database_whose_drop_was_cut_short_keeps_no_run_from_starting(
    wherry_server: TemplateServer,
) -> None:
    name = "wherry_test_00000000_1"
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        # As PostgreSQL marks it before it removes the first file.
        connection.execute("update pg_database set datconnlimit = -2 where datname = %s", [name])

        TemplateServer(wherry_server.dsn).close()

        assert name not in databases(connection)


def test_runs_that_connect_to_other_databases_leave_one_another_alone(
    wherry_dsn: str, wherry_server: TemplateServer
) -> None:
    # Advisory locks, for one, are of a database: they would not tell that we are alive.
    with (
        TemplateServer(wherry_dsn) as server,
        server.database() as dsn,
        psycopg.connect(wherry_server.dsn) as connection,
    ):
        assert {name_in(dsn), name_in(wherry_dsn)} <= databases(connection)


def _is_connected(connection: psycopg.Connection[Any], database: str) -> bool:
    name = f"wherry test run {database.split('_')[2]}"
    found = connection.execute("select 1 from pg_stat_activity where application_name = %s", [name])
    return found.fetchone() is not None


def test_a_template_that_was_not_finished_is_no_template(wherry_server: TemplateServer) -> None:
    schema = f"half_{secrets.token_hex(4)}"
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        with TemplateServer(wherry_server.dsn, schema=schema) as server:
            template = server.template
        # As it is called and stands just before the end, when its maker is killed.
        half = f"wherry_test_{secrets.token_hex(4)}_1"
        connection.execute(f"alter database {template} rename to {half}".encode())

        with (
            TemplateServer(wherry_server.dsn, schema=schema) as server,
            server.database() as dsn,
            wherry.App(dsn, schema=schema) as app,
        ):
            assert server.template == template
            assert app.enqueue("note", {}).created
        assert half not in databases(connection)
        drop_template(connection, template)


def test_only_the_newest_templates_are_kept(
    wherry_server: TemplateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"old_{secrets.token_hex(4)}"
    [first, *_] = read_folder()
    templates = []
    for n in range(TEMPLATES_KEPT + 1):
        edited = replace(first, checksum=str(n))
        monkeypatch.setattr(postgres, "read_folder", lambda edited=edited: [edited])
        with TemplateServer(wherry_server.dsn, schema=schema) as server:
            templates.append(server.template)

    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        there = databases(connection)
        assert [template in there for template in templates] == [False] + [True] * TEMPLATES_KEPT
        for template in templates[1:]:
            drop_template(connection, template)


def drop_template(connection: psycopg.Connection[Any], template: str) -> None:
    connection.execute(f"alter database {template} with is_template false".encode())
    connection.execute(f"drop database {template}".encode())


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
    named = make_conninfo(wherry_dsn, keepalives_idle=77)
    monkeypatch.setenv("WHERRY_TEST_DSN", named)

    with TemplateServer() as server, server.database() as dsn:
        assert server.dsn == named
        assert conninfo_to_dict(dsn) == {**conninfo_to_dict(named), "dbname": name_in(dsn)}


def test_it_works_for_a_role_that_may_only_create_databases(wherry_server: TemplateServer) -> None:
    role = f"maker_{secrets.token_hex(4)}"
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        connection.execute(f"create role {role} login createdb".encode())
        with (
            TemplateServer(make_conninfo(wherry_server.dsn, user=role), schema=role) as server,
            server.database() as made,
            wherry.App(made, schema=role) as app,
        ):
            assert app.enqueue("note", {}).created
        drop_template(connection, server.template)
        connection.execute(f"drop role {role}".encode())


def test_settings_that_a_test_gave_to_the_role_are_forgotten(
    wherry_server: TemplateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHERRY_TEST_DSN", raising=False)
    with psycopg.connect(wherry_server.dsn, autocommit=True) as connection:
        connection.execute("alter role current_user set lock_timeout = '59min'")

    with TemplateServer() as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("show lock_timeout").fetchone() == ("0",)


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


def test_homes_that_nobody_used_for_a_week_are_removed(tmp_path: Path) -> None:
    me = os.geteuid()
    ages = {
        f"wherry-test-{me}-18-ours": 30,
        f"wherry-test-{me}-18-old": 8,
        f"wherry-test-{me}-18-recent": 6,
        f"wherry-test-{me + 1}-18-theirs": 30,
        "something-else": 30,
    }
    for name, days in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "postgres.log").touch()
        at = time.time() - days * 86_400
        os.utime(tmp_path / name / "postgres.log", (at, at))

    remove_unused_homes(tmp_path / f"wherry-test-{me}-18-ours")

    assert ages.keys() - {path.name for path in tmp_path.iterdir()} == {f"wherry-test-{me}-18-old"}


def test_the_servers_files_are_in_memory_if_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Path(tempfile.gettempdir())

    monkeypatch.setattr(postgres, "ROOM_BYTES", 1)
    assert postgres.fast_folder(tmp_path) == tmp_path
    assert postgres.fast_folder(tmp_path / "missing") == elsewhere

    monkeypatch.setattr(postgres, "ROOM_BYTES", 2**62)
    assert postgres.fast_folder(tmp_path) == elsewhere

"""Ids that were told to an enqueuer stay its own, also when PostgreSQL crashes a moment later.

Two tasks with one id would be one task lost: the second enqueue looks like the first one sent
again.
"""

from __future__ import annotations

from typing import Any

import psycopg

import wherry
from tests.facts import wait_for
from tests.nemesis.server import Server
from wherry.commands.tasks import DrawTaskIds
from wherry.migrations import migrate


def test_ids_drawn_just_before_a_crash_are_not_drawn_again() -> None:
    with Server() as server, wherry.App(server.dsn) as app:
        migrate(server.dsn)
        with server.connect() as connection:
            # Nothing is flushed by the way: only a commit that waits for it gets to the disk.
            connection.execute("alter system set wal_writer_delay = '10s'")
            connection.execute("select pg_reload_conf()")
            wait_for(lambda: shown(connection, "show wal_writer_delay") == "10s")
            # PostgreSQL logs a sequence some values ahead; use up what is logged.
            while shown(connection, "select log_cnt from wherry.task_id") != 0:
                connection.execute("select nextval('wherry.task_id')")
            opened = psycopg.connect(server.dsn)
            app.enqueue("any", {}, tx=opened)
            assert shown(connection, "select log_cnt from wherry.task_id") != 0

            before = app.carry(DrawTaskIds(3))
            server.restart()

            wait_for(lambda: is_gone(connection))
        after = app.carry(DrawTaskIds(3))
        opened.close()
        assert not set(before) & set(after)


def shown(connection: psycopg.Connection[Any], question: str) -> Any:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def is_gone(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("select 1")
    except psycopg.OperationalError:
        return True
    return False

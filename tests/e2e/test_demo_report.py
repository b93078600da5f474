"""The demo's report sees every way in which a promise can be broken.

A promise whose query finds nothing ever would always seem kept, so each is shown what breaks it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

import wherry
from examples.demo import report, tables
from examples.demo.load import PARTS, files_in, load
from wherry import Lease

BREAKAGES: dict[LiteralString, set[str]] = {
    "delete from wherry_demo.finished where id = (select max(id) from wherry_demo.finished)": {
        "every document has one task, enqueued in the same transaction",
        "a task has succeeded if and only if its result is there",
    },
    "delete from documents where id = 20": {
        "what was rolled back was never there",
    },
    "insert into rolled_back select path from documents where id = 20": {
        "what was rolled back was never there",
    },
    "select wherry_demo.enqueue('files', 'digest', '{}', key => 'document-10000')": {
        "what was rolled back was never there",
        "every task has ended",
    },
    "insert into results select * from results where document = 20": {
        "every document was processed once, except the poison",
    },
    "delete from results where document = 20": {
        "every document was processed once, except the poison",
        "a task has succeeded if and only if its result is there",
    },
    "update documents set trouble = 'fails twice' where trouble = 'none'": {
        "what failed at first was tried again and succeeded",
    },
    "update documents set trouble = 'none' where trouble = 'poison'": {
        "every document was processed once, except the poison",
        "the poison is dead after all its attempts, and nothing else is",
    },
    "update wherry_demo.finished set attempts = 5 where state = 'dead'": {
        "the poison is dead after all its attempts, and nothing else is",
    },
    "delete from killed": {
        "a worker was killed while it held tasks",
    },
    "update wherry_demo.finished set worker = 'worker-1'": {
        "what the killed worker held was finished by another",
    },
}


@pytest.fixture
def ended(dsn: str, tmp_path: Path) -> Iterator[psycopg.Connection[Any]]:
    """A connection to what a demo leaves in its database, made in one process."""
    for number in range(120):
        (tmp_path / f"{number:03}.txt").write_text("a line\n")
    with tables.fresh(dsn) as conn, wherry.App(dsn, schema="wherry_demo") as app:
        app.migrate()
        files = files_in(tmp_path, at_most=120)
        for part in range(PARTS):
            load(files, part=part, dsn=dsn, stop=threading.Event())
        die_holding(app, conn, worker="worker-1")
        while leases := app.lease(worker="worker-2", queues=["files"], max_tasks=1000):
            for lease in leases:
                handle(app, conn, lease)
        yield conn


def die_holding(app: wherry.App, conn: psycopg.Connection[Any], *, worker: str) -> None:
    """Lease some tasks and never speak of them again."""
    app.lease(worker=worker, queues=["files"], max_tasks=3, lease_for=0.001)
    app.reap()
    conn.execute("insert into killed (worker) values (%s)", [worker])
    # They are due again in a while, each after a delay of its own.
    conn.execute("update wherry_demo.live set run_after = wherry_demo.now()")
    app.reap()


def handle(app: wherry.App, conn: psycopg.Connection[Any], lease: Lease) -> None:
    """Do what the demo's handler does."""
    payload = lease.payload
    fails = {"fails once": 1, "fails twice": 2, "poison": 1000}.get(payload["trouble"], 0)
    if lease.attempt <= fails:
        app.fail(lease, payload["trouble"], after=0)
        return
    with conn.transaction():
        conn.execute("insert into results values (%s, '', 7, 7, 1)", [payload["document"]])
        app.complete(lease, tx=conn)


def test_a_demo_that_went_well_breaks_no_promise(ended: psycopg.Connection[Any]) -> None:
    assert report.broken_promises(ended) == {}
    found = report.figures(ended)
    assert (found["documents"], found["rolled back"], found["tasks"]) == ("114", "6", "114")
    assert (found["succeeded"], found["retried"], found["dead"]) == ("113", "6", "1")
    assert found["recovered from the killed worker"] == "3"
    assert (found["processed twice"], found["lost"]) == ("0", "0")


def test_every_broken_promise_is_found(ended: psycopg.Connection[Any]) -> None:
    found: dict[str, set[str]] = {}

    for breakage in BREAKAGES:
        with ended.transaction(force_rollback=True):
            ended.execute(breakage)
            found[breakage] = set(report.broken_promises(ended))

    assert found == BREAKAGES
    assert set().union(*found.values()) == set(report.PROMISES)


def test_what_is_lost_or_done_twice_is_counted(ended: psycopg.Connection[Any]) -> None:
    with ended.transaction():
        ended.execute("delete from results where document = 20")
        ended.execute("insert into results select * from results where document = 21")

    found = report.figures(ended)

    assert (found["lost"], found["processed twice"]) == ("1", "1")

"""The database's page: what the doctor says, problems first, and what he measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse
from tests.server.dashboard.looked import looked
from wherry.doctor.measure import measure
from wherry.doctor.vacuum import Table
from wherry.server.dashboard.pages.database import table_rows


def table(name: str, **given: Any) -> Table:
    numbers = dict.fromkeys(("rows", "dead", "heap_bytes", "index_bytes", "total_bytes"), 0)
    said = {"vacuumed_seconds": None, "is_vacuumed": True, "is_on": True, "is_day": False}
    return Table(name=name, **{**numbers, **said, **given})


async def test_the_doctor_is_repeated_problems_first(browse: Browse, session: Session) -> None:
    session.rows("alter table wherry.live set (autovacuum_enabled = off)")
    client = await browse()

    page = looked((await client.get("database")).text)

    kinds = [each.attributes["class"].split()[1] for each in page.find("li", cls="finding")]
    order = ["bad", "warn", "unknown", "good"]
    assert kinds == sorted(kinds, key=order.index)
    [first, *_] = page.find("li", cls="finding")
    assert "autovacuum is off for wherry.live" in page.at("finding-autovacuum").text.lower()
    assert "bad" in first.attributes["class"]
    assert "autovacuum is off" in page.at("table-wherry-live").text


async def test_who_holds_vacuum_back_is_named_with_the_statement(
    browse: Browse, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    holder = connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select 'a literal', count(*) from wherry.live")
    client = await browse()

    page = looked((await client.get("database")).text)

    told = page.at("holders").text
    assert f"session {holder.info.backend_pid} " in told
    assert "select '…', count(*) from wherry.live" in told
    assert "a literal" not in page.text


async def test_what_was_measured_is_on_the_page(browse: Browse, dsn: str) -> None:
    client = await browse()

    page = looked((await client.get("database")).text)
    measures = measure(dsn, schema="wherry")

    assert measures.server is not None
    assert measures.server.version in page.at("settings").text
    assert "NOTIFY queue" in page.at("stats").text
    assert page.at("table-wherry-live").find("td")


async def test_only_who_may_read_all_queues_sees_the_database(browse: Browse) -> None:
    client = await browse("read", queues=("mail",))

    found = await client.get("database")

    assert found.status_code == 403


def test_the_days_of_finished_tasks_are_one_row_and_small_tables_none() -> None:
    days = [table(f"finished_{n}", is_day=True, rows=10, dead=n, total_bytes=9) for n in (1, 2)]

    rows = table_rows((table("wherry.live"), table("wherry.front", total_bytes=99), *days))

    assert [(row.name, row.days, row.table.rows, row.table.dead) for row in rows] == [
        ("wherry.front", 0, 0, 0),
        ("finished", 2, 20, 3),
        ("wherry.live", 0, 0, 0),
    ]
    assert [row.is_small for row in rows] == [True, False, False]

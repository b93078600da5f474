"""Checks of vacuum: who holds it back, whether it runs, and whether it keeps up."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.doctor.conftest import Look
from tests.facts import wait_for
from tests.pg.support import OpenSession, Session
from wherry.doctor.finding import Verdict
from wherry.doctor.patient import Patient
from wherry.doctor.vacuum import (
    Holder,
    Table,
    judge_ages,
    judge_holders,
    judge_notifications,
    judge_sizes,
)
from wherry.doctor.wording import statement

TABLE = Table("wherry.live", False, 10, 0, 8192, 65536, 81920, None, True, True)
GIB = 1024**3


def holders(patient: Patient) -> dict[str, Holder]:
    rows = patient.rows("doctor/list_holders", most=50)
    return {holder.name: holder for holder in (Holder(*row[1:]) for row in rows if row[1])}


def judged(*found: Holder, hidden: int = 0) -> tuple[str, str, str]:
    rows: list[tuple[Any, ...]] = [(hidden, *astuple(holder)) for holder in found]
    judgment = judge_holders(rows or [(hidden, *[None] * 8)])
    return judgment.verdict.value, judgment.seen, judgment.advice or ""


def test_a_session_that_holds_a_snapshot_is_named_with_its_statement(
    patient: Patient, session: Session, look: Look
) -> None:
    """SCL-01: who it is that keeps dead rows from being removed, and how to end it."""
    session.rows("select set_config('application_name', 'nightly report', false)")
    session.connection.execute("begin isolation level repeatable read")
    session.rows("select 'card 4111' as payload, count(*) from wherry.live")
    other = psycopg.connect(patient.dsn, autocommit=True)
    with other, other.transaction():
        other.execute("select txid_current()")

    held = holders(patient)[str(session.pid)]
    verdict, seen, advice = judged(replace(held, seconds=7200.0))

    assert look("snapshots").verdict is Verdict.OK
    assert (held.kind, held.state) == ("session", "idle in transaction")
    assert held.xids >= 1
    assert verdict == "problem"
    assert f"session {session.pid} (application nightly report, role wherry" in seen
    assert "for 2 h" in seen
    assert "select '…' as payload, count(*) from wherry.live" in seen
    assert "4111" not in seen
    assert f"select pg_terminate_backend({session.pid})" in advice
    assert judged(replace(held, seconds=400.0))[0] == "warning"
    assert judged(replace(held, seconds=10.0, xids=3_000_000))[0] == "problem"


def test_a_prepared_transaction_is_named_with_what_settles_it(
    patient: Patient, session: Session
) -> None:
    gid = f"it's {session.pid}"
    session.connection.execute("begin")
    session.rows("select txid_current()")
    session.connection.execute(sql.SQL("prepare transaction {}").format(gid))
    try:
        held = holders(patient)[gid]
    finally:
        session.connection.execute(sql.SQL("rollback prepared {}").format(gid))

    verdict, seen, advice = judged(replace(held, seconds=7200.0))

    assert verdict == "problem"
    assert f"the prepared transaction {gid!r} of role wherry" in seen
    assert f"rollback prepared 'it''s {session.pid}'" in advice
    assert gid not in holders(patient)


def test_slots_and_standbys_are_judged_by_what_they_hold_back() -> None:
    slot = Holder("slot", "old", 5_000_000, None, None, None, "inactive", None)
    standby = Holder("standby", "77", 150_000, None, "repl", "replica-2", "active", "")

    verdict, seen, _ = judged(standby, slot)

    assert verdict == "problem"
    assert seen.startswith("the inactive replication slot 'old' has kept vacuum from")
    assert seen.endswith("5,000,000 transactions by now; and 1 other")
    assert "pg_drop_replication_slot('old')" in judged(slot)[2]
    assert judged(standby)[0] == "warning"
    assert "the standby 'replica-2', by hot_standby_feedback" in judged(standby)[1]


def test_sessions_that_may_not_be_looked_into_are_told_with_the_right_it_takes(
    reader: str, session: Session
) -> None:
    session.connection.execute("begin isolation level repeatable read")
    session.rows("select 1")

    with Patient(reader, schema="wherry") as patient:
        judgment = judge_holders(patient.rows("doctor/list_holders", most=5))

    # A superuser's session is closed to it; so were that of any other role.
    assert judgment.verdict is Verdict.UNKNOWN
    assert "cannot be looked into" in judgment.seen
    assert "pg_read_all_stats" in (judgment.advice or "")


def test_autovacuum_that_is_off_for_a_table_is_a_problem(look: Look, session: Session) -> None:
    session.connection.execute("alter table wherry.live set (autovacuum_enabled = off)")

    found = look("autovacuum")

    assert (found.verdict, found.seen) == (
        Verdict.PROBLEM,
        "autovacuum is off for wherry.live",
    )
    session.connection.execute((found.advice or "").encode())
    assert look("autovacuum").verdict is Verdict.OK


def test_dead_rows_that_pile_up_are_told_with_their_table(
    look: Look, open_session: OpenSession
) -> None:
    session = open_session()
    session.connection.execute("alter table wherry.waiting set (autovacuum_enabled = off)")
    session.connection.execute(
        "insert into wherry.waiting (queue, instance, expires_at)"
        " select n::text, gen_random_uuid(), now() from generate_series(1, 25000) as n"
    )
    session.connection.execute("delete from wherry.waiting")
    # What it did is counted at its end at the latest.
    session.close()

    wait_for(lambda: look("dead rows").verdict is Verdict.WARNING, what="the dead rows are counted")
    found = look("dead rows")

    assert "wherry.waiting: 25,000 dead beside 0 live rows, never vacuumed" in found.seen
    assert "vacuum (verbose) wherry.waiting" in (found.advice or "")


@pytest.mark.parametrize(
    ("xids", "multixacts", "frozen_after", "verdict"),
    [
        (190_000_000, 5, 200_000_000, "ok"),
        (1_100_000_000, 5, 200_000_000, "warning"),
        (5, 1_700_000_000, 200_000_000, "problem"),
        (1_100_000_000, 5, 1_200_000_000, "ok"),
    ],
)
def test_numbers_that_run_out_are_told_in_time(
    xids: int, multixacts: int, frozen_after: int, verdict: str
) -> None:
    assert judge_ages([(xids, multixacts, frozen_after)]).verdict.value == verdict


def test_a_queue_of_notifications_that_fills_is_told() -> None:
    verdicts = [judge_notifications([(used,)]).verdict.value for used in (0.0, 0.2, 0.7)]

    assert verdicts == ["ok", "warning", "problem"]


def test_tables_and_indexes_far_larger_than_their_rows_are_told() -> None:
    heavy = replace(TABLE, heap_bytes=2 * GIB)
    grown = replace(TABLE, index_bytes=GIB)
    full = replace(TABLE, rows=1_000_000, heap_bytes=2 * GIB, index_bytes=GIB)

    assert judge_sizes([astuple(full)]).verdict is Verdict.OK
    assert judge_sizes([astuple(heavy)]).verdict is Verdict.WARNING
    assert "reindex table concurrently wherry.live" in (judge_sizes([astuple(grown)]).advice or "")


def test_a_statement_is_shown_without_literals_and_comments_and_cut() -> None:
    assert statement("select 'a''b', $x$ c $x$ /* d */ -- e\n from  f") == "select '…', '…' from f"
    # PostgreSQL cut it in the middle of a literal.
    assert statement("insert into t values ('secret and") == "insert into t values ('…'"
    assert len(statement("select " + "x, " * 200)) == 120

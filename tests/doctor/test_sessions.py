"""Checks of connections: a pooler, clocks that differ, too many sessions, sessions that are cut."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from tests.doctor.conftest import Look
from tests.doctor.pooler import Pooler
from tests.worker.support import set_for_all
from wherry.doctor.examine import CHECKS, examine
from wherry.doctor.finding import Verdict
from wherry.doctor.sessions import judge_ahead, judge_pooler, judge_use

Connect = Callable[..., psycopg.Connection]


def test_a_pooler_that_shares_sessions_is_told_and_all_else_is_seen_through_it(dsn: str) -> None:
    """PGB-03: notifications never arrive there, and nothing else says why."""
    with Pooler(dsn) as pooler:
        diagnosis = examine(pooler.pooled, schema="wherry")

    found = {finding.check: finding for finding in diagnosis.findings}
    assert found["pooler"].verdict is Verdict.WARNING
    assert "notifications never arrive" in found["pooler"].seen
    assert "--no-listen" in (found["pooler"].advice or "")
    assert len(found) == len(CHECKS)
    assert diagnosis.of(Verdict.UNKNOWN) == ()


def test_without_a_pooler_there_is_none(look: Look) -> None:
    assert look("pooler").seen == "none between this machine and PostgreSQL"
    assert judge_pooler(is_pooled=True, is_shared=False).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("ahead", "within", "verdict"),
    [(0.1, 0.01, "ok"), (-3600.0, 0.01, "warning"), (30.0, 0.5, "warning"), (4.0, 3.0, "ok")],
)
def test_clocks_that_differ_are_told_but_for_what_asking_took(
    ahead: float, within: float, verdict: str
) -> None:
    judgment = judge_ahead(ahead, within_seconds=within)

    assert judgment.verdict.value == verdict
    assert verdict == "ok" or ("behind" if ahead < 0 else "ahead of") in judgment.seen


def test_a_database_that_takes_no_more_sessions_is_told_before_it_is_so(
    look: Look, connect: Connect
) -> None:
    admin = connect()
    admin.execute(
        sql.SQL("alter database {} connection limit 5").format(sql.Identifier(admin.info.dbname))
    )
    assert look("sessions").verdict is Verdict.OK

    # With the one that looks: four of five.
    for _ in range(2):
        connect()
    found = look("sessions")

    assert found.verdict is Verdict.WARNING
    assert found.seen == "4 of 5 sessions are taken (the connection limit of this database)"
    assert judge_use([(99, 100, 4, -1, 4, -1)]).verdict is Verdict.PROBLEM
    assert judge_use([(10, 100, 4, -1, 3, 3)]).seen.endswith("(the connection limit of this role)")


def test_idle_sessions_that_are_cut_are_told(connect: Connect, dsn: str) -> None:
    set_for_all(connect(), idle_session_timeout="20s", idle_in_transaction_session_timeout="90s")

    found = {finding.check: finding for finding in examine(dsn, schema="wherry").findings}

    assert found["settings"].verdict is Verdict.WARNING
    assert "ends idle sessions after 20 s" in found["settings"].seen
    set_for_all(connect(), idle_session_timeout="0")
    found = {finding.check: finding for finding in examine(dsn, schema="wherry").findings}
    assert "idle_in_transaction_session_timeout is 90 s" in found["settings"].seen

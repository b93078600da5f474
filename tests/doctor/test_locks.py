"""The check of locks names who waits and who has it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.doctor.conftest import Look
from tests.facts import wait_for, wait_until_blocked
from tests.pg.support import OpenSession
from wherry.doctor.finding import Verdict
from wherry.doctor.locks import judge_blocked
from wherry.doctor.patient import Patient


def test_who_waits_long_for_a_lock_is_told_with_who_has_it(
    patient: Patient, look: Look, open_session: OpenSession
) -> None:
    holder, waiter, observer = (open_session() for _ in range(3))
    holder.rows("select set_config('application_name', 'console', false)")
    holder.connection.execute("begin")
    holder.connection.execute("lock table wherry.settings in access exclusive mode")
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(waiter.rows, "select 'secret' from wherry.settings")
        try:
            wait_until_blocked(observer.connection, waiter.connection, by=holder.connection)
            # When a wait began is noted a moment after it began.
            rows = wait_for(lambda: patient.rows("doctor/list_blocked", most=5))
        finally:
            holder.connection.execute("rollback")
        waits.result(20)

    [row] = rows
    aged = judge_blocked([(*row[:2], 30.0, *row[3:])])

    assert aged.verdict is Verdict.WARNING
    assert f"session {waiter.pid} (wherry test) has waited for 30 s" in aged.seen
    assert f"session {holder.pid} (console, idle in transaction): lock table" in aged.seen
    assert aged.advice == f"end it: select pg_terminate_backend({holder.pid})"
    assert judge_blocked([(*row[:2], 90.0, *row[3:])]).verdict is Verdict.PROBLEM
    assert look("locks").verdict is Verdict.OK

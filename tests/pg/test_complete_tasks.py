"""A complete is accepted once, and only from the holder of the unexpired lease."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from psycopg import errors

import wherry
from tests.facts import wait_for
from tests.pg.support import Session, spec
from wherry.commands.leases import CompleteTasks
from wherry.config import PoolSettings
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed
from wherry.domain.state import State
from wherry.testing import Clock
from wherry.transport.session_blocking import SessionTransport

DONE, ALREADY_DONE, LOST, BUSY = (
    Reported.DONE,
    Reported.ALREADY_DONE,
    Reported.LOST,
    Reported.BUSY,
)
LEASE_ID = "00000000-0000-4000-8000-000000000001"


def leased(session: Session, n: int = 1, **options: Any) -> list[Lease]:
    session.enqueue_many(*(spec(**options) for _ in range(n)))
    return session.lease(n)


def test_a_completed_task_is_finished_with_its_result_and_all_it_had(session: Session) -> None:
    session.enqueue(
        "mail", {"n": 1}, priority=3, max_attempts=4, key="k", tags=["x"], headers={"h": "1"}
    )
    lease = session.lease_one(worker="w7")
    before = session.task(lease.id)

    assert session.complete(lease, result='{"sum": 1e23, "zero": -0.0}') == [DONE]

    after = session.task(lease.id)
    assert (after.state, after.worker, after.attempts) == (State.SUCCEEDED, "w7", 1)
    assert after.result_text == '{"sum": 1e23, "zero": -0.0}'
    assert after.finished_at is not None
    for name in ("payload_text", "type", "queue", "priority", "key", "tags", "headers", "token",
                 "created_at", "started_at", "run_after", "max_attempts"):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    assert session.value("select count(*) from wherry.live") == 0
    assert session.value("select count(*) from wherry.attempt") == 0


def test_a_lease_of_one_task_is_closed_with_it(session: Session) -> None:
    session.complete(*leased(session))

    assert session.dump("lease") == {"lease": []}


def test_a_lease_of_many_is_closed_when_nothing_is_outstanding(session: Session) -> None:
    one, two = leased(session, 2)
    session.complete(one)
    assert session.value("select count(*) from wherry.lease") == 1

    session.complete(two, closed=[two.lease_id])

    assert session.dump("lease") == {"lease": []}


def test_a_lease_is_not_closed_while_one_of_its_tasks_is_leased_whatever_the_holder_says(
    session: Session, clock: Clock
) -> None:
    one, two = leased(session, 2)

    session.complete(one, closed=[one.lease_id])

    assert session.value("select count(*) from wherry.lease") == 1
    clock.advance(seconds=31)
    assert session.reap().queued == (two.id,)


def test_each_part_of_a_split_lease_is_closed_by_itself(session: Session) -> None:
    one, two, three = leased(session, 3)
    session.heartbeat(one, three)

    session.complete(two)
    assert session.value("select count(*) from wherry.lease") == 1
    session.complete(one, three, closed=[one.lease_id])

    assert session.dump("lease") == {"lease": []}


@pytest.mark.parametrize("wrong", ["token", "lease_id", "id", "queue"])
def test_a_complete_with_a_wrong_fence_changes_nothing(session: Session, wrong: str) -> None:
    [lease] = leased(session)
    value = {"lease_id": LEASE_ID, "queue": "other"}.get(wrong)
    setattr(lease, wrong, value or getattr(lease, wrong) + 1)
    before = session.dump()

    assert session.complete(lease) == [LOST]

    assert session.dump() == before


def test_a_complete_after_the_lease_ran_out_is_refused_before_any_reaper_pass(
    session: Session, clock: Clock
) -> None:
    [lease] = leased(session)
    clock.advance(seconds=31)
    before = session.dump()

    assert session.complete(lease) == [LOST]

    assert session.dump() == before


def test_a_late_complete_changes_nothing_after_the_same_worker_leased_the_task_again(
    session: Session, clock: Clock
) -> None:
    [stale] = leased(session)
    clock.advance(seconds=31)
    session.reap()
    clock.advance(seconds=10)
    session.promote()
    current = session.lease_one(worker="w")
    before = session.dump()

    assert session.complete(stale, result='"late"') == [LOST]

    assert session.dump() == before
    assert session.complete(current, result='"in time"') == [DONE]
    assert session.task(stale.id).result == "in time"


def test_a_late_complete_does_not_change_what_the_next_holder_stored(
    session: Session, clock: Clock
) -> None:
    """DBL-07: The first end of a task stands."""
    [stale] = leased(session)
    clock.advance(seconds=31)
    session.reap()
    clock.advance(seconds=10)
    session.promote()
    session.complete(session.lease_one(), result='"second"')
    before = session.dump()

    assert session.complete(stale, result='"first"') == [LOST]

    assert session.dump() == before


def test_a_second_complete_of_the_same_lease_is_answered_already_done(session: Session) -> None:
    [lease] = leased(session)
    session.complete(lease, result="1")
    before = session.dump()

    assert session.complete(lease, result="2") == [ALREADY_DONE]

    assert session.dump() == before


def test_a_complete_after_a_failure_of_the_same_lease_is_refused(session: Session) -> None:
    [lease] = leased(session)
    session.fail(lease)
    before = session.dump()

    assert session.complete(lease) == [LOST]

    assert session.dump() == before


def test_a_complete_after_the_task_was_canceled_changes_nothing(session: Session) -> None:
    [lease] = leased(session)
    session.cancel(lease.id)
    session.fail(lease)
    before = session.dump()

    assert session.complete(lease, result='"ok"') == [LOST]

    assert session.dump() == before


def test_one_bad_lease_does_not_spoil_its_neighbours(session: Session, clock: Clock) -> None:
    leases = leased(session, 5)
    session.fail(leases[1], verdict="fail")
    session.complete(leases[2])
    leases[3].token += 1

    answers = session.complete(*leases)

    assert answers == [DONE, LOST, ALREADY_DONE, LOST, DONE]


def test_a_lease_reported_twice_in_one_call_is_settled_once(session: Session) -> None:
    [lease] = leased(session)

    assert session.complete(lease, lease) == [DONE, ALREADY_DONE]

    assert session.value("select count(*) from wherry.finished") == 1


def test_the_answers_come_in_the_order_of_the_leases(session: Session) -> None:
    leases = leased(session, 30)
    session.complete(*leases[::2])

    answers = session.complete(*reversed(leases))

    assert answers == [DONE, ALREADY_DONE] * 15


def test_tasks_of_several_leases_each_get_their_own_result_and_answer(session: Session) -> None:
    texts = [None, "[]", '"x"', "[[1, 2], [3]]", '{"a": [1.50, "\\u0000"]}', "null", "[7]", "1e400"]
    one, other = leased(session, 4), leased(session, 4)
    mixed = [lease for pair in zip(one, other, strict=True) for lease in pair]
    session.call(CompleteTasks((Completed(mixed[5], texts[5]),)))

    answers = session.call(
        CompleteTasks(tuple(Completed(*pair) for pair in zip(mixed, texts, strict=True)))
    )

    assert answers == [DONE] * 5 + [ALREADY_DONE] + [DONE] * 2
    stored = [session.task(lease.id).result_text for lease in mixed]
    assert stored == [None if text == "null" else text for text in texts]


def test_a_task_that_an_open_transaction_completes_is_busy_and_delays_nobody(
    session: Session, other: Session
) -> None:
    one, two = leased(session, 2)
    other.begin()
    other.complete(one)
    session.rows("set lock_timeout = '1ms'")
    command = CompleteTasks((Completed(one), Completed(two)))

    with pytest.raises(errors.LockNotAvailable):
        session.call(command)
    assert session.call(command.after_conflict()) == [BUSY, DONE]

    other.commit()
    assert session.complete(one) == [ALREADY_DONE]


def test_a_report_waits_briefly_whatever_its_session_is_set_to(
    session: Session, other: Session, start: Callable[..., Future[Any]]
) -> None:
    one, two = leased(session, 2)
    other.begin()
    other.complete(one)
    session.rows("set lock_timeout = 0")

    reporting = start(session.complete, one, two)

    # It ends by itself: nobody ends the other transaction, nor cancels it.
    with pytest.raises(errors.LockNotAvailable):
        reporting.result()
    assert session.value("select current_setting('lock_timeout')") == "0"
    assert session.task(two.id).state is State.LEASED


def test_a_report_waits_for_anything_but_tasks_as_its_session_is_set_to(
    session: Session,
    other: Session,
    observer: Session,
    start: Callable[..., Future[Any]],
) -> None:
    [lease] = leased(session)
    other.begin()
    days = other.rows(
        "select inhrelid::regclass::text from pg_inherits"
        " where inhparent = 'wherry.finished'::regclass"
    )
    for (day,) in days:
        other.rows(f"lock table {day} in share mode")
    reporting = start(session.complete, lease)

    wait_for(
        lambda: (
            reporting.done()
            or observer.value(
                "select count(*) from pg_locks where pid = %s and not granted"
                " and clock_timestamp() - waitstart > interval '100 ms'",
                session.pid,
            )
        ),
        what="the report waits for twice as long as it would for a task",
    )

    other.commit()
    assert reporting.result() == [DONE]


def test_a_report_sets_back_what_its_transaction_was_set_to(session: Session) -> None:
    [lease] = leased(session)
    session.begin()
    session.rows("set local lock_timeout = '7s'")

    session.complete(lease)

    assert session.value("select current_setting('lock_timeout')") == "7s"


def test_transports_report_what_nobody_holds(session: Session, other: Session, dsn: str) -> None:
    one, two, three = leased(session, 3)
    other.begin()
    other.complete(one)

    with wherry.App(dsn) as app:
        assert app.complete(two) is DONE
        assert app.complete(one) is BUSY
    reserved = SessionTransport(dsn, schema="wherry", settings=PoolSettings(), name="wherry test")
    try:
        command = CompleteTasks((Completed(one), Completed(three)))
        assert reserved.call(command) == [BUSY, DONE]
    finally:
        reserved.close()


def test_a_complete_that_was_rolled_back_never_was(session: Session, other: Session) -> None:
    [lease] = leased(session)
    other.begin()
    other.complete(lease)

    other.rollback()

    assert session.task(lease.id).state is State.LEASED
    assert session.complete(lease) == [DONE]


def test_the_key_is_kept_for_its_time_after_the_end(session: Session, clock: Clock) -> None:
    [lease] = leased(session, key="k", key_ttl=3600)

    session.complete(lease)

    assert (
        session.value(
            "select extract(epoch from key_until - finished_at)::int from wherry.finished"
        )
        == 3600
    )


@pytest.mark.parametrize(
    ("key_ttl", "days"), [(None, 7), (3600, 7), (10 * 86_400, 10), (36_525 * 86_400, 36_525)]
)
def test_a_task_is_kept_for_the_retention_and_as_long_as_its_key(
    session: Session, key_ttl: float | None, days: int
) -> None:
    [lease] = leased(session, key="k", key_ttl=key_ttl)

    assert session.complete(lease) == [DONE]

    assert (
        session.value(
            "select extract(epoch from keep_until - finished_at)::bigint / 86400"
            "  from wherry.finished"
        )
        == days
    )

"""Queues are counted task by task where there are few tasks, and told by the sums where many."""

from __future__ import annotations

import pytest

from tests.pg.flow import roll
from tests.pg.support import Session
from wherry.commands.queues import ListQueues, PauseQueue
from wherry.testing import Clock

ALL_COUNTED = ListQueues()
NONE_COUNTED = ListQueues(count_most=-1)


def fill(session: Session, clock: Clock) -> None:
    session.rows(
        "insert into wherry.worker (instance, name, host, pid, types, started_at, beat_at,"
        " expires_at) values (gen_random_uuid(), 'w', 'h', 1, '{t}', now(), now(), 'infinity')"
    )
    for queue, n in (("a", 3), ("b", 1)):
        for _ in range(n):
            session.enqueue(queue=queue)
    session.enqueue(queue="a", delay=3600)
    session.lease_one(queue="a")
    session.enqueue("u", queue="a")
    session.call(PauseQueue("empty", "me", "why"))
    clock.advance(seconds=100)
    roll(session)


def test_the_sums_tell_what_counting_does(session: Session, clock: Clock) -> None:
    fill(session, clock)

    by_counting = session.call(ALL_COUNTED)
    by_sums = session.call(NONE_COUNTED)

    assert [(each.queue, each.ready, each.leased) for each in by_counting] == [
        ("a", 3, 1), ("b", 1, 0), ("empty", 0, 0),
    ]  # fmt: skip
    for counted, summed in zip(by_counting, by_sums, strict=True):
        assert summed.oldest_due_seconds == pytest.approx(counted.oldest_due_seconds, abs=5)
        assert (summed.queue, summed.ready, summed.delayed, summed.parked, summed.leased) == (
            counted.queue, counted.ready, counted.delayed, counted.parked, counted.leased,
        )  # fmt: skip
        assert (summed.paused_by, summed.pause_reason) == (counted.paused_by, counted.pause_reason)


@pytest.mark.parametrize("command", [ALL_COUNTED, NONE_COUNTED])
def test_a_queue_that_is_gone_is_not_told_of(session: Session, command: ListQueues) -> None:
    session.enqueue(queue="gone")
    session.complete(session.lease_one(queue="gone"))
    roll(session)

    assert session.call(command) == []


def test_many_tasks_are_not_looked_at(session: Session, clock: Clock) -> None:
    fill(session, clock)
    # As PostgreSQL would say of so many.
    session.rows("update pg_class set reltuples = 1e6 where oid = 'wherry.live'::regclass")
    session.rows("update wherry.tally set n = n + 1000000 where kind = 'enqueued'")

    told = {each.queue: each.ready for each in session.call(ListQueues())}

    assert told["b"] == 1_000_001


def test_queues_that_the_sums_do_not_tell_apart_are_counted(session: Session) -> None:
    """Of more than a thousand queues and types the others stand together in the sums."""
    session.rows(
        "insert into wherry.pair (queue, type) select 'q' || n, 't' from generate_series(1, 1000) n"
    )
    for queue in ("q1", "late", "later"):
        session.enqueue(queue=queue)
    session.call(PauseQueue("later", "me", "why"))
    roll(session)

    few = session.call(ListQueues(count_most=0))
    many = session.call(ListQueues(count_most=0, count_most_untold=0))

    assert [(each.queue, each.ready) for each in few] == [("late", 1), ("later", 1), ("q1", 1)]
    assert [each.queue for each in many] == ["(other)", "later", "q1"]

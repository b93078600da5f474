"""A day that is over is gone through once, in small steps, and in nobody's way meanwhile."""

from __future__ import annotations

import pytest

from tests.pg.flow import counted, roll, there
from tests.pg.large import LARGE, alone
from tests.pg.support import OpenSession, Session, spec
from wherry.commands.maintenance import DropPastDays
from wherry.commands.tally import RecountTasks
from wherry.testing import Clock

STEP = "explain (analyze, buffers, timing off, format json) select wherry.drop_past_days(50)"
LARGE_DAY = """
insert into wherry.finished (id, token, created_at, run_after, finished_at, keep_until, attempts,
                             max_attempts, priority, state, queue, type, key, payload)
select n, 1, now(), now(), now(), now() + interval '2 days', 2, 2, 0, 'succeeded', 'q', 't',
       'k' || n, case when n % 10 > 0 then '{}'::json end
  from generate_series(1, 3000) as n;
insert into wherry.attempt (task_id, queue, token, attempt, ended_at, outcome)
select n, 'q', 0, 1, now(), 'failed' from generate_series(1, 3000) as n;
insert into wherry.key (queue, key, task_id, stamp, payload_hash)
select 'q', 'k' || n, n, n, '' from generate_series(1, 3000) as n;
insert into wherry.payload (task_id, queue, nth, piece)
select n, 'q', 0, '{}' from generate_series(1, 3000) as n where n % 10 = 0;
"""
THERE = """
select exists (select from wherry.finished) or exists (select from wherry.past_day)
"""
MODES = """
select distinct l.mode
  from pg_locks l
 where l.pid = %s
   and l.relation in (select c.oid from pg_class c
                       where c.relname ~ '^(live|finished|past)' and c.relkind in ('r', 'p'))
"""


def day_of(session: Session, tasks: int) -> list[int]:
    """Fill a day with tasks that each have a key, an attempt that failed and a large payload."""
    many = session.enqueue_many(
        *(spec(payload=LARGE, key=f"k{n}", max_attempts=2) for n in range(tasks))
    )
    session.fail(*session.lease(tasks))
    session.complete(*session.lease(tasks))
    return [each.id for each in many]


def finish(session: Session, batch: int = 5000) -> None:
    while session.call(DropPastDays(batch)):
        pass


def test_no_step_of_a_large_day_looks_at_more_than_its_own_batch(
    session: Session, clock: Clock
) -> None:
    session.rows(LARGE_DAY)
    clock.advance(days=4)

    pages: list[int] = []
    while session.value(THERE):
        [[[plan]]] = session.rows(STEP)
        pages.append(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
        assert len(pages) < 200

    # The day itself, and those before it of which nothing is there; one to take it out.
    assert len(pages) > 3000 / 50
    assert max(pages) < 3000
    rest = session.dump("finished", "attempt", "key", "payload")
    assert rest == {"finished": [], "attempt": [], "key": [], "payload": []}


def test_a_step_that_is_under_way_holds_up_nobody_who_wants_another_task(
    session: Session, other: Session, clock: Clock
) -> None:
    gone, kept = day_of(session, 3), session.enqueue(max_attempts=1, queue="other")
    session.fail(session.lease_one(queue="other"))
    clock.advance(days=9)
    while session.value("select count(*) from wherry.past_day where done_id > 0") == 0:
        assert session.call(DropPastDays(1))
    session.begin()
    assert session.call(DropPastDays(1))

    other.rows("set lock_timeout = '1ms'")
    answers = [each.answer for each in other.requeue(gone[2], kept)]
    purged = other.purge(*gone, kept)
    new = [other.enqueued(key=f"k{n}").created for n in (0, 2)]
    session.commit()
    finish(session)

    assert answers == ["unknown", "queued"]
    assert purged == []
    assert new == [True, True]
    assert alone(other) == ([], [])
    assert session.value("select count(*) from wherry.key") == 2
    roll(session)
    assert counted(session) == there(session)


def test_a_step_has_no_strong_lock_on_tasks_of_days_that_are_not_over(
    session: Session, observer: Session, clock: Clock
) -> None:
    day_of(session, 2)
    clock.advance(days=9)
    while session.value("select count(*) from wherry.past_day where done_id > 0") == 0:
        assert session.call(DropPastDays(1))

    session.begin()
    session.call(DropPastDays(1))
    modes = {mode for (mode,) in observer.rows(MODES, session.pid)}
    session.commit()

    assert modes == {"AccessShareLock", "RowExclusiveLock"}


@pytest.mark.parametrize("steps", range(1, 8))
def test_what_is_left_of_a_day_is_counted_until_it_goes(
    session: Session, clock: Clock, steps: int
) -> None:
    day_of(session, 4)
    clock.advance(days=9)
    session.value("select count(wherry.drop_past_days(5000)) from generate_series(1, 14)")
    for _ in range(steps):
        session.call(DropPastDays(1))
    session.rows("update wherry.chore set due_at = '-infinity'")

    wrong = session.call(RecountTasks())
    roll(session)
    seen = counted(session), there(session)
    finish(session, 1)
    roll(session)

    assert wrong == 0
    assert seen[0] == seen[1]
    assert counted(session) == there(session) == {}


def test_a_day_that_is_half_gone_goes_on_after_a_dump_and_a_restore(
    session: Session, clock: Clock
) -> None:
    day_of(session, 6)
    clock.advance(days=9)
    while session.value("select count(*) from wherry.past_day where done_id > 0") == 0:
        session.call(DropPastDays(2))
    name = session.value("select name from wherry.past_day")

    # A dump writes rows as they lie, and nobody promises that they lie so again.
    session.rows(f"create table wherry.again as select * from wherry.{name} order by id desc")
    session.rows(f"truncate wherry.{name}")
    session.rows(f"insert into wherry.{name} select * from wherry.again")
    finish(session, 2)

    rest = session.dump("attempt", "key", "payload")
    assert rest == {"attempt": [], "key": [], "payload": []}
    assert session.value("select count(*) from wherry.past_day") == 0


def test_a_key_that_is_being_taken_over_for_long_is_left_to_a_later_step(
    session: Session, open_session: OpenSession, clock: Clock
) -> None:
    day_of(session, 3)
    clock.advance(days=9)
    session.value("select count(wherry.drop_past_days(5000)) from generate_series(1, 14)")
    while session.value("select count(*) from wherry.past_day where done_id > 0") == 0:
        session.call(DropPastDays(1))
    taker = open_session()
    taker.begin()
    taker.enqueue(key="k2")

    steps = [session.call(DropPastDays(2)) for _ in range(2)]
    session.rows("update wherry.chore set due_at = '-infinity'")
    wrong = session.call(RecountTasks())
    taker.commit()
    finish(session)
    roll(session)

    assert steps == [False, False]
    assert wrong == 0
    assert counted(session) == there(session)
    assert session.value("select count(*) from wherry.key") == 1

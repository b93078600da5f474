"""Whatever happens to tasks is counted if it was committed, and the sums say what is there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import psycopg
import pytest

import wherry
from tests.pg.flow import counted, roll, there, totals
from tests.pg.life import KNOWS, Life
from tests.pg.support import OpenSession, Session, spec
from wherry.commands.flow import CountStates, ReadFlow, ReadTotals
from wherry.commands.maintenance import DropPastDays, LookAround
from wherry.commands.tally import RecountTasks, RollFlow
from wherry.domain.flow import BOUNDS_SECONDS, PAIRS_MOST
from wherry.testing import Clock


@pytest.mark.parametrize("seed", range(12))
def test_the_sums_say_what_is_there_whatever_has_happened(
    session: Session, clock: Clock, seed: int
) -> None:
    session.rows(KNOWS)
    life = Life(session, clock, seed)

    for _ in range(60):
        life.step()
    roll(session)

    assert counted(session) == there(session)
    assert session.call(RecountTasks()) == 0


def test_a_counter_stays_when_its_tasks_are_purged(session: Session, clock: Clock) -> None:
    # OBS-05: a thousand tasks whose retention is short, counted after they are gone.
    session.rows("update wherry.settings set keep_succeeded = '1 minute'")
    session.enqueue_many(*(spec("t") for _ in range(1000)))
    leases = session.lease(1000)
    session.complete(*leases, closed=[leases[0].lease_id])
    roll(session)

    clock.advance(days=3)
    while session.call(DropPastDays()):
        pass
    roll(session)

    assert there(session) == {}
    assert counted(session) == {}
    assert totals(session) == {"enqueued": 1000, "succeeded": 1000}


def test_what_is_rolled_back_is_not_counted(session: Session) -> None:
    session.begin()
    session.enqueue("t")
    session.rollback()
    roll(session)

    assert session.call(ReadTotals()).totals == ()


def test_an_enqueue_in_an_open_transaction_keeps_nobody_from_counting(
    open_session: OpenSession,
) -> None:
    open_one, other = open_session(), open_session()
    open_one.begin()
    open_one.enqueue("t")

    other.enqueue("t")
    roll(other)
    before = totals(other)
    open_one.commit()
    roll(other)

    assert (before, totals(other)) == ({"enqueued": 1}, {"enqueued": 2})


def test_one_process_rolls_and_the_others_pass_on(open_session: OpenSession) -> None:
    one, other = open_session(), open_session()
    one.enqueue("t")
    one.begin()
    one.call(RollFlow())

    rolled = other.call(RollFlow())
    one.rollback()
    roll(other)

    assert rolled is False
    assert totals(other) == {"enqueued": 1}


def test_where_nothing_happens_the_chore_is_put_off_in_one_statement(
    session: Session, clock: Clock
) -> None:
    session.rows("update wherry.chore set due_at = '-infinity', folded_until = wherry.now()")
    more = partial(pytest.fail, "there is nothing to sum up")

    session.call_around(RollFlow(), before="flow/claim_chore", act=more)

    assert session.call(LookAround()).chores == ("recount",)
    clock.advance(seconds=5)
    assert session.call(LookAround()).chores == ("recount", "roll")


def test_the_minutes_of_a_system_that_has_come_to_rest_are_added_to_its_hours(
    session: Session, clock: Clock
) -> None:
    session.enqueue("t")
    roll(session)
    clock.advance(minutes=10)

    roll(session)

    sums = dict(session.rows("select step, sum(n)::bigint from wherry.tally group by step"))
    assert sums["hour"] == sums["minute"] > 0


def test_whoever_rests_waits_for_nobody_who_rolls(open_session: OpenSession) -> None:
    one, other = open_session(), open_session()
    one.rows("update wherry.chore set due_at = '-infinity', folded_until = wherry.now()")
    one.begin()
    one.rows("select from wherry.chore where name = 'roll' for update")

    assert other.call(RollFlow()) is False
    one.rollback()


def test_waits_and_runs_are_told_by_buckets(session: Session, clock: Clock) -> None:
    session.enqueue("t")
    clock.advance(seconds=20)
    lease = session.lease_one(seconds=1000)
    clock.advance(seconds=200)
    session.complete(lease)
    roll(session)

    [total] = session.call(ReadTotals()).totals

    assert total.wait.counts[BOUNDS_SECONDS.index(30.0)] == 1
    assert total.run.counts[BOUNDS_SECONDS.index(300.0)] == 1
    assert (total.wait.count, total.run.count) == (1, 1)
    assert total.wait.seconds == pytest.approx(20, abs=1)
    assert total.run.seconds == pytest.approx(200, abs=1)


def test_minutes_are_added_to_hours_and_totals_and_nothing_is_told_twice(
    session: Session, clock: Clock
) -> None:
    for minutes in (0, 1, 9, 70):
        clock.advance(minutes=minutes)
        session.enqueue("t")
        roll(session)
    # Late: it was stored an hour ago, and its transaction has only ended now.
    session.rows(
        "insert into wherry.flow (at, n, kind, queue, type)"
        " values (wherry.now() - interval '1 hour', 1, 'enqueued', 'default', 't')"
    )
    roll(session)

    by_minutes = session.call(ReadFlow(seconds=2 * 3600, points=120))
    by_hours = session.call(ReadFlow(seconds=72 * 3600, points=72))

    assert sum(point.counts["enqueued"] for point in by_minutes.points) == 5
    assert sum(point.counts["enqueued"] for point in by_hours.points) == 5
    assert totals(session) == {"enqueued": 5}
    assert session.value("select count(*) from wherry.tally where step = 'ever'") == 1


def test_a_flow_is_read_of_some_queues_or_one_type(session: Session) -> None:
    for queue, type_ in (("a", "t"), ("a", "u"), ("b", "t")):
        session.enqueue(type_, queue=queue)
    roll(session)

    def seen(**only: object) -> int:
        flow = session.call(ReadFlow(3600, 60, **only))  # type: ignore[arg-type]
        return sum(point.counts["enqueued"] for point in flow.points)

    assert (seen(), seen(queues=("a",)), seen(type="t"), seen(queues=("b",), type="u")) == (
        3, 2, 2, 0,
    )  # fmt: skip


def test_sums_are_forgotten_when_nobody_can_ask_for_them(session: Session, clock: Clock) -> None:
    session.enqueue("t")
    roll(session)
    clock.advance(days=3)
    roll(session)
    steps = session.rows("select distinct step from wherry.tally order by 1")
    clock.advance(days=63)
    roll(session)

    assert steps == [("ever",), ("hour",)]
    assert session.rows("select distinct step from wherry.tally") == [("ever",)]
    assert totals(session) == {"enqueued": 1}


def test_more_sums_than_a_batch_are_forgotten_at_once(session: Session, clock: Clock) -> None:
    session.rows(
        "insert into wherry.tally (step, at, pair, kind, bucket, n, seconds)"
        " select 'minute', date_trunc('minute', wherry.now()), 0, 'wait', n, 1, 1"
        "   from generate_series(1, 35) as n"
    )
    clock.advance(days=3)

    session.call(RollFlow(batch=10))

    assert session.value("select count(*) from wherry.tally where step = 'minute'") == 0


def test_there_are_no_more_pairs_than_so_many(session: Session) -> None:
    session.enqueue_many(*(spec(f"t{n}") for n in range(PAIRS_MOST + 5)))
    roll(session)

    counts = session.call(CountStates()).counts

    assert len(counts) == PAIRS_MOST + 1
    assert [count.queued for count in counts if count.queue == ""] == [5]
    assert session.call(RecountTasks()) == 0


def test_names_and_kinds_of_a_stranger_hold_nothing_up(session: Session) -> None:
    # An enqueuer may write to the flow whatever it likes.
    session.rows(
        "insert into wherry.flow (at, n, kind, queue, type, wait_bucket, wait_seconds) values"
        " ('infinity', 1, repeat('y', 9000), repeat('x', 9000), 't', 99, null),"
        " ('-infinity', 2147483647, 'live', '', '', -7, 'nan'),"
        " ('4714-11-25 BC', -2147483648, 'live', '', '', 3, 'infinity'),"
        " ('294276-12-31', 2147483647, 'wait', '', '', 4, 1.7e308)"
    )
    session.enqueue("t")

    roll(session)

    assert totals(session) == {"enqueued": 1}
    assert session.value("select count(*) from wherry.flow") == 0


def test_a_recount_corrects_what_others_have_changed_without_counting(session: Session) -> None:
    session.enqueue("t")
    session.enqueue("u", delay=3600)
    session.complete(session.lease_one())
    session.rows("delete from wherry.finished")
    session.rows(
        "insert into wherry.live (id, position, created_at, run_after, max_attempts, state, queue,"
        " type, payload) values (-1, -1, now(), now(), 1, 'parked', 'q', 'new', '{}')"
    )
    session.rows("update wherry.chore set due_at = '-infinity'")

    wrong = session.call(RecountTasks())
    roll(session)

    # One that is gone; and one that came, which is alive and parked.
    assert wrong == 3
    assert counted(session) == there(session)
    assert totals(session) == {"enqueued": 1, "succeeded": 1}


def test_a_recount_that_fails_is_tried_again_an_hour_later_only(
    session: Session, clock: Clock
) -> None:
    session.rows("alter function wherry.recount() rename to recount_of_another_version")
    session.rows("update wherry.chore set due_at = '-infinity'")

    with pytest.raises(psycopg.errors.UndefinedFunction):
        session.call(RecountTasks())
    session.rows("alter function wherry.recount_of_another_version() rename to recount")
    session.rows("delete from wherry.tally")
    session.enqueue("t")
    session.rows("delete from wherry.flow")

    assert session.call(RecountTasks()) == 0
    clock.advance(seconds=3601)
    assert session.call(RecountTasks()) == 1


def test_a_day_is_counted_once_though_somebody_reads_it_meanwhile(
    open_session: OpenSession, clock: Clock
) -> None:
    session, reader = open_session(), open_session()
    session.enqueue("t")
    session.complete(session.lease_one())
    clock.advance(days=9)
    reader.begin()
    reader.rows("select id from wherry.finished")

    kept = session.call(DropPastDays())
    reader.commit()
    while session.call(DropPastDays()):
        pass
    roll(session)

    assert kept is False
    assert counted(session) == there(session) == {}


def test_whoever_purges_while_a_day_is_dropped_is_counted_once(
    open_session: OpenSession, clock: Clock
) -> None:
    session, other = open_session(), open_session()
    task = session.enqueue("t")
    session.complete(session.lease_one())
    clock.advance(days=9)
    other.begin()
    other.purge(task)

    while session.call(DropPastDays()):
        pass
    other.commit()
    while session.call(DropPastDays()):
        pass
    roll(session)

    assert counted(session) == there(session) == {}


def test_the_bounds_of_sql_are_those_of_the_domain() -> None:
    parts = Path(wherry.__file__).parent / "sql" / "parts"
    written = ", ".join(f"{bound:g}" for bound in BOUNDS_SECONDS)

    found = [(parts / f"{name}.sql").read_text().count(written) for name in ("counted", "put_back")]

    assert found == [2, 2]


def test_who_publishes_all_tables_can_have_the_flow_summed_up(session: Session) -> None:
    # PostgreSQL lets nothing be deleted then from a table by whose rows nobody can know them.
    session.rows("create publication everything for all tables")
    session.enqueue("t")

    roll(session)

    assert totals(session) == {"enqueued": 1}

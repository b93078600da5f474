"""The days of finished tasks: made ahead, dropped when over, never in the way of a completion."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

import wherry
from tests.facts import wait_until_blocked
from tests.pg.support import OpenSession, Session, result_of, spec
from wherry.commands.maintenance import DropPastDays, MakeDays
from wherry.domain.lease import Reported
from wherry.domain.state import State
from wherry.testing import Clock


def days(session: Session) -> list[str]:
    return [
        name
        for (name,) in session.rows(
            "select c.relname::text from pg_inherits join pg_class c on c.oid = inhrelid"
            " where inhparent = 'wherry.finished'::regclass and c.relname <> 'finished_default'"
            " order by 1"
        )
    ]


def home_of(session: Session, id_: int) -> str:
    """Return the partition that holds a finished task."""
    return str(
        session.value(
            "select relname::text from wherry.finished f join pg_class c on c.oid = f.tableoid"
            " where f.id = %s",
            id_,
        )
    )


def done(session: Session, **options: Any) -> int:
    session.enqueue(**options)
    lease = session.lease_one()
    assert session.complete(lease) == [Reported.DONE]
    return lease.id


def dead(session: Session, **options: Any) -> int:
    session.enqueue(max_attempts=1, **options)
    lease = session.lease_one()
    assert session.fail(lease) == [Reported.DEAD]
    return lease.id


def prune(session: Session, batch: int = 5000) -> int:
    """Run the pruner until it finds no more, and return how many steps had something to do."""
    steps = 0
    while session.call(DropPastDays(batch)):
        steps += 1
        assert steps < 1000
    return steps


def test_the_migration_makes_the_days_of_the_longest_retention_and_two_weeks_more(
    session: Session,
) -> None:
    assert len(days(session)) == 30 + 14 + 1

    assert session.call(MakeDays()) == 0


def test_a_task_lies_in_the_day_on_which_its_retention_ends(session: Session, clock: Clock) -> None:
    for id_, kept in [(done(session), 7), (dead(session), 30)]:
        day = session.value(
            "select to_char((wherry.now() + %s * interval '1 day') at time zone 'UTC', 'YYYYMMDD')",
            kept,
        )
        assert home_of(session, id_) == f"finished_{day}"


def test_a_day_passes_and_another_is_made(session: Session, clock: Clock) -> None:
    clock.advance(days=1)

    assert session.call(MakeDays()) == 1
    assert session.call(MakeDays()) == 0


def test_a_longer_retention_makes_more_days(session: Session) -> None:
    session.rows("update wherry.settings set keep_failed = interval '60 days'")

    assert session.call(MakeDays()) == 30


def test_a_missing_day_fails_no_completion_and_is_made_good_later(
    session: Session, clock: Clock
) -> None:
    clock.advance(days=60)
    ids = [done(session, key="k"), dead(session)]
    assert [home_of(session, id_) for id_ in ids] == ["finished_default"] * 2

    session.call(MakeDays())

    assert all(home_of(session, id_).startswith("finished_2") for id_ in ids)
    assert session.value("select count(*) from wherry.finished_default") == 0
    assert [session.task(id_).state for id_ in ids] == [State.SUCCEEDED, State.DEAD]
    assert session.enqueued(key="k").id == ids[0]
    assert session.requeue(ids[1])[0].answer == "queued"


@pytest.mark.parametrize(
    "options",
    [
        {"datestyle": "German"},
        {"datestyle": "SQL,\\ DMY"},
        {"timezone": "Pacific/Kiritimati"},
        {"timezone": "Etc/GMT+12"},
    ],
)
def test_days_do_not_depend_on_how_a_session_writes_dates(
    open_session: OpenSession, session: Session, clock: Clock, options: dict[str, str]
) -> None:
    clock.advance(days=60)
    id_ = done(session)

    open_session(**options).call(MakeDays())

    day = session.value(
        "select to_char(keep_until at time zone 'UTC', 'YYYYMMDD') from wherry.finished"
    )
    assert home_of(session, id_) == f"finished_{day}"


def test_a_completion_that_arrives_while_its_day_is_being_made_is_not_lost(
    app: wherry.App,
    session: Session,
    other: Session,
    observer: Session,
    clock: Clock,
    start: Callable[..., Future[Any]],
) -> None:
    clock.advance(days=60)
    session.enqueue()
    lease = session.lease_one()
    other.begin()
    other.call(MakeDays())
    call = start(app.complete, lease)
    wait_until_blocked(observer.connection, by=other.connection)

    # PostgreSQL refuses the row, which was on its way to where it belonged a moment ago.
    other.commit()

    assert result_of(call) is Reported.DONE
    assert session.task(lease.id).state is State.SUCCEEDED


def test_one_maker_at_a_time_the_others_have_nothing_to_do(
    session: Session, other: Session, clock: Clock
) -> None:
    clock.advance(days=1)
    session.begin()
    assert session.call(MakeDays()) == 1

    assert other.call(MakeDays()) == 0

    session.commit()


def test_a_day_that_is_over_goes_with_its_attempts_and_keys(session: Session, clock: Clock) -> None:
    old = [done(session, key="a"), dead(session, key="b")]
    live = session.enqueue(key="c", run_after=clock.now())
    session.fail(session.lease_one(), after=0)
    clock.advance(days=5)
    young = done(session, key="d", priority=1)
    before = len(days(session))
    session.call(MakeDays())

    clock.advance(days=27)
    assert prune(session) > 0

    assert [session.find(id_) for id_ in old] == [None, None]
    assert session.find(young) is None
    assert session.task(live).history != ()
    assert session.rows("select key from wherry.key") == [("c",)]
    assert session.value("select count(*) from wherry.attempt") == 1
    assert len(days(session)) < before
    assert min(days(session)) >= session.value(
        "select 'finished_' || to_char(wherry.now() at time zone 'UTC', 'YYYYMMDD')"
    )


def test_nothing_goes_before_its_day_is_over(session: Session, clock: Clock) -> None:
    ids = [done(session), dead(session)]
    clock.advance(days=7, minutes=-1)
    prune(session)
    assert session.find(ids[0]) is not None
    clock.advance(days=22)

    prune(session)

    assert session.find(ids[0]) is None
    assert session.find(ids[1]) is not None


def test_a_key_kept_longer_than_its_task_would_be_keeps_both(
    session: Session, clock: Clock
) -> None:
    id_ = done(session, key="k", key_ttl=90 * 86_400)
    assert home_of(session, id_) == "finished_default"
    for _ in range(8):
        clock.advance(days=11)
        session.call(MakeDays())
        prune(session)
        assert session.enqueued(key="k").id == id_

    clock.advance(days=3)
    prune(session)

    assert session.find(id_) is None
    assert session.dump("key") == {"key": []}


def test_a_key_that_names_another_task_meanwhile_stays(session: Session, clock: Clock) -> None:
    done(session, key="k", key_ttl=60)
    clock.advance(days=1)
    new = session.enqueue(key="k")
    clock.advance(days=9)

    prune(session)

    assert session.enqueued(key="k").id == new


@pytest.mark.parametrize("made", [True, False])
def test_it_goes_in_bounded_steps(session: Session, clock: Clock, made: bool) -> None:
    if not made:
        clock.advance(days=60)
    session.enqueue_many(*(spec(key=f"k{n}", max_attempts=1) for n in range(10)))
    session.fail(*session.lease(10))
    clock.advance(days=32)

    steps = prune(session, batch=3)

    assert steps >= 4
    rest = session.dump("finished", "attempt", "key")
    assert rest == {"finished": [], "attempt": [], "key": []}


def test_a_task_requeued_at_the_last_moment_keeps_its_key_and_history(
    session: Session, other: Session, clock: Clock
) -> None:
    id_ = dead(session, key="k")
    clock.advance(days=32)
    other.begin()
    other.requeue(id_)

    prune(session)

    other.commit()
    prune(session)
    assert session.enqueued(key="k").id == id_
    assert len(session.task(id_).history) == 1


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_a_takeover_under_way_neither_fails_nor_loses_to_the_pruner(
    session: Session, other: Session, clock: Clock, made: bool, commits: bool
) -> None:
    if not made:
        clock.advance(days=60)
    dead(session, key="k", key_ttl=60)
    plain = dead(session, key="l", key_ttl=60)
    clock.advance(days=32)
    other.begin()
    new = other.enqueue(key="k")

    prune(session)

    other.rows("commit" if commits else "rollback")
    prune(session)
    assert session.find(plain) is None
    if commits:
        assert session.enqueued(key="k").id == new
    else:
        assert session.dump("key") == {"key": []}


@pytest.mark.parametrize("command", [MakeDays(), DropPastDays()])
def test_an_idle_reader_is_not_waited_for_and_holds_up_no_completion(
    session: Session, other: Session, observer: Session, clock: Clock, command: Any
) -> None:
    dead(session)
    session.enqueue()
    clock.advance(days=60)
    lease = session.lease_one()
    other.begin()
    other.rows("select count(*) from wherry.tasks")

    session.call(command)

    # Of this database: the server is shared with other tests, which may well wait.
    waiting = (
        "select count(*) from pg_locks"
        " where not granted"
        "   and database = (select oid from pg_database where datname = current_database())"
    )
    assert observer.value(waiting) == 0
    session.rows("set lock_timeout = '1ms'")
    assert session.complete(lease) == [Reported.DONE]
    other.commit()
    assert session.call(command)


@pytest.mark.parametrize("function", ["make_days", "drop_past_days"])
def test_what_needs_a_strong_lock_asks_for_it_for_50_milliseconds_at_most(
    session: Session, function: str
) -> None:
    options = session.value("select proconfig from pg_proc where proname = %s", function)

    assert "lock_timeout=50ms" in options


def test_maintenance_of_ten_instances_at_once_under_traffic_never_deadlocks(
    session: Session, open_session: OpenSession, clock: Clock, start: Callable[..., Future[Any]]
) -> None:
    """TXN-08."""
    for _ in range(4):
        session.enqueue_many(*(spec(key=f"k{n}", key_ttl=60, max_attempts=1) for n in range(250)))
        leases = session.lease(250)
        session.fail(*leases)
        session.purge(*(lease.id for lease in leases[::5]))
        clock.advance(minutes=2)
    clock.advance(days=31)

    def maintain(mine: Session) -> None:
        mine.call(MakeDays())
        while mine.call(DropPastDays(50)) or mine.reap(5).leases:
            pass

    def traffic(mine: Session, keys: list[str]) -> None:
        for _ in range(5):
            mine.enqueue_many(*(spec(key=key, key_ttl=0) for key in keys))
            leases = mine.lease(100)
            mine.complete(*leases[::2])
            ids = [lease.id for lease in leases]
            mine.requeue(*ids)
            mine.purge(*reversed(ids))

    keys = [f"k{n}" for n in range(0, 250, 3)]
    calls = [start(maintain, open_session()) for _ in range(8)]
    calls += [start(traffic, open_session(), keys[:: 1 - 2 * (n % 2)]) for n in range(4)]

    for call in calls:
        result_of(call)
    prune(session)
    if session.value("select current_setting('server_version_num')::integer") >= 150000:
        # Before, a deadlock was told at once.
        session.rows("select pg_stat_force_next_flush()")
    assert (
        session.value("select deadlocks from pg_stat_database where datname = current_database()")
        == 0
    )


def test_no_day_is_vacuumed_for_what_was_stored_there(session: Session) -> None:
    session.rows("update wherry.settings set keep_failed = '40 days'")

    session.call(MakeDays())

    assert len(days(session)) == 40 + 14 + 1
    vacuumed = (
        "select count(*) from pg_inherits join pg_class c on c.oid = inhrelid"
        " where inhparent = 'wherry.finished'::regclass and c.relname <> 'finished_default'"
        "   and not coalesce('autovacuum_vacuum_insert_threshold=-1' = any (reloptions), false)"
    )
    assert session.value(vacuumed) == 0

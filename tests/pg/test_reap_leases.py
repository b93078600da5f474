"""The reaper takes back what ran out, and nothing else; no bad row keeps it from the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from tests.pg.support import OpenSession, Session, result_of, spec
from wherry.commands.maintenance import Reaped
from wherry.commands.workers import BeatWorker, LeaveWorker
from wherry.domain.lease import Lease, Reported
from wherry.domain.retry import Additive, Fixed, FullJitter, RetryPolicy
from wherry.domain.state import State
from wherry.maintenance.steps import Maintained
from wherry.testing import Clock

UUID = "00000000-0000-4000-8000-000000000001"


def leased(session: Session, n: int = 1, **options: Any) -> list[Lease]:
    session.enqueue_many(*(spec(**options) for _ in range(n)))
    return session.lease(n)


def delays(session: Session) -> list[float]:
    """Return in how many seconds each waiting task is due, the soonest first."""
    return [
        row[0]
        for row in session.rows(
            "select extract(epoch from run_after - wherry.now())::float8 as due"
            "  from wherry.live where state = 'delayed' order by 1"
        )
    ]


def test_a_live_lease_is_never_taken(session: Session, clock: Clock) -> None:
    leased(session, 3)
    clock.advance(seconds=29)
    before = session.dump()

    assert len(session.reap()) == 0

    assert session.dump() == before


def test_a_lost_lease_counts_as_an_attempt_and_stands_in_the_history_with_its_worker(
    session: Session, clock: Clock
) -> None:
    session.enqueue()
    lease = session.lease_one(worker="w7")
    clock.advance(seconds=31)

    assert session.reap().queued == (lease.id,)

    task = session.task(lease.id)
    assert (task.state, task.attempts, task.token) == (State.QUEUED, 1, 1)
    assert task.error == "LeaseExpired: worker w7 was lost"
    assert (task.started_at, task.worker, task.lease_expires_at) == (None, None, None)
    [attempt] = task.history
    assert (attempt.outcome, attempt.worker, attempt.attempt) == ("lost", "w7", 1)
    assert attempt.started_at == lease.leased_at
    assert attempt.retry_at == task.run_after
    assert session.dump("lease") == {"lease": []}


def test_a_task_that_kills_its_workers_is_dead_after_exactly_its_attempts(
    session: Session, clock: Clock
) -> None:
    id_ = session.enqueue(max_attempts=3)
    ends: list[Reaped] = []
    for attempt in range(3):
        assert session.lease_one().attempt == attempt + 1
        clock.advance(seconds=31)
        ends.append(session.reap())
        clock.advance(seconds=10)
        session.promote()

    assert [len(end.dead) for end in ends] == [0, 0, 1]
    task = session.task(id_)
    assert (task.state, task.attempts) == (State.DEAD, 3)
    assert [a.outcome for a in task.history] == ["lost"] * 3
    assert session.lease() == []


def test_a_lost_task_whose_cancel_was_asked_for_is_canceled(session: Session, clock: Clock) -> None:
    [lease] = leased(session)
    session.cancel(lease.id)
    clock.advance(seconds=31)

    assert session.reap().canceled == (lease.id,)

    task = session.task(lease.id)
    assert (task.state, task.reason) == (State.CANCELED, "canceled while it ran")
    assert [a.outcome for a in task.history] == ["lost"]


def test_recovery_does_not_need_the_row_of_the_worker(session: Session, clock: Clock) -> None:
    """LOST-03."""
    session.call(BeatWorker(instance=UUID, name="w", host="h", pid=1, queues=None, types=("t",)))
    [lease] = leased(session)
    session.call(LeaveWorker(UUID))
    clock.advance(seconds=31)

    assert session.reap().queued == (lease.id,)


def test_finished_mates_of_a_lost_task_stay_finished(session: Session, clock: Clock) -> None:
    done, failed, lost = leased(session, 3)
    session.complete(done)
    session.fail(failed)
    clock.advance(seconds=31)

    assert session.reap().queued == (lost.id,)

    assert session.task(done.id).state is State.SUCCEEDED
    assert [a.outcome for a in session.task(failed.id).history] == ["failed"]


def test_a_task_leased_again_by_the_same_worker_is_not_taken_for_the_old_lease(
    session: Session, clock: Clock
) -> None:
    leases = leased(session, 2)
    session.release(leases[0])
    clock.advance(seconds=20)
    again = session.lease_one(worker="w")
    clock.advance(seconds=11)

    assert session.reap().queued == (leases[1].id,)

    assert session.complete(again) == [Reported.DONE]


def test_each_part_of_a_split_lease_ends_by_itself(session: Session, clock: Clock) -> None:
    leases = leased(session, 3)
    clock.advance(seconds=10)
    session.heartbeat(*leases[:2])
    clock.advance(seconds=10)
    session.heartbeat(leases[0])
    clock.advance(seconds=11)
    assert session.reap().queued == (leases[2].id,)
    clock.advance(seconds=10)
    assert session.reap().queued == (leases[1].id,)
    clock.advance(seconds=10)
    assert session.reap().queued == (leases[0].id,)


def test_a_task_locked_by_an_open_transaction_keeps_its_lease_row_for_the_next_pass(
    session: Session, other: Session, clock: Clock
) -> None:
    locked, free = leased(session, 2)
    other.begin()
    other.cancel(locked.id)
    clock.advance(seconds=31)
    session.rows("set lock_timeout = '1ms'")

    assert session.reap().queued == (free.id,)
    assert session.value("select count(*) from wherry.lease") == 1

    other.rollback()
    assert session.reap().queued == (locked.id,)
    assert session.dump("lease") == {"lease": []}


def test_two_reapers_at_once_share_the_work_and_count_each_loss_once(
    session: Session, other: Session, clock: Clock
) -> None:
    for _ in range(4):
        leased(session, 5)
    clock.advance(seconds=31)
    session.begin()
    first = session.reap(batch=2)

    second = other.reap(batch=10)

    session.commit()
    assert (len(first), len(second)) == (10, 10)
    assert session.value("select count(*) from wherry.attempt") == 20
    assert len(session.reap()) == 0


def test_many_reapers_at_once_take_each_task_once(
    session: Session, open_session: OpenSession, clock: Clock, start: Callable[..., Future[Any]]
) -> None:
    for _ in range(20):
        leased(session, 5)
    clock.advance(seconds=31)

    def reap_all(mine: Session) -> int:
        taken = 0
        while reaped := mine.reap(batch=3):
            taken += len(reaped)
        return taken

    calls = [start(reap_all, open_session()) for _ in range(6)]

    taken = sum(result_of(call) for call in calls) + len(session.reap())
    assert taken == 100
    assert session.value("select count(*) from wherry.attempt") == 100


def test_leases_of_which_nothing_is_left_do_not_hold_up_those_behind_them(
    session: Session, clock: Clock
) -> None:
    # Whoever leases many and reports them one by one leaves the lease's row to the reaper.
    for _ in range(10):
        for lease in leased(session, 2):
            session.complete(lease)
    leased(session)
    clock.advance(seconds=31)

    done = Maintained()
    while done.add(session.reap(batch=3)):
        pass

    assert done.reaped == 1
    assert session.dump("lease") == {"lease": []}


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_a_lease_row_that_names_a_task_twice_stops_no_pass(
    session: Session, clock: Clock, max_attempts: int
) -> None:
    [lease] = leased(session, max_attempts=max_attempts)
    mates = leased(session, 3, max_attempts=max_attempts)
    session.rows(
        "update wherry.lease set task_ids = task_ids || task_ids || 0::bigint where lease_id = %s",
        lease.lease_id,
    )
    clock.advance(seconds=31)

    reaped = session.reap()
    assert sorted(reaped.queued + reaped.dead) == [lease.id, *(mate.id for mate in mates)]

    assert len(session.task(lease.id).history) == 1


def test_an_attempt_that_stands_in_the_history_already_stops_no_pass(
    session: Session, clock: Clock
) -> None:
    # After an asynchronous failover a token may repeat.
    """DBL-12: No row that is odd keeps the others from their recovery."""
    one, two = leased(session, 2)
    session.rows(
        "insert into wherry.attempt (task_id, queue, token, attempt, ended_at, outcome)"
        " values (%s, 'default', 1, 1, wherry.now(), 'failed')",
        one.id,
    )
    clock.advance(seconds=31)

    assert sorted(session.reap().queued) == [one.id, two.id]


BAD_POLICIES = [
    "{}",
    "[]",
    "3",
    "null",
    '"fixed"',
    '{"kind": "fixed"}',
    '{"kind": "fixed", "delay": "soon"}',
    '{"kind": "fixed", "delay": 1e999}',
    '{"kind": "fixed", "delay": -5}',
    '{"kind": "fixed", "delay": {"a": 1}}',
    '{"kind": "full_jitter", "base": "NaN", "cap": "Infinity"}',
    '{"kind": "full_jitter", "base": 9999999999, "cap": 9999999999}',
    '{"kind": "full_jitter", "base": 99999999999999999999, "cap": 99999999999999999999}',
    '{"kind": "additive", "base": 1, "jitter": 9999999999, "cap": 9999999999}',
    '{"kind": "from a newer version", "base": 1}',
    '{"kind": ["fixed"], "delay": [1]}',
    '{"kind": "\\u0000"}',
    '{"kind": "\\ud800", "base": "\\udfff"}',
    '{"kind": "fixed", "kind": "additive"}',
]


def test_stored_policies_that_make_no_sense_harm_nobody(session: Session, clock: Clock) -> None:
    ids = [lease.id for lease in leased(session, len(BAD_POLICIES) + 5)]
    for id_, policy in zip(ids, BAD_POLICIES, strict=False):
        session.rows("update wherry.live set retry = %s::text::json where id = %s", policy, id_)
    session.rows("update wherry.live set attempts = max_attempts - 1")
    clock.advance(seconds=31)

    assert sorted(session.reap().queued) == ids

    assert min(delays(session)) >= -1
    assert max(delays(session)) < 320 * 365.25 * 86400


@pytest.mark.parametrize(
    ("policy", "attempts", "least", "most"),
    [
        (None, 1, 0, 2),
        (None, 30, 0, 3600),
        (FullJitter(base=10, cap=60), 1, 0, 20),
        (FullJitter(base=10, cap=60), 9000, 0, 60),
        (Fixed(90), 1, 90, 90),
        (Fixed(0), 1, 0, 0),
        (Additive(base=10, jitter=5, cap=1000), 1, 20, 25),
        (Additive(base=10, jitter=5, cap=60), 9000, 55, 60),
        (Additive(base=1, jitter=100, cap=60), 3, 0, 60),
        (FullJitter(base=timedelta(milliseconds=1), cap=3600), 40, 0, 3600),
        (FullJitter(base=timedelta(microseconds=50), cap=3600), 5, 0, 0.0016),
    ],
)
def test_a_lost_lease_waits_by_the_stored_policy(
    session: Session,
    clock: Clock,
    policy: RetryPolicy | None,
    attempts: int,
    least: float,
    most: float,
) -> None:
    leased(session, 100, retry=policy, max_attempts=32_767)
    session.rows("update wherry.live set attempts = %s", attempts)
    clock.advance(seconds=31)

    session.reap()

    waits = delays(session)
    assert len(waits) == 100
    assert least - 1 < waits[0]
    assert waits[-1] <= most
    # Jittered (but for a policy that says the moment): they do not all come back at once.
    assert waits[-1] - waits[0] >= (most - least) / 2


def test_losses_of_one_moment_come_back_spread_over_the_window(
    session: Session, clock: Clock
) -> None:
    """RET-04."""
    leased(session, 1000, retry=FullJitter(base=60, cap=100), max_attempts=10)
    session.rows("update wherry.live set attempts = 5")
    clock.advance(seconds=31)

    session.reap()

    shares: dict[int, int] = {}
    for wait in delays(session):
        shares[int(wait)] = shares.get(int(wait), 0) + 1
    assert max(shares.values()) < 50


def test_the_dead_keep_their_reason_and_are_kept_long(session: Session, clock: Clock) -> None:
    [lease] = leased(session, max_attempts=1)
    clock.advance(seconds=31)

    assert session.reap().dead == (lease.id,)

    assert session.value("select keep_until - finished_at from wherry.finished") == timedelta(30)
    assert session.task(lease.id).error == "LeaseExpired: worker w was lost"

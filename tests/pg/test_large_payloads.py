"""Large payloads stand apart from their tasks, written once: each comes out equal, none is alone.

After every test no task may lack its payload, and no payload its task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.pg.large import (
    DOORS,
    LARGE,
    alone,
    ids_apart,
    one,
    pieces,
    with_a_key,
)
from tests.pg.support import Session, spec
from wherry.commands.finding import ListTasks
from wherry.commands.leases import CompleteInTransaction, LeaseForPollers, LeaseTasks
from wherry.commands.maintenance import DiscardTasks
from wherry.commands.task_texts import LARGE_PAYLOAD_CHARACTERS
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token
from wherry.domain.filter import Filter
from wherry.domain.lease import Lease, Poller
from wherry.domain.outcome import Completed
from wherry.domain.task import RequeueAnswer, Requeued
from wherry.errors import DecodeError


@pytest.fixture(autouse=True)
def nothing_is_left_alone(observer: Session) -> Iterator[None]:
    """See at the end that tasks and payloads belong together."""
    yield
    assert alone(observer) == ([], [])


@pytest.mark.parametrize("door", DOORS)
def test_it_comes_out_equal_wherever_it_is_read_and_is_never_written_again(
    session: Session, door: Callable[..., int]
) -> None:
    id_ = door(session)
    written = pieces(session)

    def read() -> list[Any]:
        page = session.call(ListTasks(Filter(queue="default")))
        [[shown]] = session.rows("select payload from wherry.tasks where id = %s", id_)
        return [session.task(id_).payload, page.tasks[0].payload, shown]

    assert read() == [LARGE] * 3
    lease = session.lease_one()
    assert (lease.id, lease.payload) == (id_, LARGE)
    session.complete(lease)
    assert read() == [LARGE] * 3
    assert id_ in ids_apart(session)
    assert pieces(session) == written


def complete(session: Session, lease: Lease) -> None:
    session.complete(lease)


def complete_in_transaction(session: Session, lease: Lease) -> None:
    session.call(CompleteInTransaction(Completed(lease)))


def fail_for_good(session: Session, lease: Lease) -> None:
    session.fail(lease, verdict="fail")


def cancel_while_queued(session: Session, lease: Lease) -> None:
    session.release(lease)
    session.cancel(lease.id)


def expire_while_queued(session: Session, lease: Lease) -> None:
    session.release(lease)
    session.rows("update wherry.live set discard_at = wherry.now()")
    session.call(DiscardTasks(10))


def lose_the_last_attempt(session: Session, lease: Lease) -> None:
    session.rows("update wherry.live set max_attempts = 1")
    session.rows("update wherry.lease set expires_at = wherry.now()")
    session.reap()


@pytest.mark.parametrize(
    "end",
    [
        complete, complete_in_transaction, fail_for_good, cancel_while_queued, expire_while_queued,
        lose_the_last_attempt,
    ],
)  # fmt: skip
@pytest.mark.parametrize("without_key", [False, True])
def test_a_requeued_task_has_it_again_however_it_ended(
    session: Session, end: Callable[[Session, Lease], None], without_key: bool
) -> None:
    id_ = with_a_key(session)
    written = pieces(session)
    for _ in range(2):
        lease = session.lease_one()
        assert lease.payload == LARGE
        end(session, lease)

        answers = session.requeue(id_, without_key=without_key)

        assert [answer.answer for answer in answers] == [RequeueAnswer.QUEUED]
        session.rows("update wherry.live set max_attempts = 20, discard_at = null")
    assert session.lease_one().payload == LARGE
    assert pieces(session) == written


def test_a_retry_and_a_lost_worker_have_it_again(session: Session) -> None:
    one(session)
    session.fail(session.lease_one())
    lease = session.lease_one()
    assert lease.payload == LARGE
    session.rows("update wherry.lease set expires_at = wherry.now()")
    session.reap()
    session.rows("update wherry.live set run_after = wherry.now()")
    session.promote()
    assert session.lease_one().payload == LARGE


def test_small_ones_stay_with_their_tasks_from_every_door(session: Session) -> None:
    # {"t":"x"} has eight characters more than its text; jsonb writes a space more.
    most = {"t": "x" * (LARGE_PAYLOAD_CHARACTERS - 8)}
    fits_in_sql = {"t": "x" * (LARGE_PAYLOAD_CHARACTERS - 9)}
    too_long = {"t": "x" * (LARGE_PAYLOAD_CHARACTERS - 7)}

    small = [session.enqueue(payload=most), session.enqueue(payload=most, key="k")]
    small += [each.id for each in session.enqueue_many(spec(payload=most), spec(payload=most))]
    of_sql = [
        session.value(
            "select id from wherry.enqueue('default', 't', %s::jsonb)", json.dumps(payload)
        )
        for payload in (fits_in_sql, most)
    ]
    large = session.enqueue(payload=too_long)

    assert ids_apart(session) == {large, of_sql[1]}
    assert {*small, of_sql[0]}.isdisjoint(ids_apart(session))


def test_a_key_names_one_task_with_one_payload(session: Session) -> None:
    first = session.enqueued(payload=LARGE, key="k")
    again = session.enqueued(payload=LARGE, key="k")
    other = session.enqueued(payload=LARGE | {"n": 2}, key="k")
    small = session.enqueued(payload={}, key="k")

    assert [each.id for each in (again, other, small)] == [first.id] * 3
    assert [each.payload_matches for each in (again, other, small)] == [True, False, False]
    assert ids_apart(session) == {first.id}

    session.complete(session.lease_one())
    session.requeue(first.id)
    assert session.enqueued(payload=LARGE, key="k").payload_matches


def test_whoever_takes_a_key_over_has_a_payload_of_its_own(session: Session) -> None:
    first = session.enqueue(payload=LARGE, key="k", key_ttl=0)
    session.complete(session.lease_one())

    second = session.enqueued(payload=LARGE | {"n": 2}, key="k")
    assert second.created

    assert session.requeue(first) == [Requeued(first, RequeueAnswer.KEY_TAKEN, "k", second.id)]
    assert session.purge(first) == [first]
    assert ids_apart(session) == {second.id}
    assert session.lease_one().payload == LARGE | {"n": 2}


def never_arrived(session: Session) -> None:
    session.rollback()


def waits(session: Session) -> None:
    session.commit()


def runs(session: Session) -> None:
    session.commit()
    session.lease_one()


def has_ended(session: Session) -> None:
    session.commit()
    session.complete(session.lease_one())


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("until", [never_arrived, waits, runs, has_ended])
def test_what_is_sent_again_is_there_once(
    session: Session, until: Callable[[Session], None], key: str | None
) -> None:
    ids = tuple(session.call(DrawTaskIds(2)))
    command = EnqueueTasks((spec(payload=LARGE, key=key), spec()), ids, new_token())
    session.begin()
    session.call(command)
    until(session)

    answers = session.call(command.again())

    assert [answer.id for answer in answers] == list(ids)
    assert session.value("select count(*) from wherry.tasks") == 2
    assert session.task(ids[0]).payload == LARGE
    assert ids_apart(session) == {ids[0]}


@pytest.mark.parametrize("door", DOORS)
def test_a_transaction_that_is_rolled_back_leaves_none(
    session: Session, door: Callable[..., int]
) -> None:
    session.begin()
    door(session)
    session.rollback()

    assert pieces(session) == []


def test_where_settings_do_not_allow_it_nothing_stands_apart(session: Session) -> None:
    apart = one(session)
    session.rows("update wherry.settings set payloads_apart = false")
    for door in DOORS[1:]:
        door(session)

    assert ids_apart(session) == {apart}
    assert session.value("select count(*) from wherry.live where payload is null") == 1
    leases = session.lease(10)
    assert [lease.payload for lease in leases] == [LARGE] * 5
    session.complete(*leases)
    session.rows("update wherry.settings set payloads_apart = true")
    ids = [lease.id for lease in leases]
    session.requeue(*ids)
    assert [lease.payload for lease in session.lease(10)] == [LARGE] * 5
    assert ids_apart(session) == {apart}


@pytest.mark.parametrize("apart", [True, False])
def test_pages_and_polls_count_it(session: Session, apart: bool) -> None:
    session.rows("update wherry.settings set payloads_apart = %s", apart)
    ids = [one(session) for _ in range(5)]
    size = session.value("select octet_length(payload::text) from wherry.tasks limit 1")

    def listed() -> list[int]:
        command = ListTasks(Filter(), limit=10, limit_bytes=size * 2 - 200)
        return [task.id for task in session.call(command).tasks]

    dealt = session.call(
        LeaseForPollers("default", None, (Poller("w", 30, 10),), limit_bytes=size * 2 - 200)
    )

    assert [lease.id for lease in dealt[0]] == ids[:2]
    assert [lease.payload for lease in dealt[0]] == [LARGE] * 2
    assert listed() == [ids[4], ids[3]]
    session.complete(*dealt[0], *session.lease(10))
    assert listed() == [ids[4], ids[3]]


def test_tasks_are_found_by_what_is_in_it(session: Session) -> None:
    id_ = one(session)
    session.enqueue(payload={"n": 2})

    def found(payload: dict[str, Any]) -> list[int]:
        page = session.call(ListTasks(Filter(payload_text=json.dumps(payload))))
        return [task.id for task in page.tasks]

    assert found({"deep": [{}]}) == [id_]
    session.complete(*session.lease(2))
    assert found({"n": 1e22}) == [id_]


def test_a_lease_that_is_lost_before_its_payload_is_read_runs_nothing(
    session: Session, other: Session
) -> None:
    id_ = one(session)

    def be_late() -> None:
        other.rows("update wherry.lease set expires_at = wherry.now()")
        other.rows("update wherry.live set max_attempts = 1")
        other.reap()
        assert other.purge(id_) == [id_]

    [lease] = session.call_around(
        LeaseTasks(queue="default", worker="w"), before="leases/read_payloads", act=be_late
    )

    with pytest.raises(DecodeError):
        _ = lease.payload

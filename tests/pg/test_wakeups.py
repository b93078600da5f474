"""An enqueue notifies only if somebody waits, once a queue and statement, once it has committed."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import sql

from tests.facts import wait_for
from tests.pg.doors import DOORS, Door
from tests.pg.support import OpenSession, Session, spec
from wherry.commands.maintenance import ParkTasks, UnparkTasks
from wherry.commands.tasks import EnqueueTasks
from wherry.commands.workers import (
    EVERY_QUEUE,
    BeatWorker,
    GetChannel,
    TransactionsEnded,
    WaitForTasks,
)
from wherry.testing import Clock

ONE = "00000000-0000-4000-8000-000000000001"
TWO = "00000000-0000-4000-8000-000000000002"


class Listener:
    """A session that listens on our channel, and tells what arrived."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.channel = session.call(GetChannel())
        session.connection.execute(sql.SQL("listen {}").format(sql.Identifier(self.channel)))

    def heard(self) -> list[str]:
        """Return the queues that were notified since the last look.

        A notification of our own comes last, so that nothing can still be on its way.
        """
        self.session.rows("select pg_notify(%s, 'end')", self.channel)
        found: list[str] = []
        for notification in self.session.connection.notifies(timeout=10):
            if notification.payload == "end":
                break
            found.append(notification.payload)
        return found


@pytest.fixture
def listener(open_session: OpenSession) -> Listener:
    return Listener(open_session())


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def door(request: pytest.FixtureRequest) -> Any:
    return request.param


def wait(session: Session, *queues: str, seconds: float = 30.0, instance: str = ONE) -> int:
    return session.call(WaitForTasks(instance, queues or ("default",), seconds))


def test_a_busy_system_never_notifies(session: Session, listener: Listener, door: Door) -> None:
    """LN-08."""
    door(session)
    session.enqueue_many(*(spec() for _ in range(10)))
    session.fail(session.lease_one())
    session.release(session.lease_one())

    assert listener.heard() == []


def test_whoever_waits_for_the_queue_or_for_every_queue_is_notified(
    session: Session, listener: Listener, door: Door
) -> None:
    wait(session, "a")
    door(session, queue="a")
    door(session, queue="b")
    assert listener.heard() == ["a"]

    wait(session, EVERY_QUEUE)

    door(session, queue="b")
    assert listener.heard() == ["b"]


def test_a_wait_that_is_over_is_none(
    session: Session, listener: Listener, clock: Clock, door: Door
) -> None:
    wait(session, seconds=10)
    clock.advance(seconds=11)

    door(session)

    assert listener.heard() == []


def test_one_notification_for_each_queue_and_statement(
    session: Session, listener: Listener
) -> None:
    wait(session, "a", "b")
    wait(session, "a", "b", instance=TWO)

    session.enqueue_many(*(spec(queue=queue) for queue in "abcabcab"))

    assert sorted(listener.heard()) == ["a", "b"]


def test_a_thousand_enqueues_of_plain_sql_in_a_statement_notify_once(
    session: Session, listener: Listener
) -> None:
    wait(session)

    session.rows("select count(wherry.enqueue('default', 't')) from generate_series(1, 1000)")

    assert listener.heard() == ["default"]


def test_nothing_is_heard_of_what_is_rolled_back(
    session: Session, listener: Listener, door: Door
) -> None:
    wait(session)
    session.begin()
    door(session)
    session.rollback()
    assert listener.heard() == []
    session.begin()
    door(session)
    assert listener.heard() == []

    session.commit()

    assert listener.heard() == ["default"]


def test_a_key_that_is_known_notifies_nobody(
    session: Session, listener: Listener, door: Door
) -> None:
    session.enqueue(key="k")
    wait(session)

    door(session, key="k")

    assert listener.heard() == []


def test_a_delayed_task_notifies_only_if_it_is_due_within_five_seconds(
    session: Session, listener: Listener, door: Door
) -> None:
    wait(session)
    door(session, delay=6)
    assert listener.heard() == []

    door(session, delay=4)

    assert listener.heard() == ["default"]


def test_without_notify_nobody_is_notified(session: Session, listener: Listener) -> None:
    wait(session)

    session.call(EnqueueTasks((spec(),), notify=False))
    session.rows("select wherry.enqueue('default', 't', notify => false)")

    assert listener.heard() == []


def test_whatever_becomes_ready_notifies(
    session: Session, listener: Listener, clock: Clock
) -> None:
    wait(session, seconds=10_000)
    id_ = session.enqueue(delay=60)
    clock.advance(seconds=61)
    session.promote()
    assert listener.heard() == ["default"]
    session.fail(session.lease_one(), after=60)
    assert listener.heard() == []
    clock.advance(seconds=61)
    session.promote()
    assert listener.heard() == ["default"]
    session.fail(session.lease_one())
    assert listener.heard() == ["default"]
    session.release(session.lease_one())
    assert listener.heard() == ["default"]
    session.complete(session.lease_one())
    session.requeue(id_)
    assert listener.heard() == ["default"]
    session.call(BeatWorker(instance=ONE, name="w", host="h", pid=1, queues=None, types=("u",)))
    session.call(ParkTasks("default"))
    assert listener.heard() == []
    session.call(BeatWorker(instance=ONE, name="w", host="h", pid=1, queues=None, types=("t",)))
    session.call(UnparkTasks())
    assert listener.heard() == ["default"]


def test_each_schema_has_a_channel_of_its_own(session: Session) -> None:
    channel = session.call(GetChannel())

    assert channel.startswith("wherry_")
    assert len(channel) == len("wherry_") + 32


def test_transactions_that_were_under_way_when_the_wait_began_are_waited_for(
    session: Session, other: Session, listener: Listener
) -> None:
    other.begin()
    other.enqueue(queue="elsewhere")
    horizon = wait(session)
    assert session.call(TransactionsEnded(horizon)) is False

    other.commit()

    # Other databases of the server have transactions too.
    wait_for(lambda: session.call(TransactionsEnded(horizon)))
    assert listener.heard() == []


def test_a_transaction_that_began_before_others_could_see_the_wait_is_waited_for(
    session: Session, other: Session, listener: Listener
) -> None:
    command = WaitForTasks(ONE, ("default",), 30.0)

    def act() -> None:
        # The mark is written, and nobody can see it yet.
        other.begin()
        other.enqueue()
        session.commit()

    session.begin()
    horizon = session.call_around(command, before="workers/draw_horizon", act=act)

    assert session.call(TransactionsEnded(horizon)) is False
    other.commit()
    wait_for(lambda: session.call(TransactionsEnded(horizon)))
    assert listener.heard() == []
    assert len(session.lease()) == 1


def test_an_old_snapshot_that_cannot_see_the_wait_costs_a_poll_and_no_task(
    session: Session, other: Session, listener: Listener
) -> None:
    other.begin("repeatable read")
    other.rows("select 1 from wherry.settings")
    wait(session)
    other.enqueue()

    other.commit()

    assert listener.heard() == []
    assert len(session.lease()) == 1

"""In which queues tasks are, by their ids alone."""

from __future__ import annotations

from tests.pg.support import Session
from wherry.commands.tasks import QueuesOf


def test_live_and_finished_tasks_are_found_in_the_order_asked_for(session: Session) -> None:
    live, done = session.enqueue(queue="a"), session.enqueue(queue="b")
    session.complete(session.lease_one(queue="b"))

    assert session.call(QueuesOf((done, 10**9, live, done))) == ["b", None, "a", "b"]


def test_no_ids_have_no_queues(session: Session) -> None:
    assert session.call(QueuesOf(())) == []

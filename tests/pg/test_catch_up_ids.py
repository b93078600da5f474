"""A sequence that a restore has left behind: moved on before, or as soon as, an id is taken."""

from __future__ import annotations

import wherry
from tests.pg.support import Session
from wherry.commands.maintenance import CatchUpIds


def test_ids_in_order_are_left_alone(session: Session) -> None:
    session.enqueue()
    session.complete(session.lease_one())
    last = session.enqueue()

    assert session.call(CatchUpIds()) is None
    assert session.enqueue() == last + 1


def test_ids_go_on_past_every_task_that_waits_or_has_ended(session: Session) -> None:
    ids = [session.enqueue() for _ in range(3)]
    session.complete(*session.lease(2))
    session.rows("select setval('wherry.task_id', 1, false)")

    moved = session.call(CatchUpIds())

    assert moved is not None
    assert moved > max(ids)
    assert session.enqueue() == moved + 1
    assert session.call(CatchUpIds()) is None


def test_ids_go_on_past_the_last_that_has_ended(session: Session) -> None:
    waiting, ended = session.enqueue(), session.enqueue(priority=1)
    session.complete(session.lease_one())
    session.rows("select setval('wherry.task_id', %s)", waiting)

    moved = session.call(CatchUpIds())

    assert moved is not None
    assert moved > ended


def test_maintenance_moves_ids_on_before_anybody_meets_one(
    app: wherry.App, session: Session
) -> None:
    ids = [session.enqueue() for _ in range(20)]
    session.rows("select setval('wherry.task_id', 1, false)")

    app.reap()

    assert session.value("select id from wherry.enqueue('default', 't')") > max(ids)

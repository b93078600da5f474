"""The audit: a row if and only if the change happened, kept for as long as the settings say."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.pg.support import Session
from wherry.commands.audit import (
    MOST_NAMED,
    Actor,
    Audited,
    AuditEntry,
    ListAudit,
    PruneAudit,
    audited,
)
from wherry.commands.base import Answer, Command, Statement
from wherry.commands.queues import ListQueues, PauseQueue, ResumeQueue
from wherry.commands.tasks import CancelTasks, EnqueueTasks, PurgeTasks, RequeueTasks
from wherry.commands.tokens import RevokeToken
from wherry.commands.workers import DirectWorkers
from wherry.domain.task import Canceled
from wherry.domain.worker import Directive
from wherry.testing import Clock

ME = Actor("me", "10.0.0.1", "because")


class Failing(Command[int]):
    """Cancels a task, and then sends what no database understands."""

    def __init__(self, id: int) -> None:
        self.id = id

    def answer(self) -> Answer[int]:
        yield from CancelTasks((self.id,)).answer()
        yield Statement("audit/note_change", dict.fromkeys(NOTE))
        return 1


NOTE = ("actor", "peer", "action", "target", "count", "reason")


def by_me(command: Command[Any]) -> Command[Any]:
    return audited(command, ME)


def entries(session: Session, **narrowed: Any) -> list[AuditEntry]:
    return session.call(ListAudit(**narrowed))


def test_a_change_answers_as_ever_and_leaves_a_row(session: Session) -> None:
    id = session.enqueue()

    answer = session.call(by_me(CancelTasks((id, 4711))))

    assert answer == [Canceled.CANCELED, Canceled.UNKNOWN]
    [entry] = entries(session)
    assert (entry.actor, entry.peer, entry.reason) == ("me", "10.0.0.1", "because")
    assert (entry.action, entry.target, entry.count) == ("cancel_tasks", {"ids": [id, 4711]}, 1)
    assert session.value("select at = wherry.now() or at < wherry.now() from wherry.audit")


def test_a_change_that_fails_leaves_neither_a_change_nor_a_row(session: Session) -> None:
    id = session.enqueue()
    failing = Audited(inner=Failing(id), actor=ME, action="x", target={}, count=lambda n: n)

    with pytest.raises(psycopg.errors.NotNullViolation):
        session.call(failing)

    assert session.task(id).state == "queued"
    assert entries(session) == []


def test_a_row_that_cannot_be_written_takes_the_change_back(session: Session) -> None:
    id = session.enqueue()
    session.rows("alter table wherry.audit add constraint never check (false)")

    with pytest.raises(psycopg.errors.CheckViolation):
        session.call(by_me(CancelTasks((id,))))

    assert session.task(id).state == "queued"


def test_change_and_row_are_seen_together(session: Session, other: Session) -> None:
    id = session.enqueue()
    session.begin()
    session.call(by_me(CancelTasks((id,))))

    before = (other.task(id).state, entries(other))
    session.commit()

    assert before == ("queued", [])
    assert (other.task(id).state, len(entries(other))) == ("canceled", 1)


def test_a_row_goes_with_the_transaction_of_the_caller(session: Session) -> None:
    id = session.enqueue()
    session.begin()
    session.call(by_me(CancelTasks((id,))))

    session.rollback()

    assert entries(session) == []


async def test_an_app_makes_one_transaction_of_both(app: wherry.App) -> None:
    id = (await app.aenqueue("t")).id
    app.actor = ME

    await app.acancel(id, reason="of the task itself")

    [entry] = await app.acarry(ListAudit())
    # The actor's own reason, if there is one.
    assert (entry.reason, entry.count) == ("because", 1)


def test_what_counts_is_what_was_changed(session: Session) -> None:
    done, waits = session.enqueue(), session.enqueue()
    session.cancel(done)

    session.call(by_me(RequeueTasks((done, waits), without_key=True)))
    session.cancel(done)
    session.call(by_me(PurgeTasks((done, waits, 4711))))
    session.call(by_me(PauseQueue("default", "me", "flood")))
    session.call(by_me(PauseQueue("default")))
    session.call(by_me(ResumeQueue("default")))
    session.call(by_me(DirectWorkers(("w",), Directive.DRAIN)))
    session.call(by_me(RevokeToken("nobody")))

    assert [(e.action, e.target, e.count) for e in reversed(entries(session))] == [
        ("requeue_tasks", {"ids": [done, waits], "without_key": True}, 1),
        ("purge_tasks", {"ids": [done, waits, 4711]}, 1),
        ("pause_queue", {"queue": "default"}, 1),
        ("pause_queue", {"queue": "default"}, 0),
        ("resume_queue", {"queue": "default"}, 1),
        ("direct_workers", {"names": ["w"], "directive": "drain"}, 0),
        ("revoke_token", {"named": "nobody"}, 0),
    ]


def test_the_reason_is_that_of_the_command_if_the_actor_says_none(session: Session) -> None:
    session.call(audited(CancelTasks((1,), "a mistake"), Actor("me")))
    session.call(audited(PurgeTasks((1,)), Actor("me")))

    assert [entry.reason for entry in entries(session)] == [None, "a mistake"]


def test_what_is_no_change_by_hand_is_carried_as_it_is() -> None:
    cancel = CancelTasks((1,))

    assert audited(ListQueues(), ME) == ListQueues()
    assert isinstance(audited(EnqueueTasks(()), ME), EnqueueTasks)
    assert audited(cancel, None) is cancel


def test_a_caller_adds_to_what_the_target_says(session: Session) -> None:
    session.call(audited(PurgeTasks((1,)), ME, filter={"queue": "q", "state": ["dead"]}))

    [entry] = entries(session)
    assert entry.target == {"ids": [1], "filter": {"queue": "q", "state": ["dead"]}}


def test_a_target_names_only_so_many_ids(session: Session) -> None:
    session.call(by_me(CancelTasks(tuple(range(1, MOST_NAMED + 8)))))

    [entry] = entries(session)
    assert len(entry.target["ids"]) == MOST_NAMED
    assert entry.target["more"] == 7


def test_names_that_json_writes_as_escapes_come_back_equal(session: Session) -> None:
    odd = 'é\u202e"\\ \U0001f600'
    session.call(audited(PurgeTasks((1,)), ME, queue=odd))

    [entry] = entries(session)
    assert entry.target["queue"] == odd
    assert json.loads(session.value("select target::text from wherry.audit"))["queue"] == odd


def test_what_is_sent_again_stays_a_change_by_the_same_actor() -> None:
    first = Audited(inner=EnqueueTasks(()), actor=ME, action="x", target={}, count=len)

    again = first.again()

    assert isinstance(again, Audited)
    assert again.inner == EnqueueTasks((), resent=True)
    assert again.actor == ME


def test_rows_are_listed_newest_first_page_by_page(session: Session) -> None:
    for id in range(1, 6):
        session.call(audited(PurgeTasks((id,)), Actor("a" if id % 2 else "b")))

    first = entries(session, limit=2)
    second = entries(session, limit=2, after=first[-1].id)

    assert [e.target["ids"] for e in first + second] == [[5], [4], [3], [2]]
    assert [e.target["ids"] for e in entries(session, actor="b")] == [[4], [2]]
    assert entries(session, action="cancel_tasks") == []


def test_rows_are_kept_for_as_long_as_the_settings_say(session: Session, clock: Clock) -> None:
    session.call(by_me(PurgeTasks((1,))))
    clock.advance(days=300)
    session.call(by_me(PurgeTasks((2,))))
    clock.advance(days=70)

    more = session.call(PruneAudit())

    assert more is False
    assert [entry.target["ids"] for entry in entries(session)] == [[2]]
    session.rows("update wherry.settings set keep_audit = interval '1 hour'")
    session.call(PruneAudit())
    assert entries(session) == []


def test_pruning_goes_in_batches_and_passes_over_what_is_locked(
    session: Session, other: Session, clock: Clock
) -> None:
    for id in range(1, 6):
        session.call(by_me(PurgeTasks((id,))))
    clock.advance(days=400)
    other.begin()
    other.rows("select 1 from wherry.audit where id = 1 for update")

    answers = [session.call(PruneAudit(batch=2)) for _ in range(3)]

    assert answers == [True, True, False]
    assert [entry.target["ids"] for entry in entries(session)] == [[1]]
    other.commit()


async def test_maintenance_prunes_the_audit(app: wherry.App, clock: Clock) -> None:
    app.actor = ME
    await app.acancel_many([1])
    clock.advance(timedelta(days=400))

    await app.areap()

    assert await app.acarry(ListAudit()) == []

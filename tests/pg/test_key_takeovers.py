"""What may happen to an ended key while it is being looked at and taken over.

The library looks at a key whose task has ended in a statement of its own, and only then takes it
over: between the two everything may happen. The answer must be one living task all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.pg.doors import DOORS, Door
from tests.pg.support import Session, result_of, spec
from wherry.commands.tasks import EnqueueTasks

Start = Callable[..., Future[Any]]
UntilBlocked = Callable[[Session, Session], None]


@pytest.fixture(params=DOORS, ids=lambda door: str(door.__name__))
def door(request: pytest.FixtureRequest) -> Any:
    return request.param


def end(session: Session) -> None:
    session.complete(*session.lease(9))


@pytest.mark.parametrize("how", ["purge", "forget"])
def test_a_key_row_deleted_between_the_look_and_the_takeover_stores_one_task(
    session: Session,
    other: Session,
    start: Start,
    until_blocked: UntilBlocked,
    door: Door,
    how: str,
) -> None:
    old = session.enqueue(key="k", key_ttl=0)
    end(session)
    other.begin()
    if how == "purge":
        other.purge(old)
    else:
        other.rows("delete from wherry.key")
    call = start(door, session, key="k")
    until_blocked(session, other)

    other.commit()

    assert result_of(call).created
    assert door(session, key="k").id == result_of(call).id
    assert session.value("select count(*) from wherry.live") == 1


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("meanwhile", ["taken over", "taken over and ended", "requeued", "purged"])
def test_whatever_happens_to_an_ended_key_between_two_looks_its_answer_is_one_living_task(
    session: Session, other: Session, meanwhile: str, batch: bool
) -> None:
    old = session.enqueue(key="k", key_ttl=0)
    end(session)
    seen: list[int] = []

    def act() -> None:
        if meanwhile == "requeued":
            other.requeue(old)
            seen.append(old)
        elif meanwhile == "purged":
            other.purge(old)
        else:
            seen.append(other.enqueue(key="k", key_ttl=0))
            if meanwhile == "taken over and ended":
                end(other)
                seen.clear()

    command = EnqueueTasks((spec(key="k"), spec(key="l"))[: 1 + batch])
    answer = session.call_around(command, before="tasks/resolve_keys", act=act)[0]

    assert answer.created is not bool(seen)
    assert answer.id in (seen or [answer.id])
    assert session.rows("select id from wherry.live where key = 'k'") == [(answer.id,)]
    assert session.value("select task_id from wherry.key where key = 'k'") == answer.id


@pytest.mark.parametrize("meanwhile", ["taken over", "requeued", "purged"])
def test_whatever_happens_to_a_free_key_between_look_and_takeover_there_is_one_living_task(
    session: Session, other: Session, meanwhile: str
) -> None:
    old = session.enqueue(key="k", key_ttl=0)
    end(session)

    def act() -> None:
        match meanwhile:
            case "requeued":
                other.requeue(old)
            case "purged":
                other.purge(old)
            case _:
                other.enqueue(key="k")

    # The first sending finds the key ended, and the look finds it free.
    command = EnqueueTasks((spec(key="k"),))
    answer = session.call_around(command, before="tasks/enqueue_tasks", act=act, nth=2)[0]

    assert session.rows("select id from wherry.live where key = 'k'") == [(answer.id,)]
    assert session.value("select task_id from wherry.key where key = 'k'") == answer.id
    assert answer.created is (meanwhile == "purged")

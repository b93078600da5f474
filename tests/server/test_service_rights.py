"""Who may do what, through the service: by right, and by queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import wherry
from wherry.domain.failure import Failure
from wherry.domain.lease import Reported
from wherry.domain.task import Canceled, Enqueued
from wherry.domain.worker import Directive
from wherry.errors import NotFound, PermissionDenied
from wherry.server.caller import ANYBODY, Caller, Right
from wherry.server.service import Answered, Asked, Service, Told
from wherry.wire.lease_token import write_lease_token

BOOM = Failure("ValueError", "boom", "")
Verb = Callable[[Service, Caller, str], Coroutine[Any, Any, Any]]

# Every verb that needs a right, as it is called about the queue `mail`, with a lease of that queue.
VERBS: dict[str, tuple[Right, Verb]] = {
    "enqueue": (
        Right.ENQUEUE,
        lambda s, c, _: s.enqueue(c, task=Asked("t", options={"queue": "mail"})),
    ),
    "lease": (Right.WORK, lambda s, c, _: s.lease(c, worker="w", queues=["mail"])),
    "complete": (Right.WORK, lambda s, c, lease: s.complete(c, lease=lease)),
    "fail": (Right.WORK, lambda s, c, lease: s.fail(c, lease=lease, failure=BOOM)),
    "snooze": (Right.WORK, lambda s, c, lease: s.snooze(c, lease=lease, delay=1)),
    "release": (Right.WORK, lambda s, c, lease: s.release(c, lease=lease)),
    "leave_worker": (Right.WORK, lambda s, c, _: s.leave_worker(c, worker="w")),
    "get_task": (Right.READ, lambda s, c, _: s.get_task(c, queue="mail", key="k")),
    "list_tasks": (Right.READ, lambda s, c, _: s.list_tasks(c, queue="mail")),
    "list_queues": (Right.READ, lambda s, c, _: s.list_queues(c)),
    "list_workers": (Right.READ, lambda s, c, _: s.list_workers(c)),
    "cancel_tasks": (Right.ADMIN, lambda s, c, _: s.cancel_tasks(c, filter={"queue": "mail"})),
    "requeue_tasks": (Right.ADMIN, lambda s, c, _: s.requeue_tasks(c, filter={"queue": "mail"})),
    "purge_tasks": (Right.ADMIN, lambda s, c, _: s.purge_tasks(c, filter={"queue": "mail"})),
    "pause_queue": (Right.ADMIN, lambda s, c, _: s.pause_queue(c, queue="mail")),
    "resume_queue": (Right.ADMIN, lambda s, c, _: s.resume_queue(c, queue="mail")),
    "pause_type": (Right.ADMIN, lambda s, c, _: s.pause_type(c, type="t", queue="mail")),
    "resume_type": (Right.ADMIN, lambda s, c, _: s.resume_type(c, type="t", queue="mail")),
    "list_paused_types": (Right.READ, lambda s, c, _: s.list_paused_types(c)),
    "set_queue_limits": (
        Right.ADMIN,
        lambda s, c, _: s.set_queue_limits(c, queue="mail", max_running=3),
    ),
}
# The same about a queue that the caller has no business with.
OF_ONE_QUEUE = sorted(
    VERBS.keys() - {"leave_worker", "list_queues", "list_workers", "list_paused_types"}
)


def caller(*rights: Right, queues: tuple[str, ...] = ("mail",)) -> Caller:
    return Caller("somebody", frozenset(rights), queues, token_id="t1", peer="10.0.0.1")


@pytest.fixture
async def lease(service: Service) -> str:
    await service.enqueue(ANYBODY, task=Asked("t", options={"queue": "mail", "key": "k"}))
    [lease] = (await service.lease(ANYBODY, worker="w", queues=["mail"])).leases
    return write_lease_token(lease)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_needs_its_right_and_no_other(service: Service, lease: str, verb: str) -> None:
    right, call = VERBS[verb]
    others = [each for each in Right if each is not right]

    with pytest.raises(PermissionDenied, match=f"the right {right}"):
        await call(service, caller(*others), lease)

    await call(service, caller(right), lease)


@pytest.mark.parametrize("verb", OF_ONE_QUEUE)
async def test_a_right_holds_for_the_queues_of_the_token(
    service: Service, lease: str, verb: str
) -> None:
    _, call = VERBS[verb]

    with pytest.raises(PermissionDenied, match="on queue 'mail'"):
        await call(service, caller(*Right, queues=("print", "mail.*")), lease)


@pytest.mark.parametrize(
    "call",
    [
        lambda s, c: s.lease(c, worker="w", queues=["mail", "*"]),
        lambda s, c: s.list_tasks(c),
        lambda s, c: s.cancel_tasks(c, filter={"type": "t"}),
        lambda s, c: s.direct_workers(c, names=["w"], directive=Directive.DRAIN),
    ],
)
async def test_what_is_about_every_queue_needs_all_of_them(
    service: Service, call: Callable[[Service, Caller], Coroutine[Any, Any, Any]]
) -> None:
    with pytest.raises(PermissionDenied, match=r"on all queues \('\*'\)"):
        await call(service, caller(*Right, queues=("m*", "?")))

    await call(service, caller(*Right, queues=("*",)))


@pytest.mark.parametrize("queue", ["mail", None])
async def test_who_may_not_pause_a_type_is_not_told_what_else_is_wrong(
    service: Service, queue: str | None
) -> None:
    for verb in (service.pause_type, service.resume_type):
        with pytest.raises(PermissionDenied):
            await verb(caller(Right.READ), type="", queue=queue)


async def test_one_queue_too_many_refuses_the_poll_and_leases_nothing(
    service: Service, app: wherry.App
) -> None:
    await app.aenqueue("t", queue="mail")

    with pytest.raises(PermissionDenied, match="on queue 'print'"):
        await service.lease(caller(Right.WORK), worker="w", queues=["mail", "print"])

    assert [depth.ready for depth in await app.alist_queues()] == [1]


async def test_in_a_batch_permission_is_denied_item_by_item(service: Service, lease: str) -> None:
    somebody = caller(Right.ENQUEUE, Right.WORK, queues=("print",))
    mail, print_ = ({"queue": queue} for queue in ("mail", "print"))

    stored = await service.enqueue_batch(
        somebody, tasks=[Asked("t", options=mail), Asked("t", options=print_)]
    )
    [told] = await service.report(somebody, outcomes=[Told(lease, "complete")])
    beaten = await service.heartbeat(somebody, leases=[lease])

    assert [type(each) for each in stored] == [PermissionDenied, Enqueued]
    assert isinstance(told, PermissionDenied)
    assert isinstance(beaten.answers[0].answer, PermissionDenied)
    # And the lease is as it was.
    assert await service.report(ANYBODY, outcomes=[Told(lease, "complete")]) == [
        Answered(Reported.DONE)
    ]


async def test_a_task_that_may_not_be_read_is_as_good_as_not_there(
    service: Service, app: wherry.App
) -> None:
    hidden = await app.aenqueue("t", queue="secret")
    somebody = caller(Right.READ, Right.ADMIN)

    for id in (hidden.id, 999_999):
        with pytest.raises(NotFound, match=f"task {id} is not in the database"):
            await service.get_task(somebody, id=id)
        with pytest.raises(NotFound, match=f"task {id} is not in the database"):
            await service.cancel_task(somebody, id=id)
    changed = await service.cancel_tasks(somebody, ids=[hidden.id, 999_999])

    assert [change.answer for change in changed.answers] == [Canceled.UNKNOWN] * 2
    task = await app.aget_task(hidden.id)
    assert task is not None
    assert task.state == "queued"


async def test_who_may_read_but_not_change_is_told_so(service: Service, app: wherry.App) -> None:
    task = await app.aenqueue("t", queue="mail")

    with pytest.raises(PermissionDenied, match="the right admin"):
        await service.cancel_task(caller(Right.READ), id=task.id)


async def test_listings_show_only_what_is_the_callers(service: Service, app: wherry.App) -> None:
    for queue in ("mail", "secret"):
        await app.aenqueue("t", queue=queue)

    depths = await service.list_queues(caller(Right.READ))

    assert [depth.queue for depth in depths] == ["mail"]

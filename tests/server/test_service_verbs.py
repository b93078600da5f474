"""Every verb of the service does what the library's does, and answers item by item."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from wherry.commands.audit import ListAudit
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Reported
from wherry.domain.retry import Fixed
from wherry.domain.task import Canceled, Enqueued, Purged, RequeueAnswer
from wherry.errors import (
    Busy,
    InvalidOption,
    InvalidPayload,
    InvalidTask,
    KeyTaken,
    LeaseLost,
    LimitReached,
    NotFound,
    WherryError,
)
from wherry.server.caller import ANYBODY, Caller, Right
from wherry.server.service import Answered, Asked, Service, Told
from wherry.wire.lease_token import write_lease_token

BOOM = Failure("ValueError", "boom", "")
Connect = Callable[..., psycopg.Connection[Any]]


async def leased(service: Service, n: int = 1, **options: Any) -> list[Lease]:
    tasks = [Asked("t", options=options)] * n
    await service.enqueue_batch(ANYBODY, tasks=tasks)
    queue = options.get("queue", "default")
    got = await service.lease(ANYBODY, worker="w", queues=[queue], max_tasks=n)
    assert len(got.leases) == n
    return got.leases


def token(lease: Lease) -> str:
    return write_lease_token(lease)


async def test_a_task_goes_through_a_server_from_enqueue_to_done(service: Service) -> None:
    enqueued = await service.enqueue(ANYBODY, task=Asked("shop.mail", '{"to": "a@b.c"}'))
    [lease] = (await service.lease(ANYBODY, worker="w")).leases

    answer = await service.complete(ANYBODY, lease=token(lease), result_text="[1, 2.50]")

    assert answer is Reported.DONE
    task = await service.get_task(ANYBODY, id=enqueued.id)
    assert (task.payload, task.result) == ({"to": "a@b.c"}, [1, 2.5])


async def test_every_option_arrives(service: Service) -> None:
    options = {
        "queue": "q", "key": "k", "priority": 7, "max_attempts": 3, "retry": Fixed(2),
        "timeout": 5.0, "tags": ["a", "b"], "headers": {"h": "v"},
    }  # fmt: skip
    await service.enqueue(ANYBODY, task=Asked("t", options=options))

    task = await service.get_task(ANYBODY, queue="q", key="k")

    assert (task.priority, task.max_attempts, task.timeout_seconds) == (7, 3, 5.0)
    assert (task.tags, task.headers) == (("a", "b"), {"h": "v"})
    assert task.retry == {"kind": "fixed", "delay": 2.0}


async def test_a_known_key_answers_with_the_first_task(service: Service) -> None:
    first = await service.enqueue(ANYBODY, task=Asked("t", '{"n": 1}', {"key": "k"}))

    # The same payload, written differently.
    again = await service.enqueue(ANYBODY, task=Asked("t", ' {"n" :1}', {"key": "k"}))
    other = await service.enqueue(ANYBODY, task=Asked("t", '{"n": 2}', {"key": "k"}))

    assert (again.id, again.created, again.payload_matches) == (first.id, False, True)
    assert (other.id, other.created, other.payload_matches) == (first.id, False, False)


async def test_a_bad_task_of_a_batch_spoils_no_other(service: Service) -> None:
    undecodable = InvalidOption("run_after", "soon", "is no moment")
    tasks: list[Asked | WherryError] = [
        Asked("t"),
        Asked("t", '{"a": 1, "a": 2}'),
        undecodable,
        Asked("t", options={"priority": 101}),
        Asked("t", options={"colour": "red"}),
        Asked("t", '{"last": true}'),
    ]

    answers = await service.enqueue_batch(ANYBODY, tasks=tasks)

    kinds = [type(answer) for answer in answers]
    assert kinds == [
        Enqueued, InvalidPayload, InvalidOption, InvalidOption, InvalidOption, Enqueued,
    ]  # fmt: skip
    last = answers[-1]
    assert isinstance(last, Enqueued)
    assert (await service.get_task(ANYBODY, id=last.id)).payload == {"last": True}


async def test_all_or_nothing_stores_nothing_and_names_the_bad_one(
    service: Service, app: wherry.App
) -> None:
    tasks = [Asked("t"), Asked("t", options={"priority": 101})]

    with pytest.raises(InvalidOption) as refused:
        await service.enqueue_batch(ANYBODY, tasks=tasks, all_or_nothing=True)

    assert refused.value.index == 1
    assert await app.alist_queues() == []


async def test_what_postgresql_refuses_spoils_no_other_task(
    service: Service, connect: Connect
) -> None:
    # What no check of ours can know.
    connect().execute(
        "alter table wherry.live add constraint no_two check (type <> 't2') not valid"
    )

    answers = await service.enqueue_batch(ANYBODY, tasks=[Asked(f"t{n}") for n in range(5)])

    assert [type(answer) for answer in answers] == [
        Enqueued, Enqueued, InvalidTask, Enqueued, Enqueued,
    ]  # fmt: skip


async def test_a_batch_has_a_limit(service: Service) -> None:
    with pytest.raises(LimitReached, match="1,001 tasks in one call; the limit is 1,000"):
        await service.enqueue_batch(ANYBODY, tasks=[Asked("t")] * 1001)


async def test_a_report_answers_item_by_item(service: Service) -> None:
    done, failed, bad, snoozed, released, canceled = await leased(service, 6)
    await service.complete(ANYBODY, lease=token(done))
    outcomes: list[Told | WherryError] = [
        Told(token(done), "complete"),
        Told(token(failed), "fail", failure=BOOM, retry_after=60),
        Told(token(bad), "complete", result_text="NaN"),
        Told(token(snoozed), "snooze", delay=5),
        Told("no lease", "complete"),
        Told(token(released), "release"),
        Told(token(canceled), "cancel", failure=BOOM),
        Told(token(snoozed), "snooze"),
        InvalidOption("outcomes[8]", None, "could not be read"),
    ]

    answers = await service.report(ANYBODY, outcomes=outcomes)

    told = [a.answer if isinstance(a, Answered) else type(a) for a in answers]
    assert told == [
        Reported.ALREADY_DONE, Reported.REQUEUED, InvalidPayload, Reported.REQUEUED, InvalidOption,
        Reported.REQUEUED, Reported.CANCELED, InvalidOption, InvalidOption,
    ]  # fmt: skip
    assert answers[1] == Answered(Reported.REQUEUED, 60.0)
    # The lease whose report was bad is as it was.
    assert await service.complete(ANYBODY, lease=token(bad)) is Reported.DONE


async def test_of_two_outcomes_of_one_lease_the_first_counts(service: Service) -> None:
    first, second = await leased(service, 2)
    outcomes = [
        Told(token(first), "fail", failure=BOOM, retry=False),
        Told(token(first), "complete"),
        Told(token(second), "complete"),
        Told(token(second), "complete"),
    ]

    answers = await service.report(ANYBODY, outcomes=outcomes)

    assert [a.answer for a in answers if isinstance(a, Answered)] == [
        Reported.FAILED, Reported.LOST, Reported.DONE, Reported.ALREADY_DONE,
    ]  # fmt: skip


async def test_what_postgresql_refuses_spoils_no_other_report(
    service: Service, connect: Connect
) -> None:
    leases = await leased(service, 5)
    # What no check of ours can know.
    connect().execute(
        "alter table wherry.finished add constraint no_two check (result::text <> '2') not valid"
    )

    answers = await service.report(
        ANYBODY, outcomes=[Told(token(each), "complete", str(n)) for n, each in enumerate(leases)]
    )

    told = [a.answer if isinstance(a, Answered) else type(a) for a in answers]
    assert told == [Reported.DONE, Reported.DONE, InvalidTask, Reported.DONE, Reported.DONE]


async def test_a_failure_waits_as_the_stored_policy_says(service: Service) -> None:
    [first] = await leased(service, retry=Fixed(33))
    [other] = await leased(service, queue="default-policy")

    told = await service.fail(ANYBODY, lease=token(first), failure=BOOM)
    by_default = await service.fail(ANYBODY, lease=token(other), failure=BOOM)

    assert told == Answered(Reported.REQUEUED, 33.0)
    assert by_default.retry_seconds is not None
    assert 0 <= by_default.retry_seconds <= 2
    assert (await service.get_task(ANYBODY, id=first.id)).error == "ValueError: boom"


async def test_a_lost_lease_is_an_error_where_one_is_reported(service: Service) -> None:
    [lease] = await leased(service)
    await service.release(ANYBODY, lease=token(lease))
    await service.lease(ANYBODY, worker="other")

    for call in (
        service.complete(ANYBODY, lease=token(lease)),
        service.fail(ANYBODY, lease=token(lease), failure=BOOM),
        service.snooze(ANYBODY, lease=token(lease), delay=1),
    ):
        with pytest.raises(LeaseLost, match="nothing was changed"):
            await call


async def test_who_settles_a_task_in_an_open_transaction_is_waited_for(
    service: Service, app: wherry.App, dsn: str
) -> None:
    [lease] = await leased(service)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await app.acomplete(lease, tx=connection)

        with pytest.raises(Busy):
            await service.complete(ANYBODY, lease=token(lease))
        [answer] = await service.report(ANYBODY, outcomes=[Told(token(lease), "complete")])
        assert answer == Answered(Reported.BUSY)
        waiting = asyncio.create_task(service.complete(ANYBODY, lease=token(lease)))
        await connection.commit()

    assert await waiting is Reported.ALREADY_DONE


async def test_a_heartbeat_answers_item_by_item(service: Service) -> None:
    held, asked, gone = await leased(service, 3)
    await service.cancel_task(ANYBODY, id=asked.id)
    await service.complete(ANYBODY, lease=token(gone))

    beaten = await service.heartbeat(
        ANYBODY, leases=[token(held), "nonsense", token(asked), token(gone)], extend_by=90
    )

    kinds = [a.answer if isinstance(a.answer, Reported) else type(a.answer) for a in beaten.answers]
    assert kinds == [Reported.EXTENDED, InvalidOption, Reported.CANCEL_REQUESTED, Reported.LOST]
    remaining = beaten.answers[0].remaining_seconds
    assert remaining is not None
    assert 85 < remaining <= 90
    assert beaten.answers[3].remaining_seconds is None


async def test_a_page_of_tasks_is_canceled_in_one_transaction_with_one_line_in_the_audit(
    service: Service, app: wherry.App
) -> None:
    operator = Caller("olga", frozenset(Right), ("*",), token_id="id", peer="10.0.0.7")
    await service.enqueue_batch(ANYBODY, tasks=[Asked("t", options={"tags": ["x"]})] * 5)

    first = await service.cancel_tasks(operator, filter={"tag": "x"}, limit=3, reason="a mistake")
    rest = await service.cancel_tasks(
        operator, filter={"tag": "x"}, limit=3, reason="a mistake", after=first.after
    )

    assert [change.answer for change in first.answers] == [Canceled.CANCELED] * 3
    assert (first.matched, rest.matched, rest.after) == (3, 2, None)
    second, one = await app.acarry(ListAudit())
    assert (one.actor, one.peer, one.action) == ("olga", "10.0.0.7", "cancel_tasks")
    assert (one.count, one.reason, second.count) == (3, "a mistake", 2)
    assert one.target["filter"]["tag"] == "x"
    assert one.target["ids"] == [change.id for change in first.answers]


async def test_a_dry_run_counts_and_changes_nothing(service: Service, app: wherry.App) -> None:
    stored = await service.enqueue(ANYBODY, task=Asked("t"))

    by_filter = await service.cancel_tasks(ANYBODY, filter={"type": "t"}, dry_run=True)
    by_ids = await service.cancel_tasks(ANYBODY, ids=[stored.id, 999], dry_run=True)

    assert (by_filter.matched, by_filter.answers) == (1, [])
    assert (by_ids.matched, by_ids.answers) == (1, [])
    assert (await service.get_task(ANYBODY, id=stored.id)).state == "queued"
    assert await app.acarry(ListAudit()) == []


@pytest.mark.parametrize("filter", [None, {}, {"state": ["queued"]}])
async def test_a_filter_has_to_narrow_by_more_than_states(
    service: Service, filter: dict[str, Any] | None
) -> None:
    with pytest.raises(InvalidOption, match="must narrow by more than states"):
        await service.cancel_tasks(ANYBODY, filter=filter)


async def test_finished_tasks_are_put_back_and_purged(service: Service) -> None:
    lease, other = await leased(service, 2, key=None)
    for each in (lease, other):
        await service.fail(ANYBODY, lease=token(each), failure=BOOM, retry=False)

    requeued = await service.requeue_tasks(ANYBODY, ids=[lease.id, 999])
    purged = await service.purge_tasks(ANYBODY, filter={"type": "t"}, reason="old")

    assert [change.answer for change in requeued.answers] == [
        RequeueAnswer.QUEUED, RequeueAnswer.UNKNOWN,
    ]  # fmt: skip
    assert [(c.id, c.answer) for c in purged.answers] == [(other.id, Purged.PURGED)]
    with pytest.raises(NotFound):
        await service.get_task(ANYBODY, id=other.id)


async def test_a_taken_key_is_told(service: Service) -> None:
    [lease] = await leased(service, key="k", key_ttl=0.0)
    await service.fail(ANYBODY, lease=token(lease), failure=BOOM, retry=False)
    taker = await service.enqueue(ANYBODY, task=Asked("t", options={"key": "k"}))

    with pytest.raises(KeyTaken) as taken:
        await service.requeue_task(ANYBODY, id=lease.id)

    assert taken.value.taken_by == taker.id
    again = await service.requeue_task(ANYBODY, id=lease.id, without_key=True)
    assert again.answer is RequeueAnswer.QUEUED


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(
    service: Service, app: wherry.App
) -> None:
    await service.enqueue(ANYBODY, task=Asked("t", options={"queue": "q"}))

    assert await service.pause_queue(ANYBODY, queue="q", reason="a fire")
    assert not await service.pause_queue(ANYBODY, queue="q")
    assert (await service.lease(ANYBODY, worker="w", queues=["q"])).leases == []
    [depth] = await service.list_queues(ANYBODY)
    assert (depth.paused_by, depth.pause_reason) == ("anonymous", "a fire")

    waiting = asyncio.create_task(service.lease(ANYBODY, worker="w", queues=["*"], wait=60))
    assert await service.resume_queue(ANYBODY, queue="q")
    assert len((await asyncio.wait_for(waiting, timeout=30)).leases) == 1
    actions = [entry.action for entry in await app.acarry(ListAudit())]
    assert actions == ["resume_queue", "pause_queue", "pause_queue"]


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ({"worker": ""}, "worker"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_tasks": 1001}, "max_tasks"),
        ({"max_last": -1}, "max_last"),
        ({"lease_for": 0}, "lease_for"),
        ({"lease_for": 86_401}, "lease_for"),
        ({"wait": 61}, "wait"),
        ({"confirm_within": 0.5}, "confirm_within"),
        ({"queues": ["a\0"]}, "queue"),
        ({"types": [""]}, "type"),
    ],
)
async def test_a_poll_is_checked(service: Service, asked: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        await service.lease(ANYBODY, **{"worker": "w", **asked})

    assert refused.value.option == option


async def test_the_server_tells_what_it_takes(service: Service) -> None:
    info = await service.server_info(ANYBODY)

    assert info.version == wherry.__version__
    assert (info.batch_limit, info.longest_wait_seconds) == (1000, 60.0)

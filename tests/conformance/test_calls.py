"""What an App's calls answer, and what they raise, is the same by either way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

import wherry
from tests.conformance.support import dead, get, leased
from tests.tasks.test_payload_round_trip import payloads
from tests.waiting import Waiting
from wherry import Canceled, Purged, Reported, RequeueAnswer
from wherry.domain.limits import QueueLimits
from wherry.domain.retry import Additive, Fixed, FullJitter
from wherry.domain.state import State

NOBODY = 10**9
NAMES = ("a", "%2F/..:", "ümläut \U0001f600", "\u202eright to left", "x" * 255)


# ── enqueue and read ──


async def test_every_option_arrives(app: wherry.App, database: wherry.App) -> None:
    run_after = datetime(2040, 1, 31, 12, 0, 0, 123456, UTC)

    made = await app.aenqueue(
        "mail.send",
        {"to": "ada"},
        queue="mail",
        priority=-7,
        max_attempts=3,
        run_after=run_after,
        retry=Additive(base=1.5, jitter=0.25, cap=90),
        timeout=timedelta(minutes=5),
        ttl=3600,
        key_ttl=0,
        key="k\t\u202e",
        tags=["a", "ü"],
        headers={"traceparent": "00-1", "ü": ""},
    )

    assert (made.created, made.payload_matches) == (True, True)
    task = await get(app, made.id)
    # Headers are the same, though not as text.
    plain = replace(task, headers_text=None)
    assert plain == replace(await get(database, made.id), headers_text=None)
    assert (task.queue, task.type, task.payload) == ("mail", "mail.send", {"to": "ada"})
    assert (task.priority, task.max_attempts, task.run_after) == (-7, 3, run_after)
    assert (task.timeout_seconds, task.key) == (300.0, "k\t\u202e")
    assert (task.tags, task.headers) == (("a", "ü"), {"traceparent": "00-1", "ü": ""})
    assert task.retry == {"kind": "additive", "base": 1.5, "jitter": 0.25, "cap": 90.0}
    assert task.state is State.QUEUED


@pytest.mark.parametrize("retry", [FullJitter(base=2, cap=8), Fixed(0.5)], ids=repr)
async def test_retry_policies_arrive(
    app: wherry.App, database: wherry.App, retry: FullJitter | Fixed
) -> None:
    id_ = (await app.aenqueue("t", retry=retry)).id

    assert (await get(app, id_)).retry == (await get(database, id_)).retry != None  # noqa: E711


async def test_delays_arrive(app: wherry.App) -> None:
    task = await get(app, (await app.aenqueue("t", delay=timedelta(hours=1))).id)

    wait = task.run_after - task.created_at
    assert timedelta(seconds=3599) < wait <= timedelta(seconds=3601)


async def test_a_key_names_one_task(app: wherry.App) -> None:
    first = await app.aenqueue("t", {"n": 1}, key="k")
    again = await app.aenqueue("t", {"n": 1}, key="k")
    other = await app.aenqueue("t", {"n": 2}, key="k")
    elsewhere = await app.aenqueue("t", {"n": 1}, key="k", queue="q")

    assert first.created
    assert (again.id, again.created, again.payload_matches) == (first.id, False, True)
    assert (other.id, other.created, other.payload_matches) == (first.id, False, False)
    assert elsewhere.created
    found = await app.aget_task(key="k")
    assert found is not None
    assert found.id == first.id


async def test_a_batch_is_stored_in_order_and_as_a_whole(app: wherry.App) -> None:
    made = await app.aenqueue_many(
        [
            {"type": "t", "payload": {"n": n}, "key": "same" if n in (3, 7) else None}
            for n in range(9)
        ]
    )

    assert [each.created for each in made] == [n != 7 for n in range(9)]
    assert made[7].id == made[3].id
    assert [(await get(app, each.id)).payload["n"] for each in made] == [0, 1, 2, 3, 4, 5, 6, 3, 8]
    assert await app.aenqueue_many([]) == []


async def test_nobody_is_woken_who_must_not_be(
    app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    waiting = Waiting(connect())

    await app.aenqueue("t", notify=False)
    await app.aenqueue_many([{"type": "t"}] * 2, notify=False)
    silent = waiting.heard()
    await app.aenqueue("t")

    assert (silent, waiting.heard()) == (0, 1)


async def test_nothing_of_a_bad_batch_is_stored(app: wherry.App) -> None:
    with pytest.raises(wherry.InvalidOption) as refused:
        await app.aenqueue_many([{"type": "t"}, {"type": "t", "priority": 101}])

    assert (refused.value.index, refused.value.option) == (1, "priority")
    assert (await app.alist_tasks()).tasks == ()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(payload=payloads)
async def test_payloads_come_back_as_the_very_same(
    app: wherry.App, payload: dict[str, Any]
) -> None:
    queue = "corpus"
    id_ = (await app.aenqueue("t", payload, queue=queue)).id
    [lease] = await app.alease(worker="w", queues=[queue])
    await app.acomplete(lease, result=payload)
    task = await get(app, id_)

    # repr tells True from 1, 1 from 1.0, and one order of keys from another.
    assert repr(lease.payload) == repr(payload)
    assert repr(task.payload) == repr(payload)
    assert repr(task.result) == repr(payload)


async def test_what_is_read_of_a_task_is_the_same_through_a_server(
    app: wherry.App, database: wherry.App
) -> None:
    """Whatever state it is in."""
    ended = await dead(app)
    lease = await leased(app)
    assert await app.acancel(lease.id, reason="why\n") is Canceled.REQUESTED
    queued = (await app.aenqueue("t")).id

    for id_ in (ended, lease.id, queued):
        assert await get(app, id_) == await get(database, id_)
    assert await app.alist_tasks() == await database.alist_tasks()
    assert await app.aget_task(NOBODY) is None


async def test_lists_are_narrowed_and_come_in_pages(app: wherry.App) -> None:
    mine = [(await app.aenqueue("t", queue="mine", tags=["x"])).id for _ in range(5)]
    error = await dead(app)
    await app.aenqueue("t")

    first = await app.alist_tasks(queue="mine", limit=3)
    rest = await app.alist_tasks(queue="mine", limit=3, after=first.after)

    assert [task.id for task in first.tasks + rest.tasks] == mine[::-1]
    assert rest.after is None
    assert {task.id for task in (await app.alist_tasks(tag="x")).tasks} == set(mine)
    assert [task.id for task in (await app.alist_tasks(state="dead", error="NO")).tasks] == [error]
    assert (await app.alist_tasks(older_than=3600)).tasks == ()
    assert (await app.alist_tasks(type="other")).tasks == ()


async def test_queues_are_counted_paused_and_resumed(app: wherry.App) -> None:
    await app.aenqueue("t", queue="q")
    await app.aenqueue("t", queue="q", delay=60)

    assert await app.apause_queue("q", reason="a leak")
    assert not await app.apause_queue("q")
    [depth] = [depth for depth in await app.alist_queues() if depth.queue == "q"]
    assert (depth.ready, depth.delayed, depth.leased, depth.pause_reason) == (1, 1, 0, "a leak")
    assert depth.paused_at is not None
    assert await app.alease(worker="w", queues=["q"]) == []
    assert await app.aresume_queue("q")
    assert not await app.aresume_queue("q")
    assert len(await app.alease(worker="w", queues=["q"])) == 1


# ── by hand ──


async def test_answers_come_in_the_order_of_the_ids(app: wherry.App) -> None:
    over = await dead(app)
    queued = (await app.aenqueue("t")).id

    canceled = await app.acancel_many([NOBODY, queued, over, NOBODY], reason="r")
    requeued = await app.arequeue_many([NOBODY, over, over])
    purged = await app.apurge_many([queued, NOBODY, over, queued])

    unknown, final = Canceled.UNKNOWN, Canceled.FINAL
    assert canceled == [unknown, Canceled.CANCELED, final, unknown]
    assert [(each.id, each.answer) for each in requeued] == [
        (NOBODY, RequeueAnswer.UNKNOWN),
        (over, RequeueAnswer.QUEUED),
        (over, RequeueAnswer.QUEUED),
    ]
    assert purged == [Purged.PURGED, Purged.UNKNOWN, Purged.NOT_FINAL, Purged.PURGED]
    assert await app.acancel_many([]) == []


async def test_a_key_that_was_taken_is_told(app: wherry.App) -> None:
    over = await dead(app, key="k", key_ttl=0)
    taken_by = (await app.aenqueue("t", key="k")).id

    with pytest.raises(wherry.KeyTaken) as refused:
        await app.arequeue(over)

    assert (refused.value.task_id, refused.value.key) == (over, "k")
    assert refused.value.taken_by == taken_by
    assert (await app.arequeue(over, without_key=True)).answer is RequeueAnswer.QUEUED


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.acancel(NOBODY),
        lambda app: app.arequeue(NOBODY),
        lambda app: app.apurge(NOBODY),
        lambda app: app.aresult(NOBODY, timeout=1),
    ],
    ids=["cancel", "requeue", "purge", "result"],
)
async def test_an_id_that_names_no_task_is_told(
    app: wherry.App, call: Callable[[wherry.App], Any]
) -> None:
    with pytest.raises(wherry.NotFound) as refused:
        await call(app)

    assert refused.value.task_id == NOBODY


async def test_results_are_waited_for(app: wherry.App) -> None:
    lease = await leased(app)
    with pytest.raises(TimeoutError):
        await app.aresult(lease.id, timeout=0.05)
    await app.acomplete(lease, result=[1, "x"])
    assert await app.aresult(lease.id, timeout=5) == [1, "x"]

    with pytest.raises(wherry.TaskDead, match="no"):
        await app.aresult(await dead(app), timeout=5)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_names_are_data(app: wherry.App, name: str) -> None:
    made = await app.aenqueue(name, queue=name, key=name, tags=[name])

    [lease] = await app.alease(worker=name, queues=[name], types=[name])

    task = await get(app, made.id)
    assert (lease.queue, lease.type, lease.key, lease.tags) == (name, name, name, [name])
    assert (task.queue, task.type, task.key, task.tags) == (name, name, name, (name,))
    assert task.worker == name


@pytest.mark.parametrize(
    ("options", "blamed"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "*"}, "queue"),
        ({"key": "\0"}, "key"),
        ({"priority": 101}, "priority"),
        ({"delay": -1}, "delay"),
        ({"max_attempts": 0}, "max_attempts"),
    ],
    ids=str,
)
async def test_bad_options_are_refused_alike(
    app: wherry.App, options: dict[str, Any], blamed: str
) -> None:
    with pytest.raises(wherry.InvalidOption) as refused:
        await app.aenqueue("t", **options)

    assert refused.value.option == blamed


async def test_the_blocking_forms_do_the_same(app: wherry.App) -> None:
    def calls() -> list[Any]:
        made = app.enqueue("t", {"n": 1})
        [lease] = app.lease(worker="w", wait=5)
        beaten = app.heartbeat([lease])
        done = app.complete(lease, result=5)
        task = app.get_task(made.id)
        assert task is not None
        app.close()
        return [lease.id == made.id, beaten, done, task.state, task.result]

    got = await asyncio.to_thread(calls)

    assert got == [True, [Reported.EXTENDED], Reported.DONE, State.SUCCEEDED, 5]


async def test_limits_of_a_queue_are_set_told_and_lifted(app: wherry.App) -> None:
    for _ in range(4):
        await app.aenqueue("t", queue="q")

    assert await app.aset_queue_limits("q", max_running=2, rate=100, per=60, reason="a leak")
    assert not await app.aset_queue_limits("q", max_running=2, rate=100, per=60)
    assert len(await app.alease(worker="w", queues=["q"], max_tasks=9)) == 2
    assert await app.alease(worker="w", queues=["q"]) == []
    [depth] = [depth for depth in await app.alist_queues() if depth.queue == "q"]
    assert (depth.leased, depth.limits) == (2, QueueLimits(2, 100, 60.0, 2))
    waits = (await app.alist_tasks(state="queued", queue="q")).tasks[0].id
    assert "limit_reached" in [each.code for each in (await app.awhy(waits)).reasons]
    assert await app.aset_queue_limits("q", max_running=2)
    assert await app.aset_queue_limits("q")
    assert not await app.aset_queue_limits("q")
    assert len(await app.alease(worker="w", queues=["q"], max_tasks=9)) == 2


async def test_who_resumes_is_told_what_stays_paused(app: wherry.App) -> None:
    for type, queue in (("a", "q"), ("a", None), ("b", "q"), ("c", "q2")):
        await app.apause_type(type, queue=queue, reason="a flood")
    await app.apause_queue("q", reason="mending")

    of_type = await app.aresume_type("a", queue="q")
    everywhere = await app.aresume_type("a")
    not_there = await app.aresume_type("c", queue="q")
    of_queue = await app.aresume_queue("q")
    last = await app.aresume_type("b", queue="q")

    assert of_type.changed
    assert [(each.type, each.queue) for each in of_type.still_paused] == [("a", None)]
    assert of_type.still_paused[0].reason == "a flood"
    assert of_type.queue_pause is not None
    assert of_type.queue_pause.reason == "mending"
    assert everywhere == wherry.Resumed(True)
    assert not not_there
    assert [each.queue for each in not_there.still_paused] == ["q2"]
    assert not_there.queue_pause == of_type.queue_pause
    assert of_queue.changed
    assert [(each.type, each.queue) for each in of_queue.still_paused] == [("b", "q")]
    assert of_queue.queue_pause is None
    assert last == wherry.Resumed(True)


async def test_types_are_paused_listed_and_resumed(app: wherry.App) -> None:
    for type in ("batch", "mail"):
        await app.aenqueue(type, queue="q")

    assert await app.apause_type("batch", reason="a flood")
    assert not await app.apause_type("batch")
    assert await app.apause_type("batch", queue="q")
    everywhere, here = await app.alist_paused_types()
    assert (everywhere.type, everywhere.queue, everywhere.reason) == ("batch", None, "a flood")
    assert (here.queue, here.reason) == ("q", None)
    assert [each.type for each in await app.alease(worker="w", queues=["q"], max_tasks=9)] == [
        "mail"
    ]
    assert await app.aresume_type("batch", queue="q")
    assert await app.alease(worker="w", queues=["q"]) == []
    assert await app.aresume_type("batch")
    assert not await app.aresume_type("batch")
    assert len(await app.alease(worker="w", queues=["q"], max_tasks=9)) == 1

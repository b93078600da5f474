"""Doing something to one task, and to many: alike for cancel, requeue and purge."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from wherry import Canceled, Purged, RequeueAnswer

NOBODY = 10**9


def enqueued(app: wherry.App, key: str | None = None) -> int:
    return app.enqueue("t", key=key, max_attempts=1).id


def dead(app: wherry.App) -> int:
    id_ = enqueued(app)
    [lease] = app.lease(worker="w")
    app.fail(lease, "no")
    assert lease.id == id_
    return id_


def test_answers_come_in_the_order_of_the_ids_also_of_one_that_is_named_twice(
    app: wherry.App,
) -> None:
    over = dead(app)
    queued = enqueued(app)

    canceled = app.cancel_many([NOBODY, queued, over, NOBODY])
    requeued = app.requeue_many([NOBODY, over, over])
    purged = app.purge_many([queued, NOBODY, over, queued])

    unknown, final = Canceled.UNKNOWN, Canceled.FINAL
    assert canceled == [unknown, Canceled.CANCELED, final, unknown]
    assert [each.id for each in requeued] == [NOBODY, over, over]
    assert [each.answer for each in requeued] == [
        RequeueAnswer.UNKNOWN,
        RequeueAnswer.QUEUED,
        RequeueAnswer.QUEUED,
    ]
    assert purged == [Purged.PURGED, Purged.UNKNOWN, Purged.NOT_FINAL, Purged.PURGED]


def test_one_id_is_answered_alone(app: wherry.App) -> None:
    over = dead(app)
    queued = enqueued(app)

    assert app.requeue(queued).answer is RequeueAnswer.NOT_FINAL
    assert app.purge(queued) is Purged.NOT_FINAL
    assert app.cancel(over) is Canceled.FINAL
    assert app.purge(over) is Purged.PURGED
    assert app.get_task(over) is None


def test_an_id_that_names_no_task_is_not_found(app: wherry.App) -> None:
    for call in (app.cancel, app.requeue, app.purge):
        with pytest.raises(wherry.NotFound):
            call(NOBODY)


async def test_the_awaited_forms_answer_alike(app: wherry.App) -> None:
    id_ = (await app.aenqueue("t")).id

    assert await app.acancel_many([id_]) == [Canceled.CANCELED]
    assert (await app.arequeue(id_)).answer is RequeueAnswer.QUEUED
    assert await app.apurge(id_) is Purged.NOT_FINAL


def test_a_task_tells_of_its_lease(app: wherry.App) -> None:
    id_ = enqueued(app)
    waiting = app.get_task(id_)
    [lease] = app.lease(worker="w7")
    running = app.get_task(id_)
    app.complete(lease)
    over = app.get_task(id_)

    assert waiting is not None
    assert running is not None
    assert over is not None
    assert running.lease is not None
    assert running.lease.worker == "w7"
    assert running.lease.expires_at == running.lease_expires_at
    assert (waiting.lease, over.lease, over.worker) == (None, None, "w7")


def test_one_task_with_hostile_texts_hides_no_other(
    app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    good, bad = enqueued(app), enqueued(app)
    deep = json.dumps({"a": 1}).replace("1", "[" * 1000 + "]" * 1000)
    with connect() as connection:
        connection.execute(
            "update wherry.live set headers = %s::jsonb, retry = %s::jsonb where id = %s",
            [deep, deep, bad],
        )

    listed = app.list_tasks().tasks

    assert [task.id for task in listed] == [bad, good]
    assert (listed[1].headers, listed[1].retry) == ({}, None)
    for name in ("headers", "retry"):
        with pytest.raises(wherry.DecodeError, match="64 levels"):
            getattr(listed[0], name)

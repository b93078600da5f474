"""Enqueuing in the caller's transaction: one task means the same on every kind of connection.

A task is there if and only if that transaction commits, and what the caller does with the
transaction afterwards is what SQL makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.drivers.conftest import Stored
from tests.drivers.kinds import Kind, driver_error
from wherry.commands import task_texts

Connect = Callable[..., psycopg.Connection[Any]]
Observer = psycopg.Connection[Any]


async def test_a_task_comes_with_the_commit_of_a_transaction_that_stays_the_callers(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    """TXN-02, TXN-03."""
    await caller.begin()
    transaction = await caller.value("select pg_current_xact_id()::text")
    await caller.execute("set local wherry.mark = 'of the caller'")

    enqueued = await caller.enqueue(app, payload={"n": 1}, key="k")

    assert (enqueued.created, enqueued.payload_matches) == (True, True)
    assert await caller.value("select pg_current_xact_id()::text") == transaction
    assert await caller.value("select current_setting('wherry.mark')") == "of the caller"
    assert stored() == []
    await caller.commit()
    assert stored() == [enqueued.id]


async def test_nothing_of_a_rolled_back_transaction_remains(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    await caller.begin()
    await caller.enqueue(app, key="k")
    await caller.call(app, "enqueue_many", [{"type": "t", "key": "m"}, {"type": "t"}])

    await caller.rollback()

    assert stored() == []
    assert (await app.aenqueue("t", key="k")).created


async def test_a_savepoint_takes_its_task_and_the_key_back(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    """TXN-05: what SQL does, not what a wrapper claims."""
    await caller.begin()
    before = await caller.enqueue(app, key="before")
    await caller.savepoint()
    undone = await caller.enqueue(app, key="k")

    await caller.rollback_to_savepoint()

    again = await caller.enqueue(app, key="k")
    assert undone.created
    assert again.created
    await caller.commit()
    assert stored() == [before.id, again.id]


async def test_an_aborted_transaction_says_so(
    app: wherry.App, caller: Kind, stored: Stored
) -> None:
    """TXN-05: the driver's own error, and nothing is reported as stored."""
    await caller.begin()
    with driver_error("22012"):
        await caller.execute("select 1 / 0")

    with driver_error("25P02"):
        await caller.enqueue(app)

    await caller.rollback()
    assert stored() == []


async def test_an_error_leaves_the_transaction_as_any_failed_statement_would(
    app: wherry.App, observer: Observer, plain_caller: Kind, stored: Stored
) -> None:
    observer.execute("alter table wherry.live add constraint refuses check (type <> 'refused')")
    await plain_caller.begin()
    await plain_caller.savepoint()

    with driver_error("23514"):
        await plain_caller.enqueue(app, "refused")

    await plain_caller.rollback_to_savepoint()
    enqueued = await plain_caller.enqueue(app)
    await plain_caller.commit()
    assert stored() == [enqueued.id]


async def test_a_bad_payload_is_refused_before_anything_is_sent(
    app: wherry.App, observer: Observer, plain_caller: Kind, stored: Stored
) -> None:
    await plain_caller.begin()
    process = await plain_caller.value("select pg_backend_pid() as last_of_the_caller")

    with pytest.raises(wherry.InvalidPayload, match=r"\$\.n"):
        await plain_caller.enqueue(app, payload={"n": float("nan")})
    with pytest.raises(wherry.InvalidOption, match="task 1 of the batch"):
        await plain_caller.call(app, "enqueue_many", [{"type": "t"}, {"type": "t", "key": ""}])

    [[sent]] = observer.execute(
        "select query from pg_stat_activity where pid = %s", [process]
    ).fetchall()
    assert "last_of_the_caller" in sent
    enqueued = await plain_caller.enqueue(app)
    await plain_caller.commit()
    assert stored() == [enqueued.id]


@pytest.mark.parametrize("key", [None, "k"])
async def test_more_than_a_message_holds_is_refused_before_anything_is_sent(
    app: wherry.App,
    plain_caller: Kind,
    stored: Stored,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
) -> None:
    """PostgreSQL ends a session that sends a gibibyte; here it is 10,000 bytes."""
    monkeypatch.setattr(task_texts, "MOST_BYTES_AT_ONCE", 10_000)
    many: list[Any] = [
        {"type": "t", "key": key, "payload": {"text": "\u20ac" * 300}},
        *({"type": "t"},) * 3,
    ]
    await plain_caller.begin()
    before = await plain_caller.call(app, "enqueue_many", many)

    with pytest.raises(wherry.InvalidTask, match=r"take 1\d,\d{3} bytes together; the limit"):
        await plain_caller.call(app, "enqueue_many", many[:1] * 12)
    with pytest.raises(wherry.InvalidTask, match="make several"):
        await app.aenqueue_many(many[:1] * 12, tx=None)

    await plain_caller.commit()
    assert stored() == [answer.id for answer in before]


@pytest.mark.parametrize("key", [None, "key: %s :k"])
async def test_what_goes_in_comes_out_equal(
    app: wherry.App, plain_caller: Kind, key: str | None
) -> None:
    """Without a key it is another statement, with a parameter for each option."""
    payload = {
        "text": "50% of 'it', \"all\" \\ :name ::json %(x)s $1 \n – 💡",
        "numbers": [2**70, -0.0, 1e23, 0.1],
        "nested": {"a": [None, True, {"b": []}]},
    }
    headers = {"traceparent": "00-:x-%s"}
    await plain_caller.begin()

    enqueued = await plain_caller.enqueue(
        app, "odd: %s :type", payload=payload, key=key, tags=["a:b", '"\\,{}'], headers=headers,
        queue="odd: %s", priority=-7, max_attempts=3, delay=60,
    )  # fmt: skip

    await plain_caller.commit()
    task = await app.aget_task(enqueued.id)
    assert task is not None
    assert task.payload == payload
    assert (task.type, task.key, task.queue) == ("odd: %s :type", key, "odd: %s")
    assert (task.tags, task.headers) == (("a:b", '"\\,{}'), headers)
    assert (task.priority, task.max_attempts) == (-7, 3)


async def test_any_schema_name_will_do(dsn: str, plain_caller: Kind) -> None:
    async with wherry.App(dsn, schema='Näme "with" 100% :of \\ everything') as app:
        await app.amigrate()
        await plain_caller.begin()

        enqueued = await plain_caller.enqueue(app, key="k")

        await plain_caller.commit()
        assert await app.aget_task(enqueued.id) is not None


async def test_in_autocommit_a_task_is_stored_at_once(
    app: wherry.App, autocommit_caller: Kind, stored: Stored
) -> None:
    one = await autocommit_caller.enqueue(app, key="k")
    many = await autocommit_caller.call(
        app, "enqueue_many", [{"type": "t", "key": "k"}, {"type": "t"}]
    )

    assert one.created
    assert [answer.created for answer in many] == [False, True]
    assert many[0].id == one.id
    assert stored() == [one.id, many[1].id]


async def test_a_batch_that_fails_in_autocommit_stores_nothing(
    app: wherry.App, connect: Connect, autocommit_caller: Kind, stored: Stored
) -> None:
    """The key of an ended task needs a second look; nothing may be stored before it."""
    ended = await app.aenqueue("t", key="ended", key_ttl=0)
    [lease] = await app.alease(worker="w")
    assert await app.acomplete(lease) is wherry.Reported.DONE
    other = connect(autocommit=False)
    again = app.enqueue("t", key="ended", tx=other)
    await autocommit_caller.execute("set lock_timeout = '100ms'")
    batch = [{"type": "t"}, {"type": "t", "key": "ended"}]

    with driver_error("55P03"):
        await autocommit_caller.call(app, "enqueue_many", batch)

    other.commit()
    assert stored() == [ended.id, again.id]

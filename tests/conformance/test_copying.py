"""Tasks are copied alike by either way."""

from __future__ import annotations

from typing import Any

import pytest

import wherry
from tests.conformance.support import dead, get, leased
from wherry import Additive
from wherry.domain.options import EnqueueOptions

NOBODY = 10**9
HUGE = 9007199254740993


async def test_a_copy_has_what_its_original_has(app: wherry.App) -> None:
    options: EnqueueOptions = {
        "queue": "q",
        "priority": 7,
        "max_attempts": 3,
        "tags": ["a"],
        "timeout": 90,
        "key": "k",
        "retry": Additive(base=1, jitter=2, cap=30),
        "headers": {"h": "v"},
    }
    made = await app.aenqueue("t", {"n": HUGE, "text": "x" * 5000}, **options)

    stored = await app.acopy_task(made.id)

    original, copy = await get(app, made.id), await get(app, stored.id)
    assert (stored.created, stored.payload_matches) == (True, None)
    assert copy.payload == {"n": HUGE, "text": "x" * 5000}
    for name in ("queue", "type", "priority", "max_attempts", "tags", "timeout_seconds"):
        assert getattr(copy, name) == getattr(original, name)
    assert (copy.headers, copy.retry) == (original.headers, original.retry)
    assert (original.key, copy.key) == ("k", None)


async def test_what_is_said_takes_the_place_of_its_own(app: wherry.App) -> None:
    id = await dead(app)

    stored = await app.acopy_task(id, payload={"n": HUGE}, queue="q", delay=60, reason="typo")

    copy = await get(app, stored.id)
    assert (copy.queue, copy.payload, copy.attempts) == ("q", {"n": HUGE}, 0)
    assert (copy.run_after - copy.created_at).total_seconds() == 60
    assert (await get(app, id)).state == "dead"


async def test_a_copy_runs_and_its_result_is_waited_for(app: wherry.App) -> None:
    stored = await app.acopy_task(await dead(app), payload={})

    [lease] = await app.alease(worker="w")
    await app.acomplete(lease, result=7)

    assert lease.id == stored.id
    assert await stored.aresult(timeout=5) == 7


async def test_with_a_purge_the_copy_takes_the_originals_place(app: wherry.App) -> None:
    id, held = await dead(app), (await leased(app)).id

    stored = await app.acopy_task(id, purge=True)

    assert await app.aget_task(id) is None
    assert (await get(app, stored.id)).payload == {"n": 1}
    with pytest.raises(wherry.NotFinal, match=f"task {held} is leased"):
        await app.acopy_task(held, purge=True)
    assert (await get(app, held)).state == "leased"


async def test_what_cannot_be_copied_is_told(app: wherry.App) -> None:
    id = await dead(app)

    for unknown in (NOBODY, 2**62):
        with pytest.raises(wherry.NotFound):
            await app.acopy_task(unknown)
    wrongs: list[dict[str, Any]] = [
        {"queue": "*"},
        {"queue": ""},
        {"delay": -1},
        {"payload": []},
        {"payload": {"a": object()}},
        {"payload": {"a": "x" * 2**20}},
        {"purge": 1},
        {"reason": "x" * 100_000},
    ]
    for wrong in wrongs:
        with pytest.raises(wherry.InvalidTask):
            await app.acopy_task(id, **wrong)
    with pytest.raises(wherry.InvalidOption):
        await app.acopy_task(0)
    assert [task.id for task in (await app.alist_tasks()).tasks] == [id]

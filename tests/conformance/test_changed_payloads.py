"""Payloads are changed alike as their tasks are put back, by either way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import wherry
from tests.conformance.support import dead, get
from wherry.commands.tasks import MERGED_AT_ONCE
from wherry.domain.state import State

HUGE = 9007199254740993


async def test_members_are_set_and_removed_and_the_rest_stays(app: wherry.App) -> None:
    id = (await app.aenqueue("t", {"n": HUGE, "in": {"a": 1, "b": 2}, "old": []})).id
    await app.acancel(id)
    patch = {"region": "eu", "in": {"a": None, "c": 2**64 + 1}, "old": None}

    [answer] = await app.arequeue_many([id], merge_payload=patch)

    task = await get(app, id)
    assert answer.answer is wherry.RequeueAnswer.QUEUED
    assert task.state is State.QUEUED
    assert task.payload_text == f'{{"n":{HUGE},"in":{{"b":2,"c":{2**64 + 1}}},"region":"eu"}}'


async def test_a_payload_that_would_be_too_large_is_told_of(app: wherry.App) -> None:
    large = await app.aenqueue("t", {"text": "x" * (1024 * 1024 - 100)})
    small = await app.aenqueue("t")
    ids = [large.id, small.id]
    await app.acancel_many(ids)

    answers = await app.arequeue_many(ids, merge_payload={"more": "y" * 200})

    assert [each.answer for each in answers] == ["too_large", "queued"]
    assert (await get(app, large.id)).state is State.CANCELED


async def test_more_than_a_statement_changes_are_put_back_at_the_rate(app: wherry.App) -> None:
    n = MERGED_AT_ONCE + 2
    ids = [made.id for made in await app.aenqueue_many([{"type": "t"}] * n)]
    await app.acancel_many(ids)

    answers = await app.arequeue_many(ids, merge_payload={"r": 1}, per_second=0.1)

    assert [each.answer for each in answers] == ["queued"] * n
    tasks = [await get(app, id) for id in ids]
    assert {task.payload_text for task in tasks} == {'{"r":1}'}
    waits = {(b.run_after - a.run_after).total_seconds() for a, b in pairwise(tasks)}
    assert min(waits) >= 10


@pytest.mark.parametrize("wrong", [[], "{}", 7, {1: 2}, {"a": float("nan")}, {"a": {1, 2}}])
async def test_what_no_payload_can_hold_is_refused(app: wherry.App, wrong: Any) -> None:
    id = await dead(app)

    with pytest.raises(wherry.InvalidPayload, match="merge_payload"):
        await app.arequeue_many([id], merge_payload=wrong)

    assert (await get(app, id)).state is State.DEAD

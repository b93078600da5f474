"""Priorities and times are changed alike by either way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import wherry
from tests.conformance.support import dead, get, leased
from wherry import Replanned

NOBODY = 10**9


async def test_priorities_are_changed(app: wherry.App) -> None:
    ended = await dead(app)
    held = (await leased(app)).id
    queued = (await app.aenqueue("t")).id

    assert await app.areprioritize(queued, 9) is Replanned.CHANGED
    assert await app.areprioritize_many([NOBODY, held, queued, ended], -9) == [
        *(Replanned.UNKNOWN, Replanned.LEASED, Replanned.CHANGED, Replanned.FINAL),
    ]

    assert (await get(app, queued)).priority == -9
    with pytest.raises(wherry.NotFound):
        await app.areprioritize(NOBODY, 1)
    with pytest.raises(wherry.InvalidOption, match="priority"):
        await app.areprioritize(queued, 101)


async def test_times_are_changed(app: wherry.App) -> None:
    id_ = (await app.aenqueue("t", delay=3600)).id
    at = datetime(2040, 1, 31, 12, 0, 0, 123456, UTC)

    assert await app.areschedule(id_, run_after=at) is Replanned.CHANGED
    assert (await get(app, id_)).run_after == at
    assert await app.areschedule(id_, delay=0) is Replanned.CHANGED

    [lease] = await app.alease(worker="w")
    assert lease.id == id_
    assert await app.areschedule_many([id_, NOBODY], delay=60) == [
        *(Replanned.LEASED, Replanned.UNKNOWN),
    ]
    for wrong in ({}, {"run_after": at, "delay": 0}):
        with pytest.raises(wherry.InvalidOption):
            await app.areschedule(id_, **wrong)  # type: ignore[arg-type]

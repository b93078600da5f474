"""Schedules are seen and changed alike by either way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import wherry
from tests.conformance.support import get
from tests.facts import await_for
from tests.pg.schedules import schedule
from tests.pg.support import spec
from tests.worker.support import at_work
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.scheduling import SettleSchedules
from wherry.commands.workers import BeatWorker, LeaveWorker
from wherry.domain.cron import TickOutcome
from wherry.domain.retry import Additive, Fixed, to_json
from wherry.domain.schedule import Schedule
from wherry.domain.state import State
from wherry.testing import Clock

ONE = str(UUID(int=1))


async def beat(app: wherry.App, instance: str) -> None:
    command = BeatWorker(
        instance=instance, name="w", host="h", pid=1, queues=None, types=("t",), alive_seconds=1e9
    )
    await app.acarry(command)


async def declare(app: wherry.App, *schedules: Schedule) -> None:
    await beat(app, ONE)
    await app.acarry(DeclareSchedules(schedules, ONE))


async def settled(app: wherry.App) -> None:
    # A server that runs may have done it before.
    while (await app.acarry(SettleSchedules())).more:
        pass


async def test_schedules_are_the_same(app: wherry.App, database: wherry.App) -> None:
    task = spec(queue="mail", tags=("ü",), headers={"a": "b"})._replace(
        retry=to_json(Fixed(timedelta(seconds=3))), timeout_seconds=9.0, ttl_seconds=60.0
    )
    made = replace(schedule("nightly", "0 3 * * *", tz="Europe/Berlin", overlap="skip"), task=task)
    await declare(database, made, schedule("hourly", "0 * * * *"))

    told, known = await app.alist_schedules(), await database.alist_schedules()

    assert [each.name for each in told] == ["hourly", "nightly"]
    assert [replace(each, headers_text="", retry_text="") for each in told] == [
        replace(each, headers_text="", retry_text="") for each in known
    ]
    nightly = await app.aget_schedule("nightly")
    assert nightly is not None
    assert (nightly.tz, nightly.queue, nightly.declared_by) == ("Europe/Berlin", "mail", 1)
    assert nightly.next_local is not None
    assert (nightly.next_local.hour, nightly.next_local.minute) == (3, 0)
    assert await app.aget_schedule("nobody") is None


# Some have more digits than a wire carries, or fewer than it can say.
LENGTHS = ((0.1, 86_400.7), (1 / 3, 0.1 + 0.2), (1e-10, 7 / 6), (3 * 0.1000005, 1e9 / 7))


def full(n: int) -> Schedule:
    """Return a schedule of which everything is said; its lengths of time are the *n*th."""
    timeout, ttl = LENGTHS[n]
    task = spec(
        queue="mail",
        tags=("ü", "b"),
        headers={"b": "1", "a": "2", "c": "3", "d": "4"},
        payload={"é": 1.5, "b": 12345678901234567890123, "a": [None, ""]},
    )._replace(
        priority=-3,
        max_attempts=7,
        retry=to_json(Additive(timedelta(seconds=0.3), jitter=timedelta(seconds=1))),
        timeout_seconds=timeout,
        ttl_seconds=ttl,
    )
    cron, tz = "*/7 0 3 * * 1-5", "Europe/Berlin"
    return Schedule.checked(f"full {n}", cron, task, tz=tz, missed="all", overlap="allow")


async def test_a_schedule_is_added_by_hand(app: wherry.App, database: wherry.App) -> None:
    made = await app.aadd_schedule(
        "nightly", "0 3 * * *", "report", {"a": 1.5}, tz="Asia/Kolkata", missed="all",
        overlap="skip", queue="mail", priority=3, tags=["ü"], timeout=9, reason="why",
    )  # fmt: skip
    again = await app.aadd_schedule("nightly", "0 4 * * *", "report")

    found = await database.aget_schedule("nightly")

    assert (made, again) == (True, False)
    assert found is not None
    assert (found.by_hand, found.cron, found.tz) == (True, "0 3 * * *", "Asia/Kolkata")
    assert (found.type, found.queue, found.payload_text) == ("report", "mail", '{"a":1.5}')
    assert (found.missed, found.overlap) == ("all", "skip")
    assert (found.priority, found.tags, found.timeout_seconds) == (3, ("ü",), 9.0)
    with pytest.raises(wherry.InvalidTask, match="cron"):
        await app.aadd_schedule("bad", "never", "report")


async def test_what_a_worker_declares_is_the_same_by_either_way(
    app: wherry.App, database: wherry.App
) -> None:
    """Else workers of the same code would take one another's schedules for changed ones."""

    @app.schedule("* * * * * *", payload={"a": 1})
    @app.task(name="t", queue="mail")
    async def t(a: int) -> None:
        assert (a, wherry.current().schedule) == (1, "t")

    async def brought() -> Any:
        found = await database.aget_schedule("t")
        return found is not None and found.fired > 0

    for n in range(len(LENGTHS)):
        app.timetable.add(full(n), t)

    async with at_work(app, queues=["mail"]):
        await await_for(brought, seconds=60.0)
        seen = await database.alist_schedules()
        await beat(database, ONE)
        stood = await database.acarry(DeclareSchedules(tuple(app.timetable), ONE))

    assert [each.declared_by for each in seen] == [1] * (len(LENGTHS) + 1)
    assert (stood.added, stood.replaced, stood.gave_way) == ((), (), ())
    # Its declarations went with it.
    assert {each.declared_by for each in await database.alist_schedules()} == {1}


async def test_what_became_of_its_times_is_the_same(
    app: wherry.App, database: wherry.App, clock: Clock
) -> None:
    await declare(database, schedule("s"))
    clock.advance(minutes=3)
    await settled(database)
    run = await app.arun_schedule("s", reason="by hand")

    told, known = await app.alist_ticks("s"), await database.alist_ticks("s")

    assert told == known
    assert {tick.outcome for tick in told} >= {TickOutcome.FIRED, TickOutcome.BY_HAND}
    by_hand = next(tick for tick in told if tick.outcome is TickOutcome.BY_HAND)
    assert (by_hand.task_id, by_hand.reason, by_hand.state) == (run.id, "by hand", "queued")
    assert (await get(app, run.id)).state is State.QUEUED
    assert len(await app.alist_ticks("s", limit=1)) == 1
    before = datetime(2000, 1, 1, tzinfo=UTC)
    assert await app.alist_ticks("s", before=before) == []


async def test_a_schedule_is_paused_resumed_and_deleted(
    app: wherry.App, database: wherry.App
) -> None:
    await declare(database, schedule("s"))

    assert await app.apause_schedule("s", reason="a flood") is True
    assert await app.apause_schedule("s", reason="another") is False
    paused = await app.aget_schedule("s")
    assert paused is not None
    assert (paused.next_at, paused.pause_reason) == (None, "a flood")
    assert paused.paused_at is not None
    assert await app.aresume_schedule("s") is True
    assert await app.aresume_schedule("s") is False
    assert await app.adelete_schedule("s") is False
    await database.acarry(LeaveWorker(ONE))
    assert await app.adelete_schedule("s") is True
    assert await app.alist_schedules() == []


@pytest.mark.parametrize("call", ["alist_ticks", "arun_schedule", "apause_schedule"])
async def test_what_is_not_there_is_not_found(app: wherry.App, call: str) -> None:
    asked: Any = getattr(app, call)

    with pytest.raises(wherry.NotFound):
        await asked("nobody")
    with pytest.raises(wherry.InvalidOption, match="name"):
        await asked("")

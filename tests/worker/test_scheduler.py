"""The schedules' part of a worker: it declares, wakes for each time, and bears what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.pg.schedules import schedule
from tests.worker.fake import FakeTransport, in_turn
from tests.worker.support import at_work
from tests.worker.test_maintenance import NOTHING, maintaining
from wherry.commands.declaring import DeclareSchedules, Stood
from wherry.commands.maintenance import LookAround, Seen
from wherry.commands.scheduling import ListDue, Settled, SettleSchedules
from wherry.domain.cron import Span, TickOutcome
from wherry.errors import ConfigError, PermissionDenied, Unavailable
from wherry.maintenance import declaring

DECLARES = DeclareSchedules((schedule(),), "00000000-0000-0000-0000-000000000001")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def seen(schedule_in: float | None) -> Seen:
    return replace(NOTHING, schedule_in=schedule_in)


async def test_a_worker_declares_its_schedules_and_runs_a_task_at_each_time(
    app: wherry.App,
) -> None:
    ran: list[tuple[str | None, datetime | None]] = []

    @app.schedule("* * * * * *", payload={"a": 1})
    @app.task(name="t")
    async def t(a: int) -> None:
        context = wherry.current()
        ran.append((context.schedule, context.planned_at))

    async with at_work(app):
        await await_for(lambda: len(ran) >= 3)

    planned = [at for _, at in ran if at is not None]
    assert {name for name, _ in ran} == {"t"}
    assert len(planned) == len(set(planned)) == len(ran)
    ticks = await app.alist_ticks("t")
    # Those that were late are told of, not left out.
    span = ticks[0].until_at - ticks[-1].planned_at
    assert sum(tick.n for tick in ticks) == span // timedelta(seconds=1) + 1
    found = await app.aget_schedule("t")
    assert found is not None
    assert found.next_at is None, "its worker has gone, and with it who declared it"


async def test_a_task_that_no_schedule_brought_has_no_planned_time(app: wherry.App) -> None:
    told: list[Any] = []

    @app.task(name="t")
    async def t() -> None:
        told.append((wherry.current().schedule, wherry.current().planned_at))

    async with at_work(app):
        await app.aenqueue("t", headers={"wherry-planned-at": "soon"})
        await await_for(lambda: told)

    assert told == [(None, None)]


async def test_without_schedules_nothing_is_asked_about_them() -> None:
    async with maintaining({LookAround: lambda _: NOTHING}) as (_, transport, _):
        await await_for(lambda: len(transport.of(LookAround)) > 20)

    assert not transport.of(SettleSchedules)


async def test_it_wakes_for_the_next_time_and_asks_nothing_before() -> None:
    script = {
        LookAround: lambda _: seen(0.2),
        SettleSchedules: in_turn(
            Settled(fired=(("s", MOMENT, 1),), next_in=0.2), Settled(next_in=3600.0)
        ),
    }

    async with maintaining(script, every=600) as (maintenance, transport, found):
        await await_for(lambda: len(transport.of(SettleSchedules)) == 2)

    assert len(transport.of(LookAround)) == 1
    assert found == ["work"]
    assert maintenance.done.scheduled == 1


async def test_what_somebody_else_is_at_is_not_asked_for_without_end() -> None:
    script = {LookAround: lambda _: seen(-1.0), SettleSchedules: lambda _: Settled(next_in=-1.0)}

    async with maintaining(script, every=0.01) as (_, transport, _):
        await await_for(lambda: len(transport.of(LookAround)) > 30)

    # Each look tells of it anew; nothing else does.
    assert len(transport.of(SettleSchedules)) <= len(transport.of(LookAround)) + 1


async def test_one_that_cannot_be_settled_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def settle(command: SettleSchedules) -> Settled:
        if command.name in (None, "bad"):
            raise KeyError("a bug")
        return Settled(fired=((command.name, MOMENT, 1),))

    script = {
        LookAround: lambda _: seen(0.0),
        SettleSchedules: settle,
        ListDue: lambda _: ["bad", "good", "well"],
    }

    async with maintaining(script, every=600) as (maintenance, _, found):
        await await_for(lambda: found)

    assert maintenance.done.scheduled >= 2
    assert "schedule bad cannot be settled" in caplog.text
    assert "schedule good" not in caplog.text


async def test_what_brings_no_task_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """CRON-17."""
    caplog.set_level(logging.WARNING, "wherry.maintenance")
    span = Span(TickOutcome.MISSED, MOMENT, MOMENT + timedelta(minutes=4), 5)
    script = {
        LookAround: lambda _: seen(0.0),
        SettleSchedules: in_turn(
            Settled(passed=(("s", span),), troubles=(("odd", "no such zone"),)),
            Settled(next_in=3600.0),
        ),
    }

    async with maintaining(script, every=600):
        await await_for(lambda: "no such zone" in caplog.text)

    assert "schedule s: no task for missed (5), from 2026-01-01T00:00:00+00:00" in caplog.text


def test_what_is_declared_through_a_server_is_parted_by_number_and_by_size() -> None:
    small = tuple(schedule(f"s{n}") for n in range(201))
    large = tuple(schedule(f"l{n}", payload={"a": "x" * 600_000}) for n in range(2))
    declares = DeclareSchedules((*small, *large), DECLARES.instance)

    parts = declares.parts()

    assert [len(part.schedules) for part in parts] == [100, 100, 2, 1]
    assert tuple(each for part in parts for each in part.schedules) == declares.schedules
    assert {part.instance for part in parts} == {DECLARES.instance}


async def test_through_a_server_it_goes_on_whatever_that_says(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may be away, of an older version, or have a token that may not enqueue."""
    monkeypatch.setattr(declaring, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(declaring, "_DECLARE_SECONDS", 0.02)
    answers = in_turn(
        Unavailable("gone"),
        ConfigError("knows no DeclareSchedules"),
        PermissionDenied("the right enqueue"),
        Stood(foreign=("s",)),
        Stood(refused=("t",), no_room=("u",)),
    )
    transport = FakeTransport({DeclareSchedules: answers})
    theirs = (schedule(), schedule("t", queue="mail"), schedule("u"))
    declares = replace(DECLARES, schedules=theirs)

    keeping = asyncio.create_task(declaring.keep_declaring(transport, [declares]))
    try:
        await await_for(lambda: "the right enqueue on queue 'mail'" in caplog.text)
    finally:
        keeping.cancel()

    for told in (
        "not declared yet: gone",
        "by it (s, t, u): knows no DeclareSchedules",
        "by it (s, t, u): the right enqueue",
        "schedule s: one of this name stands for a queue that this worker's token may not",
        "schedule t: not declared, and brings no tasks by this worker",
        "schedule u: not declared: queue 'default' has 10,000 schedules",
    ):
        assert told in caplog.text


async def test_it_declares_again_when_the_database_is_back_and_tells_who_gives_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = Unavailable("gone")
    stood = Stood(gave_way=("s",), by_hand=("h",))
    script = {
        LookAround: lambda _: NOTHING,
        DeclareSchedules: in_turn(away, away, Stood(is_unknown=True), stood),
    }

    async with maintaining(script, declares=DECLARES) as (_, transport, _):
        await await_for(lambda: "made by hand" in caplog.text)

    assert len(transport.of(DeclareSchedules)) == 4
    assert "schedule s: another live worker declares it otherwise" in caplog.text

"""The maintenance beside a worker: a step that fails stops no other, and no nudge is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.worker.fake import Answer, FakeTransport, in_turn
from tests.worker.support import all_finished, at_work, finished
from wherry.commands.audit import PruneAudit
from wherry.commands.base import Command
from wherry.commands.declaring import DeclareSchedules
from wherry.commands.fronts import Rescued, RescueTasks
from wherry.commands.maintenance import (
    Adopted,
    CatchUpIds,
    Discarded,
    DiscardTasks,
    DropPastDays,
    LookAround,
    MakeDays,
    ParkTasks,
    Promoted,
    PromoteTasks,
    Reaped,
    ReapLeases,
    ReapOrphans,
    Seen,
    Unparked,
    UnparkTasks,
)
from wherry.commands.schedules import PruneTicks
from wherry.commands.scheduling import Settled, SettleSchedules
from wherry.commands.workers import ForgetWorkers
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.errors import Unavailable
from wherry.maintenance.service import Maintenance
from wherry.testing import Clock

Connect = Callable[..., psycopg.Connection[Any]]
NOTHING = Seen()
ANYTHING = Seen(-1.0, -1.0, -1.0, parked=True, ready=True)
STEPS: dict[Any, Any] = {
    LookAround: NOTHING,
    MakeDays: 0,
    ReapLeases: Reaped(),
    ReapOrphans: Adopted(0),
    DiscardTasks: Discarded(()),
    UnparkTasks: Unparked(0),
    RescueTasks: Rescued(0),
    CatchUpIds: None,
    DropPastDays: False,
    ForgetWorkers: 0,
    PruneAudit: False,
    PruneTicks: False,
    SettleSchedules: Settled(),
    PromoteTasks: Promoted(0, None),
    ParkTasks: 0,
}


@asynccontextmanager
async def maintaining(
    script: Mapping[Any, Answer], *, every: float = 0.01, declares: DeclareSchedules | None = None
) -> AsyncIterator[tuple[Maintenance, FakeTransport, list[str]]]:
    """Run a maintenance on a scripted transport; the list tells of work that was found."""
    answers = {step: lambda _, answer=answer: answer for step, answer in STEPS.items()}
    transport = FakeTransport({**answers, **script})
    found: list[str] = []
    maintenance = Maintenance(
        transport,
        look_seconds=lambda: every,
        queues=("default",),
        found_work=lambda: found.append("work"),
        declares=declares,
    )
    running = asyncio.create_task(maintenance.run())
    try:
        yield maintenance, transport, found
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_step_that_fails_stops_no_other_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """DB-05, LOST-05."""
    script = {
        LookAround: lambda _: ANYTHING,
        ReapLeases: in_turn(KeyError("a bug")),
        MakeDays: in_turn(ValueError("another")),
    }

    async with maintaining(script) as (_, transport, _):
        await await_for(lambda: len(transport.of(ReapLeases)) > 20)

    assert transport.of(UnparkTasks)
    assert transport.of(ForgetWorkers)
    assert [record.getMessage().split(" failed")[0] for record in caplog.records] == [
        "the maintenance step MakeDays",
        "the maintenance step ReapLeases",
    ]


async def test_a_database_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """DB-05: with one line in the log."""
    away = Unavailable("gone")
    script = {
        LookAround: in_turn(away, away, replace(NOTHING, due_in=0.0)),
        PromoteTasks: in_turn(away, Promoted(1, None), Promoted(0, None)),
    }

    async with maintaining(script) as (maintenance, _, found):
        await await_for(lambda: found)

    assert maintenance.done.promoted == 1
    assert len(caplog.records) == 1


async def test_a_nudge_that_comes_during_a_look_asks_for_another_one() -> None:
    """The look may have been too early to see what the nudge is about."""
    looking = asyncio.Event()
    may_answer = asyncio.Event()

    async def slowly(_command: Any) -> Promoted:
        looking.set()
        await may_answer.wait()
        return Promoted(0, None)

    script = {PromoteTasks: slowly, LookAround: lambda _: replace(NOTHING, due_in=-1.0)}
    async with maintaining(script, every=600) as (maintenance, transport, _):
        await looking.wait()
        maintenance.nudge()
        may_answer.set()
        await await_for(lambda: len(transport.of(PromoteTasks)) == 2)


@pytest.mark.parametrize("lost", [LookAround, UnparkTasks])
async def test_what_somebody_new_may_wait_for_is_looked_for_until_it_is_known(lost: type) -> None:
    normal: dict[type, Any] = {LookAround: replace(NOTHING, parked=True), UnparkTasks: Unparked(0)}
    answers = {step: in_turn(answer) for step, answer in normal.items()}
    answers[lost] = in_turn(normal[lost], Unavailable("gone"), normal[lost])
    async with maintaining(answers, every=600) as (maintenance, transport, _):
        await await_for(lambda: len(transport.of(UnparkTasks)) == 1)

        maintenance.unpark()

        asked = 3 if lost is UnparkTasks else 2
        await await_for(lambda: len(transport.of(UnparkTasks)) == asked)
    assert len(transport.of(LookAround)) == 3


async def test_it_sleeps_until_the_next_task_is_due() -> None:
    script = {
        LookAround: lambda _: replace(NOTHING, due_in=0.05),
        PromoteTasks: in_turn(Promoted(1, None), Promoted(0, 0.05), Promoted(3, None)),
    }
    started = time.monotonic()

    async with maintaining(script, every=600) as (maintenance, transport, _):
        await await_for(lambda: maintenance.done.promoted >= 4)

    assert time.monotonic() - started >= 0.1
    assert len(transport.of(LookAround)) == 1


async def test_a_step_that_has_nothing_to_do_is_not_carried() -> None:
    async with maintaining({}) as (_, transport, _):
        await await_for(lambda: len(transport.of(LookAround)) > 20)

    rare = {MakeDays, ReapOrphans, RescueTasks, CatchUpIds, DropPastDays, ForgetWorkers}
    rare |= {PruneAudit, PruneTicks}
    assert {type(call) for call in transport.calls} == {LookAround, *rare}


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (replace(NOTHING, lease_ends_in=-1.0), ReapLeases),
        (replace(NOTHING, due_in=-1.0), PromoteTasks),
        (replace(NOTHING, discard_in=-1.0), DiscardTasks),
        (replace(NOTHING, parked=True), UnparkTasks),
        (replace(NOTHING, schedule_in=-1.0), SettleSchedules),
    ],
)
async def test_a_step_that_has_something_to_do_is_carried_at_once(
    seen: Seen, step: type[Command[Any]]
) -> None:
    async with maintaining({LookAround: lambda _: seen}, every=600) as (_, transport, _):
        await await_for(lambda: transport.of(step))

    assert len(transport.of(LookAround)) == 1


async def test_while_looking_fails_each_step_looks_for_itself() -> None:
    script = {LookAround: in_turn(KeyError("a bug"))}

    async with maintaining(script) as (_, transport, _):
        await await_for(lambda: len(transport.of(ReapLeases)) > 2)

    assert transport.of(PromoteTasks)
    assert transport.of(DiscardTasks)
    assert transport.of(UnparkTasks)


async def test_a_lease_is_looked_at_when_it_ends_however_rare_looks_are() -> None:
    """LOST-05: as soon as whoever held it must have extended it, and not at the next look."""
    script = {LookAround: in_turn(replace(NOTHING, lease_ends_in=0.01), ANYTHING)}

    async with maintaining(script, every=600) as (_, transport, _):
        await await_for(lambda: transport.of(ReapLeases))

    assert len(transport.of(LookAround)) == 2


async def test_a_step_with_no_end_makes_room_for_the_others_and_goes_on() -> None:
    """However much there is to take back, due tasks are promoted, and nothing waits for a look."""
    script = {
        LookAround: lambda _: ANYTHING,
        ReapLeases: lambda _: Reaped(queued=(1,), leases=1),
        DropPastDays: lambda _: True,
    }

    async with maintaining(script, every=600) as (_, transport, _):
        await await_for(lambda: len(transport.of(LookAround)) > 2)

    assert len(transport.of(PromoteTasks)) >= 2
    assert len(transport.of(DropPastDays)) > 20


async def test_one_task_that_nobody_can_take_back_does_not_keep_the_others(
    app: wherry.App, connect: Connect, clock: Clock
) -> None:
    """LOST-05: a row that is locked for ever is passed over, pass after pass."""

    @app.task(name="t", retry=Fixed(0))
    async def t() -> None:
        pass

    ids = [each.id for each in await t.aenqueue_many([{}] * 10)]
    for _ in ids:
        await app.alease(worker="lost", lease_for=5)
    locker = connect(autocommit=False)
    locker.execute("select from wherry.live where id = %s for update", [ids[4]])
    clock.advance(seconds=6)

    async with at_work(app):
        others = await all_finished(app, [id_ for id_ in ids if id_ != ids[4]])
        locker.rollback()
        last = await finished(app, ids[4])

    for task in [*others, last]:
        assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
        assert [attempt.outcome for attempt in task.history] == ["lost"]


async def test_whatever_was_running_when_all_workers_died_comes_back_with_the_next_one(
    app: wherry.App, connect: Connect, clock: Clock
) -> None:
    """LOST-05: nothing has to be recovered before the recovery itself works."""

    @app.task(name="t")
    async def t() -> None:
        pass

    await app.aenqueue_many([{"type": "t", "retry": Fixed(0)}] * 250)
    for n in range(25):
        await app.alease(worker=f"dead {n}", max_tasks=10, lease_for=5)
    clock.advance(minutes=60)
    connection = connect()

    def ended() -> list[tuple[str, int, int]]:
        return connection.execute(
            "select state, attempts, count(*) from wherry.finished group by 1, 2"
        ).fetchall()

    async with at_work(app):
        await await_for(lambda: ended() == [("succeeded", 2, 250)], seconds=20)

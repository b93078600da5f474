"""A worker takes what it can start, gives back what it cannot, and keeps trying."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.worker.fake import FakeTransport, in_turn, leasing, make_lease
from tests.worker.support import all_finished, at_work, finished, get, settings
from wherry.commands.leases import CompleteTasks, GiveBackTasks, LeaseTasks
from wherry.commands.queues import ListReadyQueues
from wherry.domain.lease import Lease, Reported
from wherry.domain.state import State
from wherry.errors import SchemaMissing, Unavailable
from wherry.worker.source import LocalSource
from wherry.worker.wakeups import Wakeups
from wherry.worker.worker import Worker

Connect = Callable[..., psycopg.Connection[Any]]


def scripted(
    app: wherry.App,
    lease: Callable[[LeaseTasks], Any],
    *,
    queues: Sequence[str] = ("default",),
    until_empty: bool = False,
    **options: Any,
) -> tuple[Worker, FakeTransport]:
    """Return a worker on a scripted transport."""
    transport = FakeTransport({LeaseTasks: lease, ListReadyQueues: lambda _: []})
    wakeups = Wakeups(
        transport,
        instance="00000000-0000-0000-0000-000000000000",
        queues=tuple(queues),
        poll_seconds=0.02,
        poll_seconds_listening=0.02,
        is_listening=lambda: False,
    )
    chosen = settings(**options)
    worker = Worker(
        app,
        app.registry,
        source=LocalSource(
            transport,
            wakeups,
            worker="w1",
            queues=tuple(queues),
            types=app.registry.names,
            lease_seconds=chosen.lease_for.total_seconds(),
        ),
        reporting=transport,
        name="w1",
        settings=chosen,
        until_empty=until_empty,
    )
    return worker, transport


def offline_app() -> wherry.App:
    return wherry.App("host=nowhere.invalid")


async def test_it_leases_for_its_free_slots_first_and_then_ahead_of_quick_handlers() -> None:
    app = offline_app()

    @app.task(name="t")
    async def t() -> None:
        pass

    worker, transport = scripted(
        app, leasing([make_lease(n) for n in range(3000)]), concurrency=4, until_empty=True
    )

    summary = await worker.run()

    assert summary.answers == {Reported.DONE: 3000}
    limits = [command.limit for command in transport.of(LeaseTasks)]
    assert limits[0] == 4
    assert max(limits) > 100
    assert max(limits) <= 1000


async def test_no_handler_begins_while_far_too_many_outcomes_are_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wherry.worker.reporter._MOST_WAITING", 10)
    monkeypatch.setattr("wherry.worker.worker._TURN_SECONDS", 0.0)
    app = offline_app()
    ran = 0
    may_answer = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        nonlocal ran
        ran += 1

    async def slowly(command: CompleteTasks) -> list[Reported]:
        await may_answer.wait()
        return [Reported.DONE] * len(command.outcomes)

    worker, transport = scripted(
        app, leasing([make_lease(n) for n in range(300)]), concurrency=4, until_empty=True
    )
    transport.script[CompleteTasks] = slowly
    running = asyncio.create_task(worker.run())
    await await_for(lambda: worker.reporter.is_full)
    # Far more turns than all of them would take.
    for _ in range(1000):
        await asyncio.sleep(0)
    ran_unsent = ran
    may_answer.set()
    await running

    assert ran_unsent < 50
    assert ran == 300


async def test_the_next_lease_is_on_its_way_while_handlers_that_never_wait_still_run() -> None:
    app = offline_app()
    ran, leased, left_at_leases = 0, 0, list[int]()
    give = leasing([make_lease(n) for n in range(150)])

    @app.task(name="t")
    async def t() -> None:
        nonlocal ran
        ran += 1
        time.sleep(0.002)  # noqa: ASYNC251 - it is to hold up the loop

    def watched(command: LeaseTasks) -> Any:
        nonlocal leased
        left_at_leases.append(leased - ran)
        given = give(command)
        leased += len(given)
        return given

    # So far ahead that there are some also on a machine that takes long for each.
    ahead = timedelta(seconds=1)
    worker, _ = scripted(app, watched, concurrency=2, until_empty=True, prefetch_ahead=ahead)

    await worker.run()

    assert ran == 150
    assert max(left_at_leases) > 2, left_at_leases


async def test_slow_handlers_are_not_prefetched_for() -> None:
    app = offline_app()

    @app.task(name="t")
    async def t() -> None:
        await asyncio.sleep(0.3)

    leases = [make_lease(n) for n in range(8)]
    worker, transport = scripted(app, leasing(leases), concurrency=2, until_empty=True)

    await worker.run()

    assert max(command.limit for command in transport.of(LeaseTasks)) <= 2


async def test_what_is_on_its_last_attempt_is_taken_for_free_slots_only() -> None:
    app = offline_app()

    @app.task(name="t")
    async def t() -> None:
        await asyncio.sleep(0)

    def check(command: LeaseTasks) -> Any:
        assert command.limit_last is not None
        assert command.limit_last <= 4
        return give(command)

    give = leasing([make_lease(n) for n in range(2000)])
    worker, transport = scripted(app, check, concurrency=4, until_empty=True)

    await worker.run()

    assert any(command.limit_last == 4 for command in transport.of(LeaseTasks)[1:])


async def test_queues_take_turns() -> None:
    app = offline_app()

    @app.task(name="t")
    async def t() -> None:
        pass

    counts = {"a": 40, "b": 40}

    def both_are_full(command: LeaseTasks) -> list[Lease]:
        n = min(command.limit, counts[command.queue])
        left = counts[command.queue] = counts[command.queue] - n
        base = 1000 * (command.queue == "b") + left
        return [make_lease(base + i, queue=command.queue) for i in range(n)]

    worker, transport = scripted(
        app, both_are_full, queues=("a", "b"), concurrency=1, until_empty=True
    )

    await worker.run()

    asked = [command.queue for command in transport.of(LeaseTasks)][:20]
    assert asked[::2] == ["a"] * 10
    assert asked[1::2] == ["b"] * 10


@pytest.mark.parametrize("away", [Unavailable("gone"), SchemaMissing("wherry")])
async def test_a_database_that_is_away_is_waited_for_with_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture, away: Exception
) -> None:
    """DB-01."""
    app = offline_app()

    @app.task(name="t")
    async def t() -> None:
        pass

    worker, _ = scripted(
        app, in_turn(*[away] * 5, [make_lease(1)], []), concurrency=1, until_empty=True
    )

    summary = await worker.run()

    assert summary.answers == {Reported.DONE: 1}
    assert len(caplog.records) == 1


async def test_a_lease_that_arrives_after_the_stop_is_given_back() -> None:
    """SHUT-10: nothing is leased after a stop, and what is under way comes back at once."""
    app = offline_app()
    started: list[int] = []

    @app.task(name="t")
    async def t() -> None:
        started.append(wherry.current().task_id)

    async def answer_after_the_stop(command: LeaseTasks) -> list[Lease]:
        worker.stop()
        await asyncio.sleep(0.02)
        return [make_lease(n) for n in range(command.limit)]

    worker, transport = scripted(app, answer_after_the_stop, concurrency=3)

    summary = await worker.run()

    assert started == []
    assert len(transport.of(LeaseTasks)) == 1
    assert summary.answers == {Reported.REQUEUED: 3}
    assert summary.exit_code == 0


async def test_a_stop_gives_back_what_no_slot_has_taken() -> None:
    """SHUT-10."""
    app = offline_app()
    may_end = asyncio.Event()
    given: list[int] = []

    @app.task(name="t")
    async def t() -> None:
        await may_end.wait()

    # More than was asked for: as if it had been prefetched.
    worker, transport = scripted(
        app, in_turn([make_lease(n) for n in range(10)], []), concurrency=2
    )
    running = asyncio.create_task(worker.run())
    await await_for(lambda: len(worker.runner.running) == 2)
    worker.stop()
    await await_for(lambda: transport.of(GiveBackTasks))
    may_end.set()
    summary = await running

    given = [o.lease.id for c in transport.of(GiveBackTasks) for o in c.outcomes]
    assert given == list(range(2, 10))
    assert summary.answers == {Reported.REQUEUED: 8, Reported.DONE: 2}


async def test_a_mistake_of_ours_ends_the_worker_after_its_handlers() -> None:
    """It does not hang: everything is settled first, and then the error is raised."""
    app = offline_app()
    may_end = asyncio.Event()

    @app.task(name="t")
    async def t() -> None:
        await may_end.wait()

    worker, transport = scripted(app, in_turn([make_lease(1)], KeyError("a bug")), concurrency=2)
    running = asyncio.create_task(worker.run())
    await await_for(lambda: worker._stopping.is_set())
    may_end.set()

    with pytest.raises(KeyError, match="a bug"):
        async with asyncio.timeout(30):
            await running
    assert [o.lease.id for c in transport.of(CompleteTasks) for o in c.outcomes] == [1]


@pytest.mark.parametrize("part", ["intake", "reporter", "second reporter", "sweeper"])
async def test_a_part_that_is_canceled_by_somebody_else_ends_the_worker_visibly(part: str) -> None:
    # But no slot: a handler that has ended can do that to one (test_late_cancels.py).
    worker, _ = scripted(offline_app(), lambda _: [], concurrency=2)
    running = asyncio.create_task(worker.run())
    await await_for(lambda: worker._parts)
    worker._parts[part].cancel()

    with pytest.raises(RuntimeError, match=f"{part} has ended by itself"):
        async with asyncio.timeout(30):
            await running


async def test_long_tasks_that_were_prefetched_go_to_whoever_has_a_slot(
    app: wherry.App, connect: Connect
) -> None:
    """PRI-07: a queue of quick tasks turns into long ones: the first worker cannot keep them."""
    may_end = asyncio.Event()
    began: list[tuple[int, int]] = []

    @app.task(name="quick")
    async def quick() -> None:
        pass

    @app.task(name="long", max_attempts=5)
    async def long() -> None:
        began.append((wherry.current().task_id, wherry.current().attempt))
        await may_end.wait()

    await quick.aenqueue_many([{}] * 300)
    ids = [each.id for each in await long.aenqueue_many([{}] * 40)]

    async with at_work(app, name="first", concurrency=2):
        await await_for(lambda: len(began) == 2)
        async with at_work(app, name="second", concurrency=6):
            await await_for(lambda: len(began) == 8)
            [[leased]] = (
                connect()
                .execute("select count(*) from wherry.live where state = 'leased'")
                .fetchall()
            )
            may_end.set()
            tasks = await all_finished(app, ids)

    # Nobody holds much more than it runs, and coming back has cost no task an attempt.
    assert leased <= 12
    assert {task.state for task in tasks} == {State.SUCCEEDED}
    assert {attempt for _, attempt in began} == {1}
    assert len(began) == 40


async def test_a_worker_of_all_queues_finds_those_that_come_to_be(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    async with at_work(app, queues=["*"], poll_every=timedelta(milliseconds=50)):
        for queue in ("new", "newer"):
            made = await app.aenqueue("t", queue=queue)
            assert (await finished(app, made.id)).state is State.SUCCEEDED


async def test_a_worker_leaves_other_queues_alone(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    elsewhere = await app.aenqueue("t", queue="elsewhere")
    here = await app.aenqueue("t")

    async with at_work(app):
        await finished(app, here.id)

    assert (await get(app, elsewhere.id)).attempts == 0

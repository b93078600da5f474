"""What a worker asks a server for, when it waits there, and what it does about each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

import wherry
from tests.facts import await_for
from tests.worker.fake import FakeTransport, in_turn, make_lease
from tests.worker.support import settings
from wherry.commands.leases import CompleteTasks, GiveBackTasks, HeartbeatLeases
from wherry.commands.remote import PollTasks
from wherry.domain.lease import Lease, Reported
from wherry.domain.worker import Directive
from wherry.errors import ConfigError, PermissionDenied, Unauthenticated, Unavailable
from wherry.worker.remote import CONFIRM_SECONDS, RemoteSource
from wherry.worker.worker import Worker

Answer = Callable[[PollTasks], Any]


def scripted(
    poll: Answer, *, until_empty: bool = False, **options: Any
) -> tuple[Worker, FakeTransport, wherry.App]:
    """Return a worker on a scripted server, and its App, which has the type `t`."""
    app = wherry.App("grpc://nowhere.invalid:1")

    @app.task(name="t")
    async def t() -> None:
        pass

    transport = FakeTransport({PollTasks: poll})
    chosen = settings(**options)
    source = RemoteSource(
        transport,
        worker="w1",
        instance="5f0c1ed8-6d7b-4b1e-9d3c-0a9b1c2d3e4f",
        queues=("a", "b"),
        types=app.registry.names,
        lease_seconds=chosen.lease_for.total_seconds(),
    )
    worker = Worker(
        app, app.registry, source=source, reporting=transport, name="w1", settings=chosen,
        until_empty=until_empty,
    )  # fmt: skip
    return worker, transport, app


def giving(leases: list[Lease]) -> Answer:
    """Give out these, then wait as long as is asked."""

    async def answer(command: PollTasks) -> list[Lease]:
        given, leases[:] = leases[: command.limit], leases[command.limit :]
        if not given:
            await asyncio.sleep(command.wait_seconds)
        return given

    return answer


async def test_a_free_slot_waits_at_the_server_and_asks_for_no_more_than_it_can_start() -> None:
    worker, transport, _ = scripted(giving([]), concurrency=4)
    running = asyncio.create_task(worker.run())

    await await_for(lambda: transport.of(PollTasks))
    worker.stop()
    await running

    [poll] = transport.of(PollTasks)
    assert (poll.limit, poll.limit_last, poll.wait_seconds) == (4, 4, 30.0)
    assert (poll.queues, poll.types, poll.worker) == (("a", "b"), ("t",), "w1")
    assert (poll.lease_seconds, poll.confirm_seconds) == (30.0, CONFIRM_SECONDS)


async def test_a_stop_interrupts_the_poll_at_once() -> None:
    worker, transport, _ = scripted(giving([]))
    running = asyncio.create_task(worker.run())
    await await_for(lambda: transport.of(PollTasks))

    # It would be answered after 30 s.
    worker.stop()
    async with asyncio.timeout(20):
        await running


async def test_what_came_is_confirmed_at_once_and_together() -> None:
    worker, transport, _ = scripted(
        giving([make_lease(n, seconds=CONFIRM_SECONDS) for n in range(3)]), concurrency=3
    )
    running = asyncio.create_task(worker.run())
    await await_for(lambda: worker.summary.answers.total() == 3)
    worker.stop()
    await running

    [beat] = transport.of(HeartbeatLeases)
    assert [lease.id for lease in beat.leases] == [0, 1, 2]
    assert beat.extend_seconds == 30.0


async def test_a_confirmation_that_is_lost_keeps_nothing_from_running() -> None:
    worker, transport, _ = scripted(giving([make_lease(1)]))
    transport.script[HeartbeatLeases] = in_turn(Unavailable("gone"))
    running = asyncio.create_task(worker.run())

    await await_for(lambda: transport.of(CompleteTasks))
    worker.stop()

    assert (await running).answers == {Reported.DONE: 1}


async def test_prefetching_does_not_wait_at_the_server() -> None:
    worker, transport, _ = scripted(
        giving([make_lease(n) for n in range(2000)]), concurrency=2, until_empty=True
    )

    summary = await worker.run()

    assert summary.answers == {Reported.DONE: 2000}
    polls = transport.of(PollTasks)
    assert max(poll.limit for poll in polls) > 100
    # Only the last look of all waits, for what has become due a moment ago.
    assert [poll.wait_seconds for poll in polls] == [0.0] * (len(polls) - 1) + [2.0]


async def test_a_server_that_does_not_let_it_wait_is_not_asked_in_a_hot_loop() -> None:
    worker, transport, _ = scripted(lambda _: [])
    running = asyncio.create_task(worker.run())

    begun = monotonic()
    await asyncio.sleep(1.0)
    worker.stop()
    await running

    assert len(transport.of(PollTasks)) < 12 * (monotonic() - begun)


@pytest.mark.parametrize("error", [PermissionDenied("no"), Unauthenticated("no")], ids=repr)
async def test_who_was_never_let_in_ends_and_who_was_keeps_trying(error: Exception) -> None:
    never, _, _ = scripted(in_turn(error))
    with pytest.raises(type(error)):
        await never.run()

    lease = make_lease(1)
    worker, transport, _ = scripted(in_turn([lease], error, [make_lease(2)], error))
    running = asyncio.create_task(worker.run())
    await await_for(lambda: worker.summary.answers.total() == 2)
    worker.stop()

    assert (await running).exit_code == 0
    assert len(transport.of(PollTasks)) >= 3


async def test_what_no_server_knows_ends_it() -> None:
    worker, _, _ = scripted(in_turn(ConfigError("the server does not know the call Lease")))

    with pytest.raises(ConfigError):
        await worker.run()


async def test_a_drain_ends_the_poll_and_gives_back_until_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "wherry.worker")
    leases: list[Lease] = []
    worker, transport, app = scripted(giving(leases), concurrency=1)
    blocked = asyncio.Event()

    @app.task(name="blocks")
    async def blocks() -> None:
        await blocked.wait()

    leases += [make_lease(1, type="blocks")]
    running = asyncio.create_task(worker.run())
    await await_for(lambda: len(worker.held) == 1 and leases == [])

    worker.direct(Directive.DRAIN)
    worker.direct(Directive.DRAIN)
    blocked.set()
    await await_for(lambda: worker.summary.answers.total() == 1)
    before = len(transport.of(PollTasks))
    leases += [make_lease(2)]
    await asyncio.sleep(0.2)
    assert len(transport.of(PollTasks)) == before

    worker.direct(Directive.NONE)
    await await_for(lambda: worker.summary.answers.total() == 2)
    worker.direct(Directive.STOP)
    await running

    assert transport.of(GiveBackTasks) == []
    assert [r.message for r in caplog.records if "told to" in r.message] == [
        "worker w1 was told to drain",
        "worker w1 was told to go on",
        "worker w1 was told to stop",
    ]

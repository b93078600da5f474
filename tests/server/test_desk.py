"""The desk: many workers wait, one statement serves them, and no task is lost on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.facts import await_for
from tests.statements import Sent, count_statements
from wherry.config import ServerSettings
from wherry.domain.lease import Lease
from wherry.server.caller import ANYBODY
from wherry.server.running import Running, running_service
from wherry.server.service import Service
from wherry.wire.lease_token import write_lease_token

LEASE = "leases/lease_for_pollers"

pytestmark = pytest.mark.usefixtures("told_only")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return count_statements(monkeypatch)


def poll(service: Service, n: int = 1, **asked: Any) -> asyncio.Task[list[Lease]]:
    async def lease() -> list[Lease]:
        worker = asked.pop("worker", f"worker-{n}")
        return (await service.lease(ANYBODY, worker=worker, **{"wait": 30, **asked})).leases

    return asyncio.create_task(lease())


async def settled(running: Running, *queues: str, waiting: int) -> None:
    """Wait until polls wait, and everything that comes to their queues is heard of."""
    desk = running.desk
    await await_for(lambda: desk.waiting == waiting, what=f"{waiting} polls wait")
    await await_for(lambda: desk.hears(queues or ("default",)), what="the marks are settled")


async def test_one_statement_serves_all_who_wait(
    running: Running, app: wherry.App, sent: Sent
) -> None:
    polls = [poll(running.service, n) for n in range(50)]
    await settled(running, waiting=50)
    sent.clear()

    await app.aenqueue_many([{"type": "t"}] * 50)

    leases = await asyncio.gather(*polls)
    assert sent.count(LEASE) == 1
    assert [len(each) for each in leases] == [1] * 50
    assert len({lease.id for each in leases for lease in each}) == 50


async def test_one_task_goes_to_whoever_has_waited_longest(
    running: Running, app: wherry.App, sent: Sent
) -> None:
    polls: list[asyncio.Task[list[Lease]]] = []
    for n in range(3):
        polls.append(poll(running.service, n))
        await settled(running, waiting=n + 1)
    sent.clear()

    task = await app.aenqueue("t")

    [lease] = await polls[0]
    assert lease.id == task.id
    assert sent.count(LEASE) == 1
    assert not polls[1].done()
    assert not polls[2].done()


async def test_tasks_are_dealt_out_in_turn_and_nobody_gets_more_than_asked_for(
    running: Running, app: wherry.App
) -> None:
    polls = [poll(running.service, n, max_tasks=n) for n in (1, 2, 10)]
    await settled(running, waiting=3)

    await app.aenqueue_many([{"type": "t"}] * 9)

    leases = await asyncio.gather(*polls)
    assert [len(each) for each in leases] == [1, 2, 6]


async def test_idle_polls_that_come_back_cost_no_statement(running: Running, sent: Sent) -> None:
    first = [poll(running.service, n) for n in range(20)]
    await settled(running, waiting=20)
    # One that looks while everything is heard of tells that there is nothing.
    extra = poll(running.service, 99)
    await await_for(lambda: running.desk.is_quiet(("default",)))
    sent.clear()

    more = [poll(running.service, 100 + n, wait=0.01) for n in range(20)]

    assert await asyncio.gather(*more) == [[]] * 20
    assert sent.count(LEASE) == 0
    await end([*first, extra])


async def test_a_poll_without_a_wait_looks_once_and_is_answered(
    running: Running, app: wherry.App
) -> None:
    assert await poll(running.service, wait=0) == []

    task = await app.aenqueue("t")

    [lease] = await poll(running.service, wait=0)
    assert lease.id == task.id


async def test_a_task_that_is_due_is_leased_though_nobody_has_promoted_it(
    running: Running, app: wherry.App, clock: wherry.testing.Clock
) -> None:
    task = await app.aenqueue("t", delay=3600)
    assert await poll(running.service, wait=0) == []

    clock.advance(hours=1, seconds=1)

    [lease] = await poll(running.service, wait=0)
    assert lease.id == task.id


async def test_a_waiting_poll_gets_a_delayed_task_when_it_is_due(
    running: Running, app: wherry.App
) -> None:
    waiting = poll(running.service)
    await settled(running, waiting=1)

    task = await app.aenqueue("t", delay=0.3)

    [lease] = await asyncio.wait_for(waiting, timeout=30)
    assert lease.id == task.id


async def test_queues_are_served_in_the_order_of_the_poll(
    running: Running, app: wherry.App
) -> None:
    for queue in ("a", "b", "c"):
        await app.aenqueue("t", queue=queue)

    leases = await poll(running.service, queues=["c", "nothing", "a", "b"], max_tasks=2)

    assert [lease.queue for lease in leases] == ["c", "a"]


async def test_a_poll_of_every_queue_hears_of_a_new_one(running: Running, app: wherry.App) -> None:
    waiting = poll(running.service, queues=["*"])
    await settled(running, "", waiting=1)

    task = await app.aenqueue("t", queue="never seen before")

    [lease] = await asyncio.wait_for(waiting, timeout=30)
    assert lease.id == task.id


async def test_only_the_polls_of_the_queue_are_woken(
    running: Running, app: wherry.App, sent: Sent
) -> None:
    here, there = poll(running.service, 1, queues=["a"]), poll(running.service, 2, queues=["b"])
    await settled(running, "a", "b", waiting=2)
    sent.clear()

    await app.aenqueue("t", queue="a")

    assert len(await here) == 1
    assert not there.done()
    assert sent.count(LEASE) == 1
    assert sent.count("queues/list_ready_of") == 0


async def test_polls_get_only_types_that_they_know(running: Running, app: wherry.App) -> None:
    mail = poll(running.service, 1, types=["mail"])
    print_ = poll(running.service, 2, types=["print"])
    await settled(running, waiting=2)

    await app.aenqueue("print")

    [lease] = await print_
    assert lease.type == "print"
    assert not mail.done()
    await app.aenqueue("mail")
    [lease] = await mail
    assert lease.type == "mail"


async def test_a_canceled_poll_leaves_and_its_task_goes_to_the_next(
    running: Running, app: wherry.App
) -> None:
    first, second = poll(running.service, 1), poll(running.service, 2)
    await settled(running, waiting=2)

    await end([first])
    task = await app.aenqueue("t")

    [lease] = await second
    assert lease.id == task.id


async def test_what_was_dealt_to_a_canceled_poll_is_leased_again_at_once(
    running: Running, app: wherry.App, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    task = await app.aenqueue("t")
    # The statement that leases stands still until this lock is gone.
    holder = connect(autocommit=False)
    holder.execute("lock table wherry.lease in exclusive mode")
    gone = poll(running.service, 1)
    await await_for(lambda: _waits_for_lock(connect()), what="the lease waits for the lock")

    gone.cancel()
    await asyncio.wait([gone])
    holder.rollback()

    [lease] = await asyncio.wait_for(poll(running.service, 2), timeout=30)
    assert lease.id == task.id
    # The attempt that nobody was given does not count.
    assert lease.attempt == 1
    assert lease.token & 0xFFFF == 2


async def test_what_could_not_be_delivered_is_leased_again_at_once(
    running: Running, app: wherry.App
) -> None:
    task = await app.aenqueue("t")
    leases = await poll(running.service, 1)

    await running.service.undelivered(leases)

    [lease] = await asyncio.wait_for(poll(running.service, 2), timeout=30)
    assert (lease.id, lease.attempt, lease.token) == (task.id, 1, leases[0].token + 1)


async def test_a_lease_that_nobody_confirms_in_time_goes_back_unstarted(
    running: Running, app: wherry.App
) -> None:
    task = await app.aenqueue("t")
    [lost] = await poll(running.service, 1, confirm_within=1)

    [lease] = await asyncio.wait_for(poll(running.service, 2), timeout=30)

    assert lease.id == lost.id == task.id
    assert (lease.attempt, lease.token) == (1, lost.token + 1)


async def test_fairness_between_workers_that_come_back(running: Running, app: wherry.App) -> None:
    """Workers that poll again and again get about as many tasks each."""
    await app.aenqueue_many([{"type": "t"}] * 60)
    got: Counter[int] = Counter()

    async def work(n: int) -> None:
        while leases := (
            await running.service.lease(ANYBODY, worker=f"w{n}", max_tasks=2, wait=0)
        ).leases:
            got[n] += len(leases)

    await asyncio.gather(*(work(n) for n in range(6)))

    assert sum(got.values()) == 60
    assert min(got.values()) >= 6


async def test_draining_answers_everybody_and_takes_nobody(
    running: Running, app: wherry.App
) -> None:
    polls = [poll(running.service, n) for n in range(5)]
    await settled(running, waiting=5)

    running.desk.drain()

    assert await asyncio.gather(*polls) == [[]] * 5
    with pytest.raises(wherry.Unavailable, match="shutting down"):
        await running.service.lease(ANYBODY, worker="late", wait=1)


async def end(polls: list[asyncio.Task[list[Lease]]]) -> None:
    for each in polls:
        each.cancel()
    await asyncio.wait(polls)


def _waits_for_lock(observer: psycopg.Connection[Any]) -> bool:
    with observer:
        row = observer.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
            # Maintenance may wait for the same lock.
            " and application_name = 'wherry server leasing'"
        ).fetchone()
    return bool(row and row[0])


async def test_without_notifications_a_look_every_second_finds_what_comes(
    app: wherry.App,
) -> None:
    async with running_service(app, ServerSettings(listen=False)) as running:
        named, every = poll(running.service, 1), poll(running.service, 2, queues=["*"])
        await await_for(lambda: running.desk.waiting == 2)

        await app.aenqueue("t")
        await app.aenqueue("t", queue="other")

        leases = await asyncio.wait_for(asyncio.gather(named, every), timeout=30)
    assert [len(each) for each in leases] == [1, 1]


async def test_more_polls_than_one_statement_serves_are_served_in_their_order(
    running: Running, app: wherry.App, sent: Sent
) -> None:
    polls = [poll(running.service, n) for n in range(250)]
    await settled(running, waiting=250)
    sent.clear()

    await app.aenqueue_many([{"type": "t"}] * 120)

    await asyncio.gather(*polls[:120])
    assert sum(each.done() for each in polls) == 120
    # The third looks from the front on whether the second has passed anything over.
    assert sent.count(LEASE) == 3
    await end(polls[120:])


async def test_a_released_task_wakes_who_waits(running: Running, app: wherry.App) -> None:
    await app.aenqueue("t")
    [lease] = await poll(running.service, 1)
    waiting = poll(running.service, 2)
    await settled(running, waiting=1)

    await app.arelease(lease)

    [again] = await asyncio.wait_for(waiting, timeout=30)
    assert again.id == lease.id


async def test_at_most_so_many_tasks_on_their_last_attempt(
    running: Running, app: wherry.App
) -> None:
    await app.aenqueue_many([{"type": "t", "max_attempts": 1}] * 3 + [{"type": "t"}] * 2)

    none = await poll(running.service, 1, max_tasks=5, max_last=0, wait=0)
    one = await poll(running.service, 2, max_tasks=5, max_last=1, wait=0)

    assert [lease.max_attempts for lease in none] == [20, 20]
    assert [lease.max_attempts for lease in one] == [1]


async def test_many_who_take_no_last_attempt_keep_none_from_who_does(
    running: Running, app: wherry.App
) -> None:
    choosy = [poll(running.service, n, max_last=0) for n in range(100)]
    await settled(running, waiting=100)
    waiting = poll(running.service, 100)
    await settled(running, waiting=101)

    await app.aenqueue("t", max_attempts=1)

    [lease] = await asyncio.wait_for(waiting, timeout=30)
    assert lease.max_attempts == 1
    assert not any(each.done() for each in choosy)


async def test_a_lease_that_is_confirmed_through_any_server_stays(
    running: Running, app: wherry.App, sent: Sent
) -> None:
    await app.aenqueue_many([{"type": "t"}] * 2)
    asked = {"max_tasks": 2, "confirm_within": 1, "lease_for": 30}
    here, there = map(write_lease_token, await poll(running.service, **asked))
    async with running_service(app) as other:
        await running.service.heartbeat(ANYBODY, leases=[here], extend_by=60)
        await other.service.heartbeat(ANYBODY, leases=[there], extend_by=60)

        await await_for(
            lambda: sent.count("leases/give_back_tasks"), what="the database was asked about one"
        )

        beaten = await running.service.heartbeat(ANYBODY, leases=[here, there])
    assert [beat.answer for beat in beaten.answers] == ["extended", "extended"]

"""Workers of a server: how they are listed, and how they hear what they are asked to do."""

from __future__ import annotations

import asyncio
import time
import uuid
from functools import partial

import pytest

import wherry
from tests.facts import await_for
from tests.statements import count_statements
from wherry.domain.worker import Directive, WorkerSeen
from wherry.errors import InvalidOption
from wherry.server.caller import ANYBODY, Caller, Right
from wherry.server.running import Running, running_service
from wherry.server.service import Leased, Service


def waiting(service: Service, worker: str = "w", wait: float = 30) -> asyncio.Task[Leased]:
    return asyncio.create_task(service.lease(ANYBODY, worker=worker, wait=wait))


async def listed(service: Service, *names: str) -> list[WorkerSeen]:
    async def found() -> list[list[WorkerSeen]]:
        seen = await service.list_workers(ANYBODY)
        return [seen] if sorted(each.name for each in seen) == sorted(names) else []

    found_ones: list[list[WorkerSeen]] = await await_for(found, what=f"{names} are listed")
    return found_ones[0]


async def test_who_polls_is_listed_with_what_it_serves(service: Service) -> None:
    somebody = Caller("token", frozenset(Right), ("*",), token_id="id", peer="10.1.2.3")

    await service.lease(somebody, worker="w", queues=["b", "a"], types=["t"])

    [worker] = await listed(service, "w")
    assert (worker.host, worker.pid, worker.alive) == ("10.1.2.3", None, True)
    assert (worker.queues, worker.types) == (("b", "a"), ("t",))


async def test_a_worker_without_types_knows_any_and_one_that_only_beats_knows_none(
    service: Service,
) -> None:
    await service.lease(ANYBODY, worker="any", queues=["*"])
    await service.heartbeat(ANYBODY, leases=[], worker="beats")

    polls, beats = sorted(await listed(service, "any", "beats"), key=lambda each: each.name)
    assert (polls.queues, polls.types) == (None, None)
    assert (beats.queues, beats.types) == ((), ())


async def test_many_newcomers_are_told_of_in_one_statement(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = count_statements(monkeypatch)
    names = [f"w{n}" for n in range(100)]

    await asyncio.gather(*(service.lease(ANYBODY, worker=name) for name in names))

    await listed(service, *names)
    # The first of them may have been told of by itself.
    assert sent.count("workers/beat_workers") <= 2


async def test_a_waiting_poll_is_answered_when_its_worker_is_to_drain(service: Service) -> None:
    polls = [waiting(service, name) for name in ("a", "b")]
    await listed(service, "a", "b")

    told = await service.direct_workers(ANYBODY, names=["a"], directive=Directive.DRAIN)

    answer = await asyncio.wait_for(polls[0], timeout=30)
    assert told == 1
    assert answer == Leased([], Directive.DRAIN)
    assert not polls[1].done()
    polls[1].cancel()
    await asyncio.wait(polls[1:])


async def test_a_draining_worker_waits_and_gets_nothing_until_it_may_go_on(
    service: Service, app: wherry.App
) -> None:
    poll = waiting(service)
    await listed(service, "w")
    await service.direct_workers(ANYBODY, names=["w"], directive=Directive.DRAIN)
    await asyncio.wait_for(poll, timeout=30)
    await app.aenqueue("t")

    short = await service.lease(ANYBODY, worker="w", wait=0.2)
    held = waiting(service)
    await service.direct_workers(ANYBODY, names=["w"], directive=Directive.NONE)

    assert short == Leased([], Directive.DRAIN)
    assert await asyncio.wait_for(held, timeout=30) == Leased([], Directive.NONE)
    assert len((await service.lease(ANYBODY, worker="w")).leases) == 1


async def test_a_stopped_worker_is_answered_at_once(service: Service, app: wherry.App) -> None:
    poll = waiting(service)
    await listed(service, "w")
    await service.direct_workers(ANYBODY, names=["w"], directive=Directive.STOP)
    await asyncio.wait_for(poll, timeout=30)
    await app.aenqueue("t")

    answer = await asyncio.wait_for(service.lease(ANYBODY, worker="w", wait=60), timeout=30)
    beaten = await service.heartbeat(ANYBODY, leases=[], worker="w")

    assert answer == Leased([], Directive.STOP)
    assert beaten.directive is Directive.STOP


async def test_a_worker_that_polls_for_this_and_that_is_not_told_of_at_each_turn(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.lease(ANYBODY, worker="w", queues=["a"])
    await listed(service, "w")
    sent = count_statements(monkeypatch)

    began = time.monotonic()
    for _ in range(40):
        await service.lease(ANYBODY, worker="w", queues=["a"], wait=0.02)
        await service.lease(ANYBODY, worker="w", queues=["b"], wait=0.02)
    took = time.monotonic() - began

    # Changes are told of every 5 s, and everybody is every 18 s.
    assert sent.count("workers/beat_workers") <= took / 5 + 1


async def test_a_worker_that_says_goodbye_is_not_listed_any_more(service: Service) -> None:
    await service.lease(ANYBODY, worker="w")
    await listed(service, "w")

    await service.leave_worker(ANYBODY, worker="w")

    await listed(service)


async def test_the_same_name_under_another_token_is_another_worker(service: Service) -> None:
    for token_id in ("one", "two"):
        somebody = Caller(token_id, frozenset(Right), ("*",), token_id=token_id)
        await service.lease(somebody, worker="w")

    one, two = await listed(service, "w", "w")

    assert one.instance != two.instance


async def test_what_was_asked_of_an_instance_holds_through_other_servers_and_restarts(
    service: Service, app: wherry.App
) -> None:
    instance = str(uuid.uuid4())
    await service.lease(ANYBODY, worker="w", instance=instance)
    [before] = await listed(service, "w")
    await service.direct_workers(ANYBODY, names=["w"], directive=Directive.DRAIN)
    await app.aenqueue("t")

    # A restarted server and another one are the same to it: neither has ever heard of it.
    async with running_service(app) as other:
        short = await other.service.lease(ANYBODY, worker="w", instance=instance)
        waited = await asyncio.wait_for(
            other.service.lease(ANYBODY, worker="w", instance=instance, wait=0.1), timeout=5
        )

        assert short == waited == Leased([], Directive.DRAIN)
        assert [worker.instance for worker in await listed(service, "w")] == [before.instance]


async def test_a_waiting_poll_that_is_a_servers_first_word_of_a_drained_worker_is_answered(
    service: Service, app: wherry.App
) -> None:
    instance = str(uuid.uuid4())
    await service.lease(ANYBODY, worker="w", instance=instance)
    await listed(service, "w")
    await service.direct_workers(ANYBODY, names=["w"], directive=Directive.STOP)
    await app.aenqueue("t")

    async with running_service(app) as other:
        poll = other.service.lease(ANYBODY, worker="w", instance=instance, wait=60)

        assert await asyncio.wait_for(poll, timeout=30) == Leased([], Directive.STOP)


async def test_a_new_process_under_the_name_of_a_drained_one_was_asked_for_nothing(
    service: Service, app: wherry.App
) -> None:
    await service.lease(ANYBODY, worker="w", instance=str(uuid.uuid4()))
    await listed(service, "w")
    await service.direct_workers(ANYBODY, names=["w"], directive=Directive.DRAIN)
    await app.aenqueue("t")

    leased = await service.lease(ANYBODY, worker="w", instance=str(uuid.uuid4()), wait=5)

    assert len(leased.leases) == 1
    assert leased.directive is Directive.NONE


async def test_nobody_is_the_instance_of_another_token_or_name(service: Service) -> None:
    instance = str(uuid.uuid4())
    for token_id, worker in (("a", "w"), ("b", "w"), ("a", "v")):
        somebody = Caller(token_id, frozenset(Right), ("*",), token_id=token_id)
        await service.heartbeat(somebody, leases=[], worker=worker, instance=instance)

    seen = await listed(service, "v", "w", "w")
    somebody = Caller("b", frozenset(Right), ("*",), token_id="b")
    await service.leave_worker(somebody, worker="w", instance=instance)

    assert len({worker.instance for worker in seen}) == 3
    assert instance not in {worker.instance for worker in seen}
    left = {worker.instance for worker in await listed(service, "v", "w")}
    assert left < {worker.instance for worker in seen}


async def test_a_goodbye_that_reaches_another_server_is_one(
    service: Service, app: wherry.App
) -> None:
    instance = str(uuid.uuid4())
    async with running_service(app) as other:
        await other.service.heartbeat(ANYBODY, leases=[], worker="w", instance=instance)
        await listed(service, "w")

    await service.leave_worker(ANYBODY, worker="w", instance=instance.upper())

    await listed(service)


@pytest.mark.parametrize("instance", ["w", "0" * 31, "x" * 100_000, "é" * 36])
async def test_an_instance_that_is_no_uuid_is_refused(service: Service, instance: str) -> None:
    with pytest.raises(InvalidOption, match="UUID"):
        await service.lease(ANYBODY, worker="w", instance=instance)


async def test_two_servers_wake_the_polls_of_one_another(running: Running, app: wherry.App) -> None:
    async with running_service(app) as other:
        polls = [waiting(running.service, "here"), waiting(other.service, "there")]
        for desk in (running.desk, other.desk):
            await await_for(partial(desk.hears, ("default",)))

        await app.aenqueue_many([{"type": "t"}] * 2)

        leased = await asyncio.wait_for(asyncio.gather(*polls), timeout=30)
        assert [len(each.leases) for each in leased] == [1, 1]

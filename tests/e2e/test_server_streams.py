"""What lies between server and worker: cut connections, answers that get lost, and distance."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta

import grpc
import pytest

import wherry
from tests.e2e.proxy import Cut, Proxy
from tests.e2e.servers import Fleet, Notes, ServerProcess
from tests.facts import await_for, wait_for
from wherry.server.auth import Authenticator, Polls
from wherry.server.grpc import GrpcDoor, GrpcSettings
from wherry.server.running import running_service
from wherry.transport.grpc import channel
from wherry.wire.v1 import leases_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

# HTTP/2 names a method in full once a connection; the next bytes differ.
LEASE = b"/wherry.v1.TaskQueue/Lease"
REPORT = b"/wherry.v1.TaskQueue/Report"
# A handler is given 30 s before its task would come back because the lease ran out.
WITHIN_A_LEASE = 25.0


@pytest.fixture
def server(fleet: Fleet, dsn: str) -> ServerProcess:
    return fleet.server(dsn)


@pytest.fixture
def proxy(server: ServerProcess) -> Iterator[Proxy]:
    """A proxy in front of the server's gRPC port."""
    with Proxy(server.grpc) as proxy:
        yield proxy


@pytest.fixture
def queue(dsn: str) -> Iterator[wherry.App]:
    """An App on the database itself, which only enqueues and looks."""
    with wherry.App(dsn) as app:
        yield app


def leasing(proxy: Proxy) -> int:
    """Count the connections over which somebody has leased."""
    return sum(connection.carries(LEASE) for connection in proxy.connections)


def check_untouched(queue: wherry.App, ids: list[int]) -> None:
    """Check that all succeeded in their first attempt, and that nothing else ever began."""
    for id_ in ids:
        task = queue.get_task(id_)
        assert task is not None
        assert (task.state, task.attempts, task.history) == ("succeeded", 1, ())


def test_a_worker_whose_idle_connection_was_cut_starts_the_next_task_at_once(
    fleet: Fleet, proxy: Proxy, queue: wherry.App, notes: Notes
) -> None:
    """API-01: cut again and again while it waits, its long poll is there again each time."""
    fleet.worker(proxy.address, notes=notes.dsn)
    wait_for(lambda: notes.waiting() == 1, seconds=20, what="it waits for tasks")

    for n in range(3):
        before = leasing(proxy)
        assert proxy.cut("reset") >= 1
        wait_for(lambda before=before: leasing(proxy) > before, seconds=10)  # type: ignore[misc]
        id_ = queue.enqueue("effect", {"n": n}).id
        # A poll that was not there again would find it after half a minute.
        wait_for(lambda id_=id_: notes.of(id_), seconds=15)  # type: ignore[misc]


async def test_a_connection_that_died_without_a_word_is_given_up_by_its_client(
    server: ServerProcess, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-01: long before the poll's own time is over; a ping each 20 s is one a second here."""
    options = dict(channel._OPTIONS)
    assert 0 < options["grpc.keepalive_time_ms"] <= 20_000
    options["grpc.keepalive_time_ms"] = 1000
    monkeypatch.setattr(channel, "_OPTIONS", list(options.items()))
    with Proxy(server.grpc) as proxy:
        async with wherry.App(proxy.address) as remote:
            poll = asyncio.create_task(remote.alease(worker="w", wait=30))
            await await_for(lambda: notes.waiting() == 1)

            assert proxy.cut("silent") == 1

            async with asyncio.timeout(15):
                with pytest.raises(wherry.Unavailable):
                    await poll


async def test_a_client_that_died_without_a_word_is_noticed_by_its_server(
    app: wherry.App,
) -> None:
    """API-01, API-04: then nobody waits in its place for a task that it would never get."""
    settings = GrpcSettings(
        address="127.0.0.1:0", ping_every=timedelta(seconds=1), ping_timeout=timedelta(seconds=1)
    )
    async with running_service(app) as running, AsyncExitStack() as stack:
        authenticator = Authenticator(app, required=False)
        stack.push_async_callback(authenticator.aclose)
        door = GrpcDoor(running.service, authenticator, Polls(), settings)
        proxy = stack.enter_context(Proxy(await door.start()))
        stack.push_async_callback(door.stop, 0.5)
        remote = await stack.enter_async_context(wherry.App(proxy.address))
        poll = asyncio.create_task(remote.alease(worker="w", wait=30))
        await await_for(lambda: running.desk.waiting == 1)

        assert proxy.cut("silent") == 1

        await await_for(lambda: running.desk.waiting == 0, seconds=15)
        poll.cancel()
        await asyncio.wait([poll])


def test_answers_that_are_lost_on_the_way_cost_a_worker_no_attempt(
    fleet: Fleet, proxy: Proxy, queue: wherry.App, notes: Notes
) -> None:
    """API-04: the task was leased, and its worker never heard of it; long before the lease ends."""
    fleet.worker(proxy.address, notes=notes.dsn, options="--concurrency 1")
    wait_for(lambda: notes.waiting() == 1, seconds=20, what="it waits for tasks")
    marks = [f"swallowed {n}" for n in range(6)]
    for mark, how in zip(marks, ["reset", "half"] * 3, strict=True):
        proxy.trap(mark.encode(), how)  # type: ignore[arg-type]
    begun_at = time.monotonic()

    ids = [queue.enqueue("effect", {"n": 0, "seconds": 0}, tags=[mark]).id for mark in marks]
    notes.wait_until_done(len(ids), seconds=WITHIN_A_LEASE)

    assert time.monotonic() - begun_at < WITHIN_A_LEASE
    assert len(proxy.swallowed) == len(marks)
    check_untouched(queue, ids)
    assert len(notes.all()) == len(ids)


def test_fifty_leases_that_never_arrived_go_back_within_seconds(
    fleet: Fleet, proxy: Proxy, queue: wherry.App, notes: Notes
) -> None:
    """API-04: by the contract alone, cut between claim and delivery in every way there is."""
    n, lease_seconds = 50, 600
    ids = [queue.enqueue("effect", {"n": i}, tags=[f"swallowed {i};"]).id for i in range(n)]
    for i in range(n):
        ways: list[Cut] = ["reset", "half", "silent"]
        proxy.trap(f"swallowed {i};".encode(), ways[i % 3])

    def lose_one(i: int) -> grpc.StatusCode | None:
        asked = leases_pb2.LeaseRequest(worker_id=f"w{i}", max_tasks=1)
        asked.lease_duration.FromSeconds(lease_seconds)
        asked.confirm_within.FromSeconds(3)
        asked.wait.FromSeconds(1)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        with grpc.insecure_channel(proxy.name, options) as channel:
            try:
                TaskQueueStub(channel).Lease(asked, timeout=3)
            except grpc.RpcError as error:
                code: grpc.StatusCode = error.code()
                return code
        return None

    with ThreadPoolExecutor(10) as pool:
        lost = list(pool.map(lose_one, range(n)))
    assert set(lost) <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
    assert len(proxy.swallowed) == n
    fleet.worker(proxy.address, notes=notes.dsn)
    notes.wait_until_done(n, seconds=20)

    # In their first attempt, each begun once, and not one of these leases had run out.
    check_untouched(queue, ids)
    begun = {note.task: note.at for note in notes.all()}
    assert len(notes.all()) == n
    lost_at = max(at for _, at in proxy.swallowed)
    assert max(begun.values()) - lost_at < 15


def test_a_report_whose_answer_was_lost_is_sent_again_and_counts_once(
    fleet: Fleet, proxy: Proxy, queue: wherry.App, notes: Notes
) -> None:
    """A5: the server has stored it, and its worker cannot know."""
    worker = fleet.worker(proxy.address, notes=notes.dsn)
    wait_for(lambda: notes.waiting() == 1, seconds=20, what="it waits for tasks")
    proxy.unanswered = REPORT
    before = len(proxy.connections)

    id_ = queue.enqueue("effect", {"n": 1}).id
    wait_for(lambda: notes.done() == 1, seconds=20)
    wait_for(lambda: len(proxy.connections) > before, seconds=20, what="it has come back")
    worker.send(signal.SIGTERM)

    # With 1 it would say that an outcome could not be told.
    assert worker.ended(within=15) == 0, worker.log
    assert "outcomes are kept until they can be told" in worker.log
    check_untouched(queue, [id_])
    assert len(notes.of(id_)) == 1


def test_a_worker_whose_polls_are_cut_keeps_what_it_runs(
    fleet: Fleet, proxy: Proxy, queue: wherry.App, notes: Notes
) -> None:
    """DBL-17: heartbeats go over a connection of their own, and are taken; it begins once."""
    fleet.worker(proxy.address, notes=notes.dsn, options="--lease-for 2s")
    id_ = queue.enqueue("effect", {"n": 1, "seconds": 6}).id
    wait_for(lambda: notes.of(id_), seconds=20)

    # For more than two leases every connection on which it asks for tasks is cut.
    proxy.forbidden = LEASE
    cuts_before = leasing(proxy)
    assert proxy.cut("reset", carrying=LEASE) >= 1
    wait_for(lambda: leasing(proxy) >= cuts_before + 3, seconds=15)
    begun_at = notes.of(id_)[0].at
    wait_for(lambda: time.monotonic() > begun_at + 5, seconds=10)
    held = queue.get_task(id_)
    proxy.forbidden = None
    notes.wait_until_done(1, seconds=15)

    assert held is not None
    assert (held.state, held.attempts) == ("leased", 1)
    check_untouched(queue, [id_])
    assert len(notes.of(id_)) == 1
    # And tasks come to it again.
    later = queue.enqueue("effect", {"n": 2}).id
    wait_for(lambda: notes.of(later), seconds=10)


async def test_results_of_tasks_that_are_quicker_than_whoever_waits_all_come(
    fleet: Fleet, server: ServerProcess, notes: Notes
) -> None:
    """API-05: 2,000 tasks, of which many have ended before their result is asked for."""
    await asyncio.to_thread(fleet.worker, server.address, notes=notes.dsn)
    seconds: list[float] = []

    async with wherry.App(server.address) as remote, asyncio.timeout(60):

        async def square(n: int) -> int:
            begun = time.monotonic()
            made = await remote.aenqueue("squares", {"n": n}, retry=wherry.Fixed(0))
            found: int = await made.aresult(timeout=30)
            seconds.append(time.monotonic() - begun)
            return found

        results: list[int] = []
        for first in range(0, 2_000, 40):
            results += await asyncio.gather(*(square(n) for n in range(first, first + 40)))

    assert results == [n * n for n in range(2_000)]
    print(f"longest: {max(seconds):.3f} s")


def test_distance_costs_no_lease_and_runs_nothing_twice(
    fleet: Fleet, server: ServerProcess, queue: wherry.App, notes: Notes
) -> None:
    """DBL-01: 200 ms each way, leases of 2 s, handlers that take longer than one."""
    n = 20
    with Proxy(server.grpc, seconds_each_way=0.2) as far:
        fleet.worker(far.address, notes=notes.dsn, options="--concurrency 10 --lease-for 2s")
        queue.enqueue_many(
            {"type": "effect", "payload": json.loads(json.dumps({"n": i, "seconds": 2.5}))}
            for i in range(n)
        )
        notes.wait_until_done(n, seconds=WITHIN_A_LEASE)

    rows = notes.ask("select id from wherry.finished")
    check_untouched(queue, [id_ for (id_,) in rows])
    assert len(notes.all()) == n

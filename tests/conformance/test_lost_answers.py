"""What happens when an answer gets lost, a server is away, or does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

import psycopg
import pytest

import wherry
from tests.conformance.conftest import served
from tests.conformance.cutting import Cutting
from tests.facts import await_for
from tests.worker.support import at_work, finished, get, until
from wherry.commands.remote import GetServer
from wherry.domain.state import State
from wherry.domain.worker import WorkerSeen
from wherry.dsn import read_server
from wherry.transport.grpc.client import GrpcTransport
from wherry.worker import keeper

MARK = "mark-me-4711"


@pytest.fixture
def cutting(address: str) -> Iterator[Callable[..., Cutting]]:
    made: list[Cutting] = []

    def make(**options: Any) -> Cutting:
        made.append(Cutting(read_server(address).port, MARK.encode(), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


async def test_an_enqueue_with_a_key_is_sent_again_and_is_one_task(
    cutting: Callable[..., Cutting], database: wherry.App
) -> None:
    cut = cutting()
    async with wherry.App(cut.address) as app:
        made = await app.aenqueue_many(
            [{"type": "t", "payload": {"mark": MARK}, "key": f"k{n}"} for n in range(3)]
        )

    assert cut.cuts == 1
    tasks = (await database.alist_tasks()).tasks
    assert sorted(each.id for each in made) == sorted(task.id for task in tasks)
    assert len(tasks) == 3


@pytest.mark.parametrize("key", [{}, {"key": "k", "key_ttl": 0}, {"key": "k", "key_ttl": 60}])
async def test_an_enqueue_that_no_key_names_for_long_is_not_sent_again_and_says_so(
    cutting: Callable[..., Cutting], database: wherry.App, key: dict[str, Any]
) -> None:
    """A key that is free as soon as the task has ended would let it be stored once more."""
    cut = cutting()
    async with wherry.App(cut.address) as app:
        with pytest.raises(wherry.Unavailable, match=r"may have been stored.* with a key"):
            await app.aenqueue("t", {"mark": MARK}, **key)
        # Something that is sent again finds out that the old connection is gone.
        await app.aget_task(1)
        await app.aenqueue("t", {"mark": ""})

    assert cut.cuts == 1
    assert len((await database.alist_tasks()).tasks) == 2


async def test_a_lost_lease_answer_costs_no_attempt(
    cutting: Callable[..., Cutting], database: wherry.App
) -> None:
    cut = cutting(in_answer=True)
    async with wherry.App(cut.address) as app:

        @app.task(name="t", max_attempts=1)
        async def t(mark: str) -> None:
            pass

        async with at_work(app):
            id_ = (await database.aenqueue("t", {"mark": MARK}, max_attempts=1)).id
            task = await finished(database, id_, seconds=30)

    assert cut.cuts == 1
    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())


async def test_a_lost_answer_to_a_report_is_asked_for_again(
    cutting: Callable[..., Cutting], database: wherry.App
) -> None:
    cut = cutting()
    runs: list[str] = []
    async with wherry.App(cut.address) as app:

        @app.task(name="t", store_result=True)
        async def t() -> str:
            runs.append("once")
            return MARK

        async with at_work(app):
            id_ = (await database.aenqueue("t")).id
            task = await finished(database, id_)
            await await_for(lambda: cut.cuts == 1)

    assert (task.state, task.result, runs) == (State.SUCCEEDED, MARK, ["once"])


async def test_a_server_that_comes_back_in_time_is_waited_for(dsn: str) -> None:
    port = free_port()
    async with wherry.App(f"grpc://127.0.0.1:{port}", pool_timeout=20) as app:
        # Without a key: what never left can be sent again.
        enqueuing = asyncio.create_task(app.aenqueue("t"))
        await asyncio.sleep(0.3)
        assert not enqueuing.done()

        async with served(dsn, port=port):
            made = await enqueuing
            assert await app.aget_task(made.id) is not None


async def test_a_server_that_stays_away_is_told_in_time() -> None:
    begun = monotonic()
    async with wherry.App(f"grpc://127.0.0.1:{free_port()}", pool_timeout=0.5) as app:
        with pytest.raises(wherry.Unavailable, match="refused"):
            await app.aenqueue("t")
        with pytest.raises(wherry.Unavailable, match="refused"):
            await asyncio.to_thread(lambda: app.enqueue("t"))

    assert monotonic() - begun < 10


@pytest.mark.parametrize("talks", [False, True], ids=["silent", "something else"])
async def test_what_is_no_server_is_told_in_time(talks: bool) -> None:
    def answer() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    if talks:
                        client.sendall(b"220 mail.example ESMTP\r\n")
                    while client.recv(4096):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = read_server(f"grpc://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=answer)
        thread.start()
        transport = GrpcTransport(address, answer_seconds=1.0)
        try:
            async with asyncio.timeout(30):
                with pytest.raises(wherry.Unavailable):
                    await transport.call(GetServer())
        finally:
            await transport.close()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


async def test_a_worker_goes_on_when_its_server_is_started_again(
    dsn: str, database: wherry.App
) -> None:
    """Also with what it was running meanwhile, of which it reports to the new one."""
    port = free_port()
    go_on, begun = asyncio.Event(), asyncio.Event()
    async with wherry.App(f"grpc://127.0.0.1:{port}") as app:

        @app.task(name="t", max_attempts=1)
        async def t() -> None:
            begun.set()
            await go_on.wait()

        first = (await database.aenqueue("t", max_attempts=1)).id
        async with at_work(app):
            async with served(dsn, port=port):
                await begun.wait()
            go_on.set()
            await asyncio.sleep(0.5)
            assert (await get(database, first)).state is State.LEASED
            async with served(dsn, port=port):
                second = (await database.aenqueue("t", max_attempts=1)).id
                tasks = [await finished(database, id_) for id_ in (first, second)]

    assert [(task.state, task.attempts) for task in tasks] == [(State.SUCCEEDED, 1)] * 2


async def test_a_drained_worker_stays_drained_when_its_server_is_started_again(
    dsn: str,
    database: wherry.App,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "wherry.worker")
    monkeypatch.setattr(keeper, "_BEAT_WORKER_EVERY", 0.1)
    monkeypatch.setattr(keeper.Keeper, "_pause", lambda _: 0.1)
    port = free_port()
    async with wherry.App(f"grpc://127.0.0.1:{port}") as app:

        @app.task(name="t")
        async def t() -> None:
            pass

        async def one() -> list[WorkerSeen]:
            return [worker for worker in await database.alist_workers() if worker.alive]

        async with at_work(app, name="w1"):
            async with served(dsn, port=port):
                await until(one, what="the worker is listed")
                [before] = await one()
                await app.adirect_workers(["w1"], "drain")
                await await_for(lambda: "told to drain" in caplog.text)
            async with served(dsn, port=port):
                task = (await database.aenqueue("t")).id

                async def beaten() -> bool:
                    return [worker.beat_at > before.beat_at for worker in await one()] == [True]

                await until(beaten, what="the worker is heard of by the new server")
                assert [worker.instance for worker in await one()] == [before.instance]
                assert (await get(database, task)).state is State.QUEUED
                await app.adirect_workers(["w1"], "none")
                assert (await finished(database, task)).state is State.SUCCEEDED


async def test_an_idle_worker_asks_no_more_than_it_has_to(
    remote: wherry.App, connect: Callable[..., psycopg.Connection[Any]], monkeypatch: Any
) -> None:
    """No hot loop, neither while nothing comes nor while the server is away."""
    polls: list[float] = []
    call = GrpcTransport.call

    async def counted(self: GrpcTransport, command: Any) -> Any:
        if type(command).__name__ == "PollTasks":
            polls.append(monotonic())
        return await call(self, command)

    monkeypatch.setattr(GrpcTransport, "call", counted)

    @remote.task(name="t")
    async def t() -> None:
        pass

    async with at_work(remote):
        await asyncio.sleep(1.5)
        idle = len(polls)
    async with wherry.App(f"grpc://127.0.0.1:{free_port()}") as nowhere:
        nowhere.task(name="t")(t.function)
        polls.clear()
        begun = monotonic()
        async with at_work(nowhere):
            await asyncio.sleep(1.5)

    assert idle <= 2
    assert len(polls) <= 8 * (monotonic() - begun)

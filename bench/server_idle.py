"""What idle long polls cost: statements at the database, CPU of the server, time of other calls.

Each poll is of its own worker over its own connection. Calls to the server with the polls alternate
with calls to one without on the same database. The server's maintenance is counted too, and
whatever else PostgreSQL commits meanwhile. Sessions tell their counts up to ten seconds late: as
late before the window as after it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from time import perf_counter, sleep
from typing import Any

import grpc.aio

import wherry
from wherry.bench import drain, handlers
from wherry.bench.children import Children, Ready
from wherry.bench.claims import SCHEMA
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.place import Place
from wherry.bench.server_process import Served
from wherry.commands.leases import CompleteTasks
from wherry.domain.lease import Reported
from wherry.domain.outcome import Completed
from wherry.wire.v1 import leases_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

WAIT_SECONDS = 60
BEAT_SECONDS = 10.0
SETTLING_SECONDS = 12.0
# Those of reading the meters that fall between their two readings.
_OWN_STATEMENTS = 3
_MOST_AT_ONCE = 1000
_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


def wait_in_line(
    ready: Ready, *, address: str, polls: int, queues: int, beating: bool
) -> dict[str, Any]:
    """Keep so many polls waiting, on so many queues in turn, until SIGTERM."""
    return asyncio.run(_wait(ready, address, polls, queues, beating))


async def _wait(
    ready: Ready, address: str, polls: int, queues: int, beating: bool
) -> dict[str, Any]:
    answered = leased = 0
    target = address.removeprefix("grpc://")

    async def poll(number: int) -> None:
        nonlocal answered, leased
        async with grpc.aio.insecure_channel(target, options=_OWN_CONNECTION) as channel:
            stub: Any = TaskQueueStub(channel)
            request = leases_pb2.LeaseRequest(
                worker_id=f"idle-{number}",
                queues=[f"idle-{number % queues}"],
                # Tasks of a type that no live worker knows would be parked.
                types=[handlers.nothing.name],
            )
            request.wait.FromSeconds(WAIT_SECONDS)
            async with asyncio.TaskGroup() as group:
                if beating:
                    group.create_task(beat(stub, number))
                while True:
                    answer = await stub.Lease(request, timeout=WAIT_SECONDS + 20)
                    answered += 1
                    leased += len(answer.tasks)

    async def beat(stub: Any, number: int) -> None:
        await asyncio.sleep(BEAT_SECONDS * number / polls)
        while True:
            await stub.Heartbeat(leases_pb2.HeartbeatRequest(worker_id=f"idle-{number}"))
            await asyncio.sleep(BEAT_SECONDS)

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    waiting = [asyncio.create_task(poll(number)) for number in range(polls)]
    await asyncio.to_thread(ready)
    stopping = asyncio.create_task(stopped.wait())
    done, _ = await asyncio.wait([stopping, *waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        # Raises what a poll ended with, which none should.
        task.result()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return {"answered": answered, "leased": leased}


def complete(ready: Ready, *, addresses: list[str], tasks: int) -> dict[str, Any]:
    """Lease all there is, then complete it one by one through each server in turn.

    Tells how long the calls of each took: whatever else the machine does meanwhile, both meet it.
    """
    app = handlers.app
    app.move(addresses[0])
    leases: list[wherry.Lease] = []
    while more := app.lease(
        worker="busy", queues=[handlers.QUEUE], max_tasks=_MOST_AT_ONCE, lease_for=600
    ):
        leases += more
    once = {json.loads(lease.payload_text)["n"] for lease in leases}
    if once != set(range(tasks)):
        raise BenchmarkFailed(f"lost or doubled: {len(once)} of {tasks} were leased")
    apps = [wherry.App(address, schema=SCHEMA) for address in addresses]
    took: list[list[float]] = [[] for _ in apps]
    ready()
    for number, lease in enumerate(leases):
        # To and fro, so that none is always the second.
        turn = (number + number // 2) % len(apps)
        began = perf_counter()
        [answer] = apps[turn].carry(CompleteTasks((Completed(lease, None),)))
        took[turn].append((perf_counter() - began) * 1000)
        if answer is not Reported.DONE:
            raise BenchmarkFailed(f"a task was not done but {answer}")
    for each in (app, *apps):
        each.close()
    return {"took": took}


def one_run(
    place: Place, *, polls: int, queues: int, beating: bool, seconds: float, calls: int
) -> dict[str, float]:
    """Measure a server with so many idle polls, then calls of it and of one without by turns."""
    place.renew()
    drain.fill(place, calls)
    # So that autovacuum, whose commits are counted too, has little to do.
    place.query("vacuum analyze")
    with Served(place.dsn) as served, Children() as children:
        line = children.start(
            "bench.server_idle:wait_in_line",
            address=served.grpc, polls=polls, queues=queues, beating=beating,
        )  # fmt: skip
        line.wait_until_ready()
        line.go()
        # Until all wait, and none of them is news.
        sleep(SETTLING_SECONDS)
        before, cpu, vacuumed = place.read(), served.cpu(), _vacuumed(place)
        sleep(seconds)
        spent, cpu = place.spent(before), served.cpu() - cpu
        vacuumed = _vacuumed(place) - vacuumed
        with Served(place.dsn) as other:
            completing = children.start(
                "bench.server_idle:complete", addresses=[served.grpc, other.grpc], tasks=calls
            )
            completing.wait_until_ready()
            completing.go()
            beside, alone = (sorted(took) for took in completing.result()["took"])
        line.stop()
        waited = line.result()
        if waited["leased"]:
            raise BenchmarkFailed(f"idle polls were answered with {waited['leased']} tasks")
    place.must_have_succeeded(calls)
    n = len(alone)
    return {
        "statements/s": (spent.commits - _OWN_STATEMENTS) / spent.seconds,
        # Each is a commit or two among these statements: above zero, they are none of ours.
        "autovacuums": vacuumed,
        "server CPU %": cpu / spent.seconds * 100,
        "postgres CPU %": spent.server_cpu / spent.seconds * 100,
        "complete p50": beside[n // 2],
        "alone p50": alone[n // 2],
        "complete p99": beside[n * 99 // 100],
        "alone p99": alone[n * 99 // 100],
    }


def _vacuumed(place: Place) -> int:
    [[found]] = place.query(
        "select sum(autovacuum_count + autoanalyze_count)::bigint from pg_stat_all_tables"
    )
    return int(found)

"""Callers that leave in the middle of everything: no task is lost, and no attempt is spent."""

from __future__ import annotations

import asyncio
import random

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from tests.facts import await_for
from tests.server.grpc.asking import Stub, becomes
from wherry.server.desk import Desk
from wherry.wire.v1 import leases_pb2, tasks_pb2

POLLS, TASKS = 200, 150
REQUEST = leases_pb2.LeaseRequest(
    worker_id="w", queues=["mail"], wait=Duration(seconds=30), confirm_within=Duration(seconds=1)
)


async def test_what_was_leased_for_callers_that_left_comes_back_uncounted(
    stub: Stub, desk: Desk
) -> None:
    chance = random.Random(7)
    held: dict[int, int] = {}

    async def take(call: grpc.aio.UnaryUnaryCall[leases_pb2.LeaseRequest, object]) -> None:
        response = await call
        assert isinstance(response, leases_pb2.LeaseResponse)
        for task in response.tasks:
            # Who has it says so.
            await stub.Heartbeat(leases_pb2.HeartbeatRequest(leases=[task.lease]))
            assert task.id not in held
            held[task.id] = task.attempt

    calls = [stub.Lease(REQUEST) for _ in range(POLLS)]
    takers = [asyncio.create_task(take(call)) for call in calls]
    await await_for(lambda: desk.waiting == POLLS)
    task = tasks_pb2.EnqueueRequest(type="shop.send", queue="mail")
    leaving = chance.sample(range(POLLS), POLLS // 2)

    async def store() -> set[int]:
        ids: set[int] = set()
        for _ in range(TASKS // 10):
            batch = tasks_pb2.EnqueueBatchRequest(tasks=[task] * 10)
            ids |= {result.task.id for result in (await stub.EnqueueBatch(batch)).results}
        return ids

    async def leave() -> None:
        for number in leaving:
            await asyncio.sleep(chance.random() * 0.002)
            calls[number].cancel()

    stored, _ = await asyncio.gather(store(), leave())
    await asyncio.wait([takers[number] for number in leaving], timeout=10)

    async def all_are_held() -> bool:
        await take(stub.Lease(leases_pb2.LeaseRequest(worker_id="w", queues=["mail"])))
        return set(held) == stored

    await becomes(all_are_held, seconds=20)
    assert set(held.values()) == {1}
    for taker in takers:
        taker.cancel()
    await asyncio.gather(*takers, return_exceptions=True)

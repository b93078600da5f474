"""What a caller of a server says of its trace is kept with the tasks that it enqueues."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio
import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import wherry
from tests.worker.support import get
from wherry.config import ServerSettings
from wherry.integrations.opentelemetry import instrument
from wherry.server.run import Server
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub
from wherry.wire.v1.tasks_pb2 import EnqueueRequest

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "vendor=1"


@pytest.fixture
async def server(app: wherry.App) -> AsyncIterator[Server]:
    here = ServerSettings(grpc_address="127.0.0.1:0", http_address="127.0.0.1:0")
    async with Server(app, here) as made:
        yield made


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    base = f"{server.bound.http_url}/api/v1"
    async with httpx.AsyncClient(base_url=base, timeout=10, trust_env=False) as made:
        yield made


async def test_over_http(app: wherry.App, client: httpx.AsyncClient) -> None:
    headers = {"traceparent": PARENT, "tracestate": STATE}

    one = await client.post("/tasks", json={"type": "t"}, headers=headers)
    many = await client.post("/tasks:batch", json={"tasks": [{"type": "t"}] * 2}, headers=headers)
    without = await client.post("/tasks", json={"type": "t"})

    ids = [one.json()["id"], *(each["task"]["id"] for each in many.json()["results"])]
    assert len(ids) == 3
    for id in ids:
        assert (await get(app, int(id))).headers == headers
    assert (await get(app, int(without.json()["id"]))).headers == {}


async def test_over_grpc(app: wherry.App, server: Server) -> None:
    async with grpc.aio.insecure_channel(str(server.bound.grpc)) as channel:
        stub = TaskQueueStub(channel)
        answer = await stub.Enqueue(EnqueueRequest(type="t"), metadata=(("traceparent", PARENT),))

    assert (await get(app, answer.id)).headers == {"traceparent": PARENT}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        PARENT + "-",
        PARENT.upper(),
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
    ],
)
async def test_what_has_not_the_form_is_not_kept(
    app: wherry.App, client: httpx.AsyncClient, parent: str
) -> None:
    stored = await client.post("/tasks", json={"type": "t"}, headers={"traceparent": parent})

    assert (await get(app, int(stored.json()["id"]))).headers == {}


async def test_a_server_that_traces_stands_between_caller_and_task(
    app: wherry.App, client: httpx.AsyncClient
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument(app, tracer_provider=provider)

    stored = await client.post("/tasks", json={"type": "t"}, headers={"traceparent": PARENT})

    [sent] = exporter.get_finished_spans()
    assert sent.parent is not None
    assert sent.context is not None
    assert f"{sent.parent.trace_id:032x}-{sent.parent.span_id:016x}" in PARENT
    headers = (await get(app, int(stored.json()["id"]))).headers
    assert headers["traceparent"].startswith(
        f"00-{sent.context.trace_id:032x}-{sent.context.span_id:016x}-"
    )

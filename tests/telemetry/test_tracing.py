"""Spans: where tasks are enqueued and for each attempt, joined by a link; none without an SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import wherry
from tests.worker.support import drained, get
from wherry.domain.options import HEADERS_LIMIT_BYTES
from wherry.domain.retry import Fixed
from wherry.integrations.opentelemetry import instrument, uninstrument

Spans = Callable[[], dict[str, list[ReadableSpan]]]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def spans(app: wherry.App, provider: TracerProvider, exporter: InMemorySpanExporter) -> Spans:
    """Trace the App; gives what has ended, by name and in order."""
    instrument(app, tracer_provider=provider)

    def found() -> dict[str, list[ReadableSpan]]:
        by_name: dict[str, list[ReadableSpan]] = {}
        for span in exporter.get_finished_spans():
            by_name.setdefault(span.name, []).append(span)
        return by_name

    return found


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context: trace.SpanContext | None = span.context
    assert context is not None
    return context


def is_sampled(headers: dict[str, str]) -> bool:
    return bool(int(headers["traceparent"].rpartition("-")[2], 16) & 1)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def place(span: ReadableSpan) -> tuple[int, int]:
    return context_of(span).trace_id, context_of(span).span_id


async def test_an_attempt_is_linked_to_where_its_task_was_enqueued(
    app: wherry.App, spans: Spans, provider: TracerProvider
) -> None:
    inside: list[int] = []

    @app.task(name="send", queue="mail")
    async def send(to: str) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    with provider.get_tracer("shop").start_as_current_span("order"):
        enqueued = await app.aenqueue("send", {"to": "ada"}, queue="mail")
    await drained(app)

    found = spans()
    [order], [sent], [ran] = found["order"], found["enqueue mail"], found["run mail"]
    assert (sent.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert sent.parent is not None
    assert sent.parent.span_id == context_of(order).span_id
    assert linked(ran) == [place(sent)]
    # A trace of its own: the task may run days later.
    assert ran.parent is None
    assert context_of(ran).trace_id != context_of(sent).trace_id
    assert inside == [context_of(ran).span_id]
    assert dict(sent.attributes or {}) == {
        "messaging.system": "wherry",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(enqueued.id),
        "wherry.task.type": "send",
        "wherry.task.created": True,
    }
    assert dict(ran.attributes or {}) == {
        "messaging.system": "wherry",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(enqueued.id),
        "messaging.client.id": "w1",
        "wherry.task.type": "send",
        "wherry.task.attempt": 1,
        "wherry.task.max_attempts": 20,
        "wherry.outcome": "succeeded",
    }
    assert ran.status.status_code is StatusCode.UNSET


async def test_in_a_transaction_of_the_callers_too(app: wherry.App, dsn: str, spans: Spans) -> None:
    @app.task(name="t")
    def t() -> None: ...

    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await t.using(tx=connection).aenqueue()
        await connection.rollback()
        await t.using(tx=connection).aenqueue()
    await drained(app)

    found = spans()
    _, committed = found["enqueue default"]
    assert [linked(span) for span in found["run default"]] == [[place(committed)]]


def test_blocking_calls_too(app: wherry.App, spans: Spans) -> None:
    id = app.enqueue("t").id

    [sent] = spans()["enqueue default"]
    task = app.get_task(id)
    assert task is not None
    trace_id, span_id = place(sent)
    assert task.headers.keys() == {"traceparent"}
    assert task.headers["traceparent"].startswith(f"00-{trace_id:032x}-{span_id:016x}-")
    assert is_sampled(task.headers)


async def test_a_batch_is_one_span_to_which_each_of_its_tasks_is_linked(
    app: wherry.App, spans: Spans
) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    await app.aenqueue_many([{"type": "t"} for _ in range(5)])
    await app.aenqueue_many([{"type": "t"}, {"type": "t", "queue": "other"}])
    await drained(app, queues=["*"])

    found = spans()
    [sent], [mixed] = found["enqueue default"], found["enqueue"]
    assert (sent.attributes or {})["messaging.batch.message_count"] == 5
    assert "messaging.destination.name" not in (mixed.attributes or {})
    ran = [*found["run default"], *found["run other"]]
    assert [linked(span) for span in ran].count([place(sent)]) == 5
    assert [linked(span) for span in ran].count([place(mixed)]) == 2


async def test_each_way_to_end_is_told_and_no_payload(app: wherry.App, spans: Spans) -> None:
    @app.task(name="t", retry=Fixed(0))
    async def t(card: str, kind: str) -> None:
        if kind == "dead":
            raise ValueError("declined")
        if kind == "fail":
            raise wherry.Fail("never")
        if kind == "cancel":
            raise wherry.Cancel("not needed")
        raise wherry.Snooze(3600)

    for kind in ("dead", "fail", "cancel", "snooze"):
        payload = {"card": "4111-1111", "kind": kind}
        await app.aenqueue("t", payload, max_attempts=2, key=kind, headers={"k": "4111-2"})
    await drained(app)

    ran = spans()["run default"]
    told = sorted(
        (str((s.attributes or {})["wherry.outcome"]), s.status.status_code is StatusCode.ERROR)
        for s in ran
    )
    assert told == [
        ("canceled", False),
        ("failed", True),
        ("failed", True),
        ("failed", True),
        ("snoozed", False),
    ]
    failed = next(s for s in ran if (s.attributes or {}).get("error.type") == "ValueError")
    [event] = failed.events
    assert event.name == "exception"
    assert (event.attributes or {})["exception.message"] == "declined"
    assert "in t" in str((event.attributes or {})["exception.stacktrace"])
    assert [s for group in spans().values() for s in group if "4111" in s.to_json()] == []


async def test_an_enqueue_that_is_refused_ends_its_span_with_the_errors_name_only(
    app: wherry.App, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    async with wherry.App(app.dsn, schema="elsewhere") as other:
        instrument(other, tracer_provider=provider)
        with pytest.raises(wherry.SchemaError):
            await other.aenqueue("t", {"card": "4111"})

    [sent] = exporter.get_finished_spans()
    assert sent.status.status_code is StatusCode.ERROR
    assert (sent.attributes or {})["error.type"] == "SchemaMissing"
    assert "4111" not in sent.to_json()


async def test_headers_of_the_callers_own_stay(app: wherry.App, spans: Spans) -> None:
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    large = {"x": "y" * (HEADERS_LIMIT_BYTES - 10)}

    own = (await app.aenqueue("t", headers={"traceparent": theirs, "a": "b"})).id
    full = (await app.aenqueue("t", headers=large)).id
    more = (await app.aenqueue("t", headers={"a": "b"})).id

    assert (await get(app, own)).headers == {"traceparent": theirs, "a": "b"}
    assert (await get(app, full)).headers == large
    assert (await get(app, more)).headers.keys() == {"a", "traceparent"}
    assert len(spans()["enqueue default"]) == 3


@pytest.mark.parametrize("text", ['{"traceparent": "x"}', '{"traceparent": 1}', '["traceparent"]'])
async def test_headers_that_make_no_sense_cost_no_task(
    app: wherry.App, spans: Spans, connect: Callable[..., psycopg.Connection[Any]], text: str
) -> None:
    @app.task(name="t")
    async def t() -> None: ...

    id = (await app.aenqueue("t")).id
    connect().execute("update wherry.live set headers = %s", (text,))

    await drained(app)

    assert (await get(app, id)).state == "succeeded"
    [ran] = spans()["run default"]
    assert linked(ran) == []


async def test_a_trace_that_is_not_sampled_is_passed_on_as_such(
    app: wherry.App,
) -> None:
    instrument(app, tracer_provider=TracerProvider(sampler=ALWAYS_OFF))

    id = (await app.aenqueue("t")).id

    assert not is_sampled((await get(app, id)).headers)


class Broken(SpanProcessor):
    """An exporter that is ill."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("no end")


async def test_an_sdk_that_raises_costs_no_task(app: wherry.App) -> None:
    """OBS-02: what is hung into tracing, too."""

    @app.task(name="t")
    async def t() -> None: ...

    provider = TracerProvider()
    provider.add_span_processor(Broken())
    instrument(app, tracer_provider=provider)

    id = (await app.aenqueue("t")).id
    summary = await drained(app)

    assert summary.exit_code == 0
    assert (await get(app, id)).state == "succeeded"


async def test_who_wants_no_spans_gets_none(app: wherry.App, spans: Spans) -> None:
    uninstrument(app)

    id = (await app.aenqueue("t")).id

    assert spans() == {}
    assert (await get(app, id)).headers == {}


FOUND = """
import sys
import wherry
app = wherry.App("host=nowhere")
if "{when}" == "before":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    trace.set_tracer_provider(TracerProvider())
elif "{when}" == "api only":
    from opentelemetry import trace
print(app.tracing is not None)
print("opentelemetry.trace" in sys.modules)
"""


@pytest.mark.parametrize(
    ("when", "said"),
    [("before", "True\nTrue\n"), ("api only", "False\nTrue\n"), ("never", "False\nFalse\n")],
)
def test_an_sdk_is_found_by_itself_and_nothing_is_imported_without_one(
    when: str, said: str
) -> None:
    program = FOUND.replace("{when}", when)

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == said


def test_it_is_looked_for_once(app: wherry.App, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr("wherry.app.process.found", lambda: looks.append(1))

    for _ in range(3):
        app.enqueue("t")

    assert looks == [1]

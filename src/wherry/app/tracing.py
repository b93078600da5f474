"""Spans of OpenTelemetry: one where tasks are enqueued, one for each attempt, joined by a link.

    your span ── enqueue mail (PRODUCER) ┄┄ traceparent, a header of the task ┄┄► run mail
                                                                                (CONSUMER)

They are not one trace: a task may run days later, many times, and in batches with others. Without
an SDK nothing of OpenTelemetry is imported, and nothing is looked for more than once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import wherry
from wherry.domain.lease import Lease
from wherry.domain.options import HEADERS_LIMIT_BYTES, TaskSpec
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome
from wherry.domain.task import Enqueued
from wherry.telemetry.incoming import TRACEPARENT, told
from wherry.telemetry.loggers import logger
from wherry.transport.patience import Patience
from wherry.worker.attempt import Run

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

log = logger("wherry.tracing")

_SYSTEM: Final = "wherry"
_patience: Final = Patience()
_RETRY: Final = {"retry": "failed", "fail": "failed", "cancel": "canceled"}


def found() -> Tracing | None:
    """Return what traces, if this program has set up an SDK; never imports anything for it."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    # What the API gives to whoever has no SDK.
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Tracing(provider)


def with_headers(specs: Sequence[TaskSpec], headers: Mapping[str, str] | None) -> list[TaskSpec]:
    """Return the tasks with these headers; one that tells of its trace itself stays as it is.

    So does one that has no room for more.
    """
    if not headers:
        return list(specs)
    size_bytes = sum(len(name) + len(value) for name, value in headers.items())
    return [
        spec
        if TRACEPARENT in spec.headers or _size_bytes(spec) + size_bytes > HEADERS_LIMIT_BYTES
        else spec._replace(headers={**spec.headers, **headers})
        for spec in specs
    ]


def of_request(specs: Sequence[TaskSpec]) -> Sequence[TaskSpec]:
    """Return the tasks with the trace of the request that a server answers, if it is of any."""
    headers = told()
    return specs if headers is None else with_headers(specs, headers)


class Sending:
    """Tasks that are being enqueued in a span."""

    def __init__(self, specs: Sequence[TaskSpec], span: Span) -> None:
        self.specs = specs
        self._span = span

    def stored(self, answers: Sequence[Enqueued]) -> None:
        """Say which tasks they are."""
        if len(answers) == 1:
            self._span.set_attribute("messaging.message.id", str(answers[0].id))
            self._span.set_attribute("wherry.task.created", answers[0].created)


class Tracing:
    """Makes the spans of one App."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("wherry", wherry.__version__)
        # Not the program's own propagators: baggage may be secret, and headers are stored.
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def sending(self, specs: Sequence[TaskSpec]) -> Generator[Sending]:
        """Enqueue the tasks inside the block, with their span in their headers."""
        from opentelemetry import trace

        current = trace.get_current_span()
        # A server that traces nothing but this knows its caller from the request only.
        request = None if current.get_span_context().is_valid else told()
        parent = None if request is None else self._propagator.extract(request)
        queues = {spec.queue for spec in specs}
        types = {spec.type for spec in specs}
        attributes: dict[str, Any] = {
            "messaging.system": _SYSTEM,
            "messaging.operation.type": "send",
            "messaging.operation.name": "enqueue",
        }
        queue = queues.pop() if len(queues) == 1 else None
        if queue is not None:
            attributes["messaging.destination.name"] = queue
        if len(types) == 1:
            attributes["wherry.task.type"] = types.pop()
        if len(specs) > 1:
            attributes["messaging.batch.message_count"] = len(specs)
        name = "enqueue" if queue is None else f"enqueue {queue}"
        with self._span(name, parent, kind=trace.SpanKind.PRODUCER, attributes=attributes) as span:
            headers: dict[str, str] = {}
            self._propagator.inject(headers)
            try:
                yield Sending(with_headers(specs, headers), span)
            except BaseException as error:
                # Only its name: a database's error repeats rows, and so payloads.
                kind = type(error).__qualname__
                span.set_attribute("error.type", kind)
                span.set_status(trace.StatusCode.ERROR, kind)
                raise

    def running(self, run: Run, *, worker: str) -> Run:
        """Return *run* with a span around it, which is the handler's current one."""
        from opentelemetry import context, trace

        async def traced(lease: Lease, slot: asyncio.Task[Any] | None) -> Outcome | None:
            sender = self._sender_of(lease)
            with self._span(
                f"run {lease.queue}",
                # Of no trace but its own; the handler gets a copy of what is current here.
                context.Context(),
                kind=trace.SpanKind.CONSUMER,
                links=[] if sender is None else [trace.Link(sender)],
                attributes={
                    "messaging.system": _SYSTEM,
                    "messaging.operation.type": "process",
                    "messaging.operation.name": "run",
                    "messaging.destination.name": lease.queue,
                    "messaging.message.id": str(lease.id),
                    "messaging.client.id": worker,
                    "wherry.task.type": lease.type,
                    "wherry.task.attempt": lease.attempt,
                    "wherry.task.max_attempts": lease.max_attempts,
                },
            ) as span:
                outcome = await run(lease, slot)
                with _quietly():
                    _tell(span, outcome)
                return outcome

        return traced

    @contextmanager
    def _span(self, name: str, parent: Any, **what: Any) -> Generator[Span]:
        """Make a span the current one inside the block; what an SDK raises harms nobody."""
        from opentelemetry import context, trace

        span: Span = trace.INVALID_SPAN
        with _quietly():
            span = self._tracer.start_span(name, parent, **what)
        mark = context.attach(trace.set_span_in_context(span, parent))
        try:
            yield span
        finally:
            context.detach(mark)
            with _quietly():
                span.end()

    def _sender_of(self, lease: Lease) -> Any:
        text = lease.headers_text
        # Most have none, and reading JSON takes longer than looking.
        if not text or TRACEPARENT not in text:
            return None
        try:
            read: Any = json.loads(text)
            texts = {name: value for name, value in read.items() if isinstance(value, str)}
        except (ValueError, AttributeError):
            # Only plain SQL could have put it there.
            return None
        from opentelemetry import context, trace

        # Into a context of nothing: the worker's own span is not the sender.
        extracted = self._propagator.extract(texts, context=context.Context())
        sender = trace.get_current_span(extracted).get_span_context()
        return sender if sender.is_valid else None


def _tell(span: Span, outcome: Outcome | None) -> None:
    """Say how an attempt ended. Whether the task is retried the database decides, later."""
    from opentelemetry.trace import StatusCode

    match outcome:
        case Completed():
            span.set_attribute("wherry.outcome", "succeeded")
        case Failed(verdict=verdict, failure=failure):
            span.set_attribute("wherry.outcome", _RETRY[verdict])
            if verdict == "cancel":
                return
            span.set_attribute("error.type", failure.type)
            span.set_status(StatusCode.ERROR, f"{failure.type}: {failure.message}"[:1000])
            span.add_event(
                "exception",
                {
                    "exception.type": failure.type,
                    "exception.message": failure.message,
                    "exception.stacktrace": failure.traceback,
                },
            )
        case GivenBack(verdict=verdict):
            span.set_attribute("wherry.outcome", "snoozed" if verdict == "snooze" else "released")
        case None:
            span.set_attribute("wherry.outcome", "lost")
            span.set_status(StatusCode.ERROR, "the lease was lost")


@contextmanager
def _quietly() -> Generator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the border around the code of an SDK
        if _patience.may_complain():
            log.warning("a span is lost: %s: %s", type(error).__qualname__, error)


def _size_bytes(spec: TaskSpec) -> int:
    return sum(len(k.encode()) + len(v.encode()) for k, v in spec.headers.items())

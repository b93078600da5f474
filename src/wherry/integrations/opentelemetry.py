"""Tracing by OpenTelemetry: the extra `otel`, and an SDK of the program's.

It needs no call where the SDK is set up before the App's first enqueue, or before its worker
begins: then it is found by itself. `instrument(app)` is for all other programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace

from wherry.app.tracing import Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from wherry.app.app import App


def instrument(app: App, *, tracer_provider: TracerProvider | None = None) -> None:
    """Make spans of what *app* enqueues and runs, by this provider or the program's own one.

    A worker that has begun goes on as it was.
    """
    app.tracing = Tracing(tracer_provider or trace.get_tracer_provider())


def uninstrument(app: App) -> None:
    """Make no more spans, also if the program has an SDK."""
    app.tracing = None

"""A worker process of a benchmark: an ordinary worker on the benchmarks' handlers.

`defaults` is what a newcomer gets; `tuned` sets what today's settings allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from wherry.app.work import run_worker, worker_settings
from wherry.bench import handlers
from wherry.bench.children import Children, Ready
from wherry.bench.marks import Marks
from wherry.bench.place import Place
from wherry.config import WorkerSettings
from wherry.worker.garbage import collect_rarely

DEFAULTS: Mapping[str, Any] = {}
TUNED: Mapping[str, Any] = {"concurrency": 100, "batch_size": 1000, "prefetch_ms": 200}


def start(children: Children, place: Place, marks: Marks, *, process: int, **settings: Any) -> None:
    """Start one worker process that leaves its marks as number *process*."""
    children.start(
        "wherry.bench.worker:work",
        dsn=place.dsn,
        marks=str(marks.path),
        tasks=marks.tasks,
        process=process,
        **settings,
    )


def work(
    ready: Ready,
    *,
    dsn: str,
    marks: str,
    tasks: int,
    process: int,
    until_empty: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Work until empty, or until SIGTERM; tell what was handled and how the outcomes went."""
    handlers.leave_marks(Marks(Path(marks), tasks, process=process))
    handlers.app.dsn = dsn
    # As `wherry worker` does.
    collect_rarely()
    ready()
    began = monotonic()

    async def run() -> dict[str, int]:
        summary = await run_worker(
            handlers.app,
            queues=None,
            settings=settings_of(**settings),
            name=f"bench-{process}",
            until_empty=until_empty,
            signals=True,
        )
        return {str(answer): n for answer, n in summary.answers.items()}

    answers = asyncio.run(run())
    handlers.app.close()
    return {"answers": answers, "seconds": monotonic() - began}


def settings_of(
    *,
    concurrency: int | None = None,
    batch_size: int | None = None,
    prefetch_ms: float | None = None,
    listen: bool = True,
    poll_ms: float | None = None,
) -> WorkerSettings:
    """Return a worker's settings: the defaults, but for what is given."""
    plain = WorkerSettings()
    made = worker_settings(
        concurrency=plain.concurrency if concurrency is None else concurrency,
        lease_for=plain.lease_for,
        shutdown_timeout=plain.shutdown_timeout,
        listen=listen,
        # What it stores is thrown away; the sheet says whether the server syncs.
        allow_unsafe_database=True,
    )
    if batch_size is not None:
        made = replace(made, batch_size=batch_size)
    if poll_ms is not None:
        made = replace(made, poll_every=timedelta(milliseconds=poll_ms))
    if prefetch_ms is not None:
        made = replace(made, prefetch_ahead=timedelta(milliseconds=prefetch_ms))
    return made

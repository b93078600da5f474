"""The tasks of the benchmarks; their handlers note in the database that they ran."""

from __future__ import annotations

import asyncio
from time import time

import wherry

app = wherry.App(schema="wherry_bench")

# When each handler began, by task id: what really happened, beside what the queue says.
began: list[tuple[int, float]] = []
changed = asyncio.Event()


@app.task(queue="seed")
async def sleep(seconds: float) -> None:
    """Take as long as a call to some service."""
    began.append((wherry.current().task_id, time()))
    await asyncio.sleep(seconds)


@app.task(queue="latency")
async def nothing(sent_at: float) -> None:
    """Note when it began."""
    began.append((wherry.current().task_id, time()))
    changed.set()

"""The tasks of the benchmarks. A handler's side effect is its mark; the worker sets where."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns, thread_time_ns

import wherry
from wherry.bench.claims import SCHEMA
from wherry.bench.marks import Marks

QUEUE = "bench"
BURNT_NS = 100_000

app = wherry.App(schema=SCHEMA)
_marks: Marks | None = None


def leave_marks(marks: Marks) -> None:
    """Have the handlers of this process leave their marks there."""
    global _marks
    _marks = marks


def _hit(n: int) -> None:
    assert _marks is not None
    _marks.hit(n)


@app.task(queue=QUEUE)
async def nothing(n: int) -> None:
    """Do nothing at all."""
    _hit(n)


@app.task(queue=QUEUE)
async def burn(n: int) -> None:
    """Compute for 100 us of this thread's own time."""
    _hit(n)
    until = thread_time_ns() + BURNT_NS
    while thread_time_ns() < until:
        # Asking the kernel for the time is dear: ask now and then.
        pause = perf_counter_ns() + 3_000
        while perf_counter_ns() < pause:
            pass


@app.task(queue=QUEUE)
async def sleep(n: int, seconds: float) -> None:
    """Take as long as a call to some service."""
    _hit(n)
    await asyncio.sleep(seconds)


@app.task(queue=QUEUE)
async def carry(n: int, text: str) -> None:
    """Have a payload of some size."""
    _hit(n)

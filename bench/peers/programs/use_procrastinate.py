"""procrastinate on psycopg.

Tuned: 50 tasks at once, a pool of 20, uvloop; it gets no faster with more. Defaults: one task at a
time.
"""
# pyright: reportMissingImports=false, reportFunctionMemberAccess=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector

from bench.peers.programs import runtime

AT_ONCE = runtime.SLOTS or (50 if runtime.TUNED else 1)
app: Any = App(connector=PsycopgConnector(conninfo=runtime.DSN, min_size=1, max_size=20))


@app.task(name="handle")
async def handle(n: int) -> None:
    """Leave a mark, and take a while if asked to."""
    runtime.hit(n)
    if runtime.SLEEPS:
        await asyncio.sleep(runtime.seconds_of(n))


class Procrastinate(runtime.Program):
    """procrastinate."""

    async def setup(self) -> None:
        """Make its tables."""
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """Connect."""
        await app.open_async()
        self._own = await psycopg.AsyncConnection.connect(runtime.DSN)

    async def close(self) -> None:
        """Leave."""
        await self._own.close()
        await app.close_async()

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        await handle.defer_async(n=task)

    async def enqueue_many(self, tasks: Sequence[int]) -> None:
        """Enqueue them in one call."""
        await handle.batch_defer_async(*({"n": task} for task in tasks))

    async def enqueue_in_transaction(
        self, task: int, *, open_seconds: float, committing: Callable[[], None]
    ) -> None:
        """Enqueue on a connection of the caller's."""
        await handle.configure(connection=self._own).defer_async(n=task)
        await asyncio.sleep(open_seconds)
        committing()
        await self._own.commit()

    def work(self) -> None:
        """Be a worker."""
        if runtime.TUNED:
            runtime.with_fast_loop()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=AT_ONCE)


if __name__ == "__main__":
    runtime.main(Procrastinate())

"""Oban for Python, the free one.

Tuned: 500 jobs at once in the queue, uvloop. Defaults: 10, as its guide begins.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from oban import Oban, worker
from oban.schema import install

from bench.peers.programs import runtime

AT_ONCE = runtime.SLOTS or (500 if runtime.TUNED else 10)


@worker(queue="default")
class Handler:
    """What a job runs."""

    async def process(self, job: Any) -> None:
        """Leave a mark, and take a while if asked to."""
        task = job.args["n"]
        runtime.hit(task)
        if runtime.SLEEPS:
            await asyncio.sleep(runtime.seconds_of(task))


def _job(args: dict[str, int]) -> Any:
    # `worker` adds it, in a way that no type checker sees.
    made: Any = Handler
    return made.new(args)


class ObanProgram(runtime.Program):
    """Oban."""

    async def setup(self) -> None:
        """Make its tables."""
        pool = await Oban.create_pool(runtime.DSN)
        await install(pool)
        await pool.close()

    async def open(self) -> None:
        """Connect."""
        self._pool = await Oban.create_pool(runtime.DSN)
        self._oban = Oban(pool=self._pool)
        await self._oban.start()
        self._own = await psycopg.AsyncConnection.connect(runtime.DSN)

    async def close(self) -> None:
        """Leave."""
        await self._own.close()
        await self._oban.stop()
        await self._pool.close()

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        await self._oban.enqueue(_job({"n": task}))

    async def enqueue_many(self, tasks: Sequence[int]) -> None:
        """Enqueue them in one call."""
        await self._oban.enqueue_many([_job({"n": task}) for task in tasks])

    async def enqueue_in_transaction(
        self, task: int, *, open_seconds: float, committing: Callable[[], None]
    ) -> None:
        """Enqueue on a connection of the caller's."""
        await self._oban.enqueue(_job({"n": task}), conn=self._own)
        await asyncio.sleep(open_seconds)
        committing()
        await self._own.commit()

    def work(self) -> None:
        """Be a worker."""
        logging.disable(logging.INFO)
        if runtime.TUNED:
            runtime.with_fast_loop()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        pool = await Oban.create_pool(runtime.DSN)
        async with Oban(pool=pool, queues={"default": AT_ONCE}):
            await runtime.until_terminated()
        await pool.close()


if __name__ == "__main__":
    runtime.main(ObanProgram())

"""chancy.

Tuned: the asyncio executor with 200 at once, eager polling every second, no INFO log, uvloop.
Defaults: `Queue("default")`, which is processes and a poll every 5 s.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from chancy import Chancy, Queue, Worker, job

from bench.peers.programs import runtime

AT_ONCE = runtime.SLOTS or 200
quiet = logging.getLogger("chancy.quiet")
quiet.setLevel(logging.WARNING)


@job()
async def handle(*, n: int) -> None:
    """Leave a mark, and take a while if asked to."""
    runtime.hit(n)
    if runtime.SLEEPS:
        await asyncio.sleep(runtime.seconds_of(n))


@job()
def handle_in_process(*, n: int) -> None:
    """The same for the default executor, which takes no coroutine."""
    runtime.hit(n)


def _job(task: int) -> Any:
    handler: Any = handle if runtime.TUNED else handle_in_process
    return handler.job.with_kwargs(n=task)


def _chancy() -> Any:
    return Chancy(runtime.DSN, log=quiet if runtime.TUNED else None)


class ChancyProgram(runtime.Program):
    """chancy."""

    async def setup(self) -> None:
        """Make its tables."""
        async with _chancy() as chancy:
            await chancy.migrate()

    async def open(self) -> None:
        """Connect."""
        self._chancy = await _chancy().__aenter__()

    async def close(self) -> None:
        """Leave."""
        await self._chancy.__aexit__(None, None, None)

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        await self._chancy.push(_job(task))

    async def enqueue_many(self, tasks: Sequence[int]) -> None:
        """Enqueue them in one call."""
        async for _ in self._chancy.push_many([_job(task) for task in tasks], batch_size=1000):
            pass

    async def enqueue_in_transaction(
        self, task: int, *, open_seconds: float, committing: Callable[[], None]
    ) -> None:
        """Enqueue with a cursor of the caller's."""
        async with self._chancy.pool.connection() as own, own.cursor() as cursor:
            await self._chancy.push_ex(cursor, _job(task))
            await asyncio.sleep(open_seconds)
            committing()
            await own.commit()

    def work(self) -> None:
        """Be a worker."""
        if runtime.TUNED:
            runtime.with_fast_loop()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        if runtime.TUNED:
            queue = Queue(
                "default",
                concurrency=AT_ONCE,
                executor=Chancy.Executor.Async,
                polling_interval=1,
                eager_polling=True,
            )
        else:
            queue = Queue("default")
        async with _chancy() as chancy:
            await chancy.declare(queue, upsert=True)
            async with Worker(chancy) as worker:
                await worker.wait_for_shutdown()


if __name__ == "__main__":
    runtime.main(ChancyProgram())

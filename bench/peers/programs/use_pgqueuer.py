"""pgqueuer on asyncpg.

Tuned: a pool, batches of 1000, uvloop. Defaults: one connection and `run()`, as its first page has
it. With slots: so many tasks at once, and batches of half as many.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench.peers.programs import runtime

ENTRY = "sleep" if runtime.SLEEPS else "nothing"


class Pgqueuer(runtime.Program):
    """pgqueuer."""

    async def setup(self) -> None:
        """Make its tables."""
        connection = await asyncpg.connect(runtime.DSN)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        """Connect."""
        self._connection = await asyncpg.connect(runtime.DSN)
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        """Leave."""
        await self._connection.close()

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        await self._queries.enqueue(ENTRY, str(task).encode())

    async def enqueue_many(self, tasks: Sequence[int]) -> None:
        """Enqueue them in one call."""
        payloads = [str(task).encode() for task in tasks]
        await self._queries.enqueue([ENTRY] * len(tasks), payloads, [0] * len(tasks))

    async def enqueue_in_transaction(
        self, task: int, *, open_seconds: float, committing: Callable[[], None]
    ) -> None:
        """Enqueue on the caller's connection, which is the one it was given."""
        transaction = self._connection.transaction()
        await transaction.start()
        await self.enqueue(task)
        await asyncio.sleep(open_seconds)
        committing()
        await transaction.commit()

    def work(self) -> None:
        """Be a worker."""
        if runtime.TUNED:
            runtime.with_fast_loop()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        if runtime.TUNED:
            pool = await asyncpg.create_pool(runtime.DSN, min_size=4, max_size=8)
            manager = PgQueuer.from_asyncpg_pool(pool)
        else:
            connection = await asyncpg.connect(runtime.DSN)
            manager = PgQueuer.from_asyncpg_connection(connection)

        @manager.entrypoint(ENTRY)
        async def handle(job: Any) -> None:
            task = int(job.payload)
            runtime.hit(task)
            if runtime.SLEEPS:
                await asyncio.sleep(runtime.seconds_of(task))

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, manager.shutdown.set)
        if runtime.SLOTS:
            await manager.run(batch_size=runtime.SLOTS // 2, max_concurrent_tasks=runtime.SLOTS)
        elif runtime.TUNED:
            await manager.run(batch_size=1000)
        else:
            await manager.run()


if __name__ == "__main__":
    runtime.main(Pgqueuer())

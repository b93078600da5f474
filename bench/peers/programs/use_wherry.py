"""Wherry, by its public surface: `aenqueue`, `aenqueue_many`, `tx=`, and `wherry worker`.

Defaults: no option at all. Tuned: 100 slots, and uvloop, as the other programs on asyncio.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence

import psycopg

import wherry
from bench.peers.programs import runtime

app = wherry.App(runtime.DSN)
SLOTS = runtime.SLOTS or 100


@app.task(name="nothing")
async def nothing(n: int) -> None:
    """Do nothing at all."""
    runtime.hit(n)


@app.task(name="sleep")
async def sleep(n: int) -> None:
    """Take as long as a call to some service."""
    runtime.hit(n)
    await asyncio.sleep(runtime.seconds_of(n))


handler = sleep if runtime.SLEEPS else nothing


class Wherry(runtime.Program):
    """Our product."""

    async def setup(self) -> None:
        """Make the schema."""
        await app.amigrate()

    async def open(self) -> None:
        """Connect once for the transactions; the App connects by itself."""
        self._own = await psycopg.AsyncConnection.connect(runtime.DSN)

    async def close(self) -> None:
        """Leave."""
        await self._own.close()
        await app.__aexit__(None, None, None)

    async def enqueue(self, task: int) -> None:
        """Enqueue one."""
        await handler.aenqueue(n=task)

    async def enqueue_many(self, tasks: Sequence[int]) -> None:
        """Enqueue them in one call."""
        await handler.aenqueue_many({"n": n} for n in tasks)

    async def enqueue_in_transaction(
        self, task: int, *, open_seconds: float, committing: Callable[[], None]
    ) -> None:
        """Enqueue on a connection of the caller's."""
        await handler.using(tx=self._own).aenqueue(n=task)
        await asyncio.sleep(open_seconds)
        committing()
        await self._own.commit()

    def work(self) -> None:
        """Become `wherry worker`, as a newcomer starts it."""
        command = [sys.executable, "-m", "wherry", "worker", "bench.peers.programs.use_wherry:app"]
        if runtime.TUNED or runtime.SLOTS:
            command += ["--concurrency", str(SLOTS)]
        os.execv(sys.executable, command)


if __name__ == "__main__":
    runtime.main(Wherry())
elif runtime.TUNED:
    # Imported by `wherry worker`, before it has a loop.
    runtime.with_fast_loop()

"""The app and its one handler: it hashes, compresses and counts a file.

The result and the end of the task are written in one transaction, so neither is ever there without
the other. The newcomer's mistake is to think that the handler runs once: a worker that dies in the
middle leaves a task that is run again. It is the *result* that is stored once.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from psycopg_pool import AsyncConnectionPool

import wherry
from examples.demo import tables

# What befalls a file's task; load.py decides it, `meet` below obeys.
Trouble = Literal["none", "slow", "fails once", "fails twice", "poison"]

# A schema of the demo's own: the tasks that you keep in the default one are left alone.
app = wherry.App("embedded:", schema="wherry_demo")


@functools.cache
def pool() -> AsyncConnectionPool:
    """The connections on which this process's handlers write; worker.py opens and closes it."""
    settings = {"options": tables.OPTIONS, "autocommit": True}
    return AsyncConnectionPool(app.dsn, kwargs=settings, min_size=2, max_size=10, open=False)


@app.task(queue="files", max_attempts=6, retry=wherry.FullJitter(base=0.1, cap=0.5))
async def digest(document: int, path: str, trouble: Trouble) -> None:
    """Store what a file is made of, and finish the task, both or neither."""
    await meet(trouble)
    # In a thread: reading and compressing would keep every other handler on this loop waiting.
    found = await asyncio.to_thread(measure, Path(path))
    async with pool().connection() as conn, conn.transaction():
        await conn.execute(
            "insert into results (document, sha256, size_bytes, compressed_bytes, lines)"
            " values (%s, %s, %s, %s, %s)",
            (document, found.sha256, found.size_bytes, found.compressed_bytes, found.lines),
        )
        # Raises LeaseLost if another worker was given the task meanwhile: then our row is
        # rolled back, and the other's stays.
        await wherry.current().acomplete(tx=conn)


@dataclass(frozen=True, slots=True)
class Found:
    """What a file is made of."""

    sha256: str
    size_bytes: int
    compressed_bytes: int
    lines: int


def measure(path: Path) -> Found:
    """Read a file; it is loaded whole, which load.py's limit on its size allows."""
    content = path.read_bytes()
    return Found(
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        compressed_bytes=len(zlib.compress(content)),
        lines=content.count(b"\n"),
    )


async def meet(trouble: Trouble) -> None:
    """Go through the trouble that was arranged for this file."""
    attempt = wherry.current().attempt
    match trouble:
        case "slow":
            await asyncio.sleep(1)
        case "fails once" if attempt <= 1:
            raise ConnectionError("the network is down, as it is now and then")
        case "fails twice" if attempt <= 2:
            raise ConnectionError("the network is still down")
        case "poison":
            raise ValueError("this file is poison: its handler fails however often it is run")
        case _:
            pass

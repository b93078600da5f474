"""Handlers of workers that have only a server: they write down that they began, and what they do.

The database in which they do so is their own business, as it is for any program: they are told of
it by $NOTES_DSN, and their worker is not.
"""

from __future__ import annotations

import asyncio
import os
import time

import psycopg

import wherry

app = wherry.App()
AT_ONCE = wherry.Fixed(0)

# One at a time: a process has one connection for it.
_writing = asyncio.Lock()
_connections: list[psycopg.AsyncConnection[object]] = []


async def note() -> None:
    """Write down that this attempt began."""
    context = wherry.current()
    row = (context.task_id, context.lease.token, context.attempt, str(os.getpid()))
    async with _writing:
        if not _connections:
            dsn = os.environ["NOTES_DSN"]
            opened = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
            _connections.append(opened)
        await _connections[0].execute(
            "insert into note values (%s, %s, %s, %s, %s)", (*row, time.monotonic())
        )


@app.task(name="effect", retry=AT_ONCE)
async def effect(n: int, seconds: float = 0.0) -> None:
    """Take some time; *n* says which it is."""
    await note()
    await asyncio.sleep(seconds)


@app.task(name="fail_twice", retry=AT_ONCE)
async def fail_twice() -> None:
    """Fail in the first two attempts."""
    await note()
    if wherry.current().attempt < 3:
        raise ValueError("not yet")


@app.task(name="fail_always", retry=AT_ONCE)
async def fail_always() -> None:
    """Fail in every attempt."""
    await note()
    raise ValueError("never works")


@app.task(name="hang_once", retry=AT_ONCE)
async def hang_once() -> None:
    """Hang in the first attempt, for longer than any test; succeed in the next."""
    await note()
    if wherry.current().attempt == 1:
        await asyncio.sleep(3600)


@app.task(name="quiet", retry=AT_ONCE)
async def quiet(n: int, seconds: float = 0.0) -> None:
    """Take some time, and write nothing down."""
    await asyncio.sleep(seconds)


@app.task(name="squares", store_result=True, retry=AT_ONCE)
async def squares(n: int) -> int:
    """Return the square."""
    return n * n

"""A program with handlers that note what they do in a file; run by tests as a worker process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg

import wherry
from wherry.domain.retry import Fixed

app = wherry.App()
AT_ONCE = Fixed(0)


def note(what: str) -> None:
    """Append a line in one write, so that none is torn by a kill."""
    line = f"{what} {wherry.current().task_id}\n"
    with Path(os.environ["STARTED"]).open("ab", buffering=0) as file:
        file.write(line.encode())


@app.task(name="effect", retry=AT_ONCE)
async def effect(n: int, seconds: float = 0.0) -> None:
    """Write a row in the transaction that completes the task."""
    note("start")
    await asyncio.sleep(seconds)
    async with await psycopg.AsyncConnection.connect(app.dsn, connect_timeout=5) as connection:
        await connection.execute("insert into effect (n) values (%s)", [n])
        await wherry.current().acomplete(tx=connection)
    note("end")


@app.task(name="sleeps", retry=AT_ONCE)
async def sleeps(seconds: float) -> None:
    """Take some time on the loop, and end at once when canceled."""
    note("start")
    await asyncio.sleep(seconds)
    note("end")


@app.task(name="waits", retry=AT_ONCE)
async def waits(path: str) -> None:
    """Wait until there is a file."""
    note("start")
    while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240, PTH110 - a test's gate
        await asyncio.sleep(0.01)
    note("end")


@app.task(name="blocks", retry=AT_ONCE)
def blocks(seconds: float) -> None:
    """Take some time in a thread, and hear nothing; a second attempt is quick."""
    note("start")
    time.sleep(seconds if wherry.current().attempt == 1 else 0)
    note("end")


@app.task(name="stubborn", retry=AT_ONCE)
async def stubborn(seconds: float) -> None:
    """Ignore every cancellation."""
    note("start")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
    note("end")


@app.task(name="leaves behind", retry=AT_ONCE)
async def leaves_behind(seconds: float) -> None:
    """Start something beside the task that ignores every cancellation."""
    note("start")
    left = asyncio.create_task(stubborn(seconds), name="left by a handler")
    await asyncio.wait([left], timeout=0.01)


@app.task(name="exits")
async def exits(code: int) -> None:
    """End the whole process, as a crash in some library would."""
    note("start")
    os._exit(code)


@app.task(name="hangs up")
async def hangs_up() -> None:
    """Send a signal to the process, as some library or terminal would."""
    note("start")
    os.kill(os.getpid(), signal.SIGHUP)


@app.task(name="prints", retry=AT_ONCE, max_attempts=2)
async def prints() -> None:
    """Fail, which is logged, and print, where nobody reads."""
    note("start")
    with suppress(OSError):
        print("nobody reads this", flush=True)
    raise ValueError("logged in vain")


def main() -> int:
    """Work as the first argument says: JSON of the options of App.work."""
    options = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    # How slow a busy machine is, is nothing to say in a log whose lines are counted.
    logging.getLogger("asyncio").addFilter(lambda record: "Executing" not in record.msg)
    for name in ("lease_for", "shutdown_timeout"):
        if name in options:
            options[name] = timedelta(seconds=options[name])
    summary = app.work(**options)
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(main())

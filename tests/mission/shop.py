"""The handlers of these tests, run in worker processes of their own.

What a handler does is append a line to a file, in one write: a side effect that the queue cannot
undo, so that doing it twice shows.
"""

from __future__ import annotations

import os
import sys
import time

import psycopg

import wherry

app = wherry.App()


def note(text: str) -> None:
    """Append a line to the file that $EFFECTS names."""
    file = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text}\n".encode())
    os.close(file)


@app.task(queue="mission")
async def count(n: int) -> None:
    """Note the number."""
    note(str(n))


@app.task(queue="mission", retry=wherry.Fixed(0))
async def fail_twice() -> None:
    """Fail in the first two attempts."""
    note(f"attempt {wherry.current().attempt}")
    if wherry.current().attempt < 3:
        raise ValueError("not yet")


@app.task(queue="mission", max_attempts=3, retry=wherry.Fixed(0))
def fail_always() -> None:
    """Fail in every attempt."""
    raise ValueError("never works")


@app.task(queue="mission", retry=wherry.Fixed(0))
def hang_once() -> None:
    """Hang in the first attempt, for longer than any test; succeed in the next."""
    note(f"attempt {wherry.current().attempt} in {os.getpid()}")
    if wherry.current().attempt == 1:
        time.sleep(3600)


@app.task(queue="mission", retry=wherry.Fixed(0))
def pay(order: int, commit: bool) -> None:
    """Pay an order in the transaction that completes the task; roll the first attempt back."""
    context = wherry.current()
    with psycopg.connect(app.dsn) as connection:
        connection.execute("insert into payment (order_id) values (%s)", (order,))
        context.complete(tx=connection)
        if not commit and context.attempt == 1:
            connection.rollback()


if __name__ == "__main__":
    app.work(
        concurrency=4,
        lease_for=float(sys.argv[1]),
        until_empty=sys.argv[2] == "until-empty",
        shutdown_timeout=5,
    )

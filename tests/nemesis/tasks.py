"""The handlers of a run: well-behaved ones, failing ones, and those that take their worker along.

Every task carries a nonce that no other has, so that a task can be told from another one even where
an id was promised to both. Each handler first notes that it began, and by which lease.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from time import monotonic
from typing import Any, LiteralString

import psycopg

import wherry
from tests.nemesis import history
from tests.nemesis.doors import ADDRESS_VARIABLE, database, fence

# How a worker ends that was taken along by its task, or started while the server was down.
TAKEN_ALONG = 66
UNREACHABLE = 67
LEASE_SECONDS = 2.0
# Less than a lease, so that what is not confirmed in time goes back before it runs out.
CONFIRM_SECONDS = 1.0
REAP_SECONDS = 0.5
SHUTDOWN_SECONDS = 5.0
ACCOUNTS = 10
# The queue of the chores.
HAND = "hand"
# Whoever is a victim of faults and not of its own doing must not run out of attempts.
MANY = 500
SOON = wherry.Fixed(0.1)

# No constraint keeps an effect from happening twice: the checker is to see it.
SCHEMA: LiteralString = """
create schema bank;
create table bank.account (id integer primary key, balance bigint not null default 0);
insert into bank.account (id) select n from generate_series(1, 10) as n;
create table bank.transfer (
    task_id bigint not null, token bigint not null, lease_id text not null,
    source integer not null, target integer not null, amount bigint not null
);
"""

_LOCK: LiteralString = "select from bank.account where id = %s for update"

app = wherry.App(pool_size=4)


@cache
def far() -> wherry.App:
    """Return this process's App through a server of ours, which knows the same types."""
    made = wherry.App(os.environ[ADDRESS_VARIABLE])
    made.registry = app.registry
    return made


@app.task(queue="mixed", retry=SOON, max_attempts=MANY)
async def plain(nonce: str) -> None:
    """Do nothing, quickly."""
    began(nonce)


@app.task(queue="mixed", retry=SOON, max_attempts=MANY)
async def echo(nonce: str) -> None:
    """Follow a transfer, which enqueued this in its own transaction."""
    began(nonce)


@app.task(queue="mixed", retry=SOON, max_attempts=MANY)
async def flaky(nonce: str, failures: int) -> None:
    """Fail at first."""
    began(nonce)
    if wherry.current().attempt <= failures:
        raise ValueError("not yet")


@app.task(queue="mixed", retry=SOON, max_attempts=3)
def poison(nonce: str) -> None:
    """Fail every time."""
    began(nonce)
    raise ValueError("never works")


@app.task(queue="mixed", retry=SOON, max_attempts=MANY)
async def hopeless(nonce: str) -> None:
    """Fail for good at once."""
    began(nonce)
    raise wherry.Fail("no use")


@app.task(queue="mixed", retry=SOON, max_attempts=MANY)
async def snoozing(nonce: str, times: int) -> None:
    """Ask for a later moment, some times."""
    began(nonce)
    if wherry.current().lease.snoozes < times:
        raise wherry.Snooze(0.05)


@app.task(queue="mixed", retry=SOON, max_attempts=MANY, store_result=True)
async def answer(nonce: str) -> str:
    """Return what is to be stored as the result."""
    began(nonce)
    return nonce


@app.task(queue="mixed", retry=SOON, max_attempts=MANY)
async def giant(nonce: str, text: str) -> None:
    """Weigh much."""
    began(nonce)
    if not text.isalnum() and text:
        raise wherry.Fail(f"{len(text)} characters that nobody sent")


@app.task(queue="mixed", retry=SOON, max_attempts=2, timeout=0.3)
async def overtime(nonce: str) -> None:
    """Take longer than an attempt may."""
    began(nonce)
    await asyncio.sleep(60)


@app.task(queue="rough", retry=SOON, max_attempts=3)
async def killer(nonce: str) -> None:
    """Take the worker along, every time."""
    began(nonce)
    os._exit(TAKEN_ALONG)


@app.task(queue="rough", retry=SOON, max_attempts=MANY)
def kill_once(nonce: str) -> None:
    """Take the worker along in the first attempt."""
    began(nonce)
    if wherry.current().attempt == 1:
        os._exit(TAKEN_ALONG)


@app.task(queue="slow", retry=SOON, max_attempts=MANY)
async def hold(nonce: str, seconds: float) -> None:
    """Take longer than a lease; note it when told to stop."""
    began(nonce)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        history.mine().note("stopped", id=wherry.current().task_id)
        raise


@app.task(queue="slow", retry=SOON, max_attempts=MANY)
def hold_thread(nonce: str, seconds: float) -> None:
    """Take longer than a lease, in a thread."""
    began(nonce)
    if wherry.current().wait_cancelled(seconds):
        history.mine().note("stopped", id=wherry.current().task_id)


@app.task(queue="slow", retry=SOON, max_attempts=MANY)
async def block(nonce: str, seconds: float) -> None:
    """Block the worker's event loop, as nobody should."""
    began(nonce)
    time.sleep(seconds)  # noqa: ASYNC251 - this is the fault


@app.task(queue="bank", retry=SOON, max_attempts=MANY)
def transfer(nonce: str, source: int, target: int, amount: int, trick: str) -> None:
    """Move money in the transaction that completes the task; *trick* says what goes wrong once."""
    lease = began(nonce)
    trick = trick if lease.attempt == 1 else ""
    with psycopg.connect(database(), application_name="bank", connect_timeout=5) as connection:
        if trick == "crossed":
            # As nobody should: who transfers the other way round takes them in another order.
            connection.execute(_LOCK, (source,))
            wherry.current().wait_cancelled(0.1)
            connection.execute(_LOCK, (target,))
        if trick == "savepoint":
            connection.execute("select 1")
            with connection.transaction(force_rollback=True):
                _move(connection, lease, source, target, amount)
            return
        _move(connection, lease, source, target, amount)
        if trick == "linger":
            # Longer than the lease: from here on the row's lock is the fence.
            wherry.current().wait_cancelled(LEASE_SECONDS * 1.5)
        if trick == "roll back":
            connection.rollback()


@app.task(queue="bank", retry=SOON, max_attempts=MANY)
async def transfer_async(nonce: str, source: int, target: int, amount: int) -> None:
    """Move money as an async handler does it."""
    lease = began(nonce)
    async with await psycopg.AsyncConnection.connect(
        database(), application_name="bank", connect_timeout=5
    ) as connection:
        for statement, values in _statements(lease, source, target, amount):
            await connection.execute(statement, values)
        await app.aenqueue(echo.name, {"nonce": follow_up(lease)}, tx=connection)
        await wherry.current().acomplete(tx=connection)


@app.task(queue=HAND, retry=wherry.Fixed(0.05), max_attempts=MANY)
async def chore(nonce: str) -> None:
    """Be settled by hand (see by_hand.py); no worker serves this queue."""
    began(nonce)


# A queue of which no more may run at once, over all workers.
LIMITED, MOST_RUNNING = "limited", 3


@app.task(queue=LIMITED, retry=SOON, max_attempts=MANY)
async def crowded(nonce: str, seconds: float) -> None:
    """Run beside few others of its queue."""
    began(nonce)
    await asyncio.sleep(seconds)


# The schedules, and how many seconds are between their times.
PERIODS = {"all": 1, "alone": 2, "last": 1}
ALONE = "alone"
# Of all tasks of schedules, which nobody asked for.
SCHEDULED = "scheduled"


# Where nobody requeues, purges or cancels, and workers are taken along.
@app.schedule("* * * * * *", name="all", missed="all", payload={"nonce": SCHEDULED})
@app.schedule("* * * * * *", name="last", missed="last", payload={"nonce": SCHEDULED})
@app.schedule(
    "*/2 * * * * *", name=ALONE, overlap="skip", payload={"nonce": SCHEDULED, "seconds": 1.5}
)
@app.task(queue="rough", retry=SOON, max_attempts=MANY)
async def scheduled(nonce: str, seconds: float = 0.0) -> None:
    """Be there once for each time."""
    began(nonce)
    await asyncio.sleep(seconds)


# All but that of the chores.
QUEUES = ("mixed", "rough", "slow", "bank", LIMITED)


def began(nonce: str) -> wherry.Lease:
    """Note that a handler began, and by which lease."""
    lease = wherry.current().lease
    history.mine().note(
        "began", fence=fence(lease), nonce=nonce, attempt=lease.attempt,
        late_by=monotonic() - lease.deadline,
    )  # fmt: skip
    return lease


def follow_up(lease: wherry.Lease) -> str:
    """Return the nonce of the task that follows a transfer done by this lease."""
    return "after-{}-{}-{}".format(*fence(lease))


def _move(
    connection: psycopg.Connection[Any], lease: wherry.Lease, source: int, target: int, amount: int
) -> None:
    for statement, values in _statements(lease, source, target, amount):
        connection.execute(statement, values)
    app.enqueue(echo.name, {"nonce": follow_up(lease)}, tx=connection)
    wherry.current().complete(tx=connection)


def _statements(
    lease: wherry.Lease, source: int, target: int, amount: int
) -> list[tuple[LiteralString, tuple[Any, ...]]]:
    add: LiteralString = "update bank.account set balance = balance + %s where id = %s"
    note: LiteralString = (
        "insert into bank.transfer (task_id, token, lease_id, source, target, amount)"
        " values (%s, %s, %s, %s, %s, %s)"
    )
    # In the order of their ids, as every transfer takes them.
    both = sorted([(source, -amount), (target, amount)])
    return [
        *((add, (change, account)) for account, change in both),
        (note, (*fence(lease), source, target, amount)),
    ]

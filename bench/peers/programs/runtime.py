"""What the programs of all peers share: where things are, and the producers.

    python -m bench.peers.programs.NAME  setup | work | enqueue SECONDS | fill TASKS
                                         | steady RATE SECONDS [OPEN] | feed SECONDS AHEAD BATCH

A producer answers with one line of JSON on stdout. A task carries nothing but its number.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from bench.peers.programs.marks import Marks

HOST = os.environ.get("PEER_HOST", "")
PORT = os.environ.get("PEER_PORT", "")
USER = os.environ.get("PEER_USER", "")
PASSWORD = os.environ.get("PEER_PASSWORD", "")
DATABASE = os.environ.get("PEER_DATABASE", "")
REDIS = os.environ.get("PEER_REDIS", "")
# "tuned": what the peer's own documents recommend for speed; "defaults": a newcomer's.
TUNED = os.environ.get("PEER_SETTINGS", "tuned") == "tuned"
# Set where tasks take time and as many run at once as are asked for.
SLOTS = int(os.environ.get("PEER_SLOTS", "0"))
SLEEPS = os.environ.get("PEER_KIND", "nothing") == "sleep"
TASKS = int(os.environ.get("PEER_TASKS", "0"))
_SIGN_IN = f"{USER}:{PASSWORD}@" if PASSWORD else f"{USER}@"
DSN = f"postgresql://{_SIGN_IN}/{DATABASE}?host={HOST}&port={PORT}"

marks = Marks(Path(os.environ["PEER_MARKS"]), TASKS) if "PEER_MARKS" in os.environ else None
if marks is not None:
    os.register_at_fork(after_in_child=marks.forked)


def hit(task: int) -> None:
    """Note that the handler of a task was entered."""
    assert marks is not None
    marks.hit(task)


def seconds_of(task: int) -> float:
    """How long a task of the seed benchmark takes: 50 to 200 ms, always the same for a number."""
    return 0.05 + 0.15 * ((task * 2654435761) % 2**32) / 2**32


class Program(ABC):
    """One peer, used as its documents say. Methods that a peer has no call for stay as here."""

    # Tasks in one bulk call.
    batch = 1000

    async def setup(self) -> None:  # noqa: B027  (some peers need none)
        """Make the tables."""

    async def open(self) -> None:  # noqa: B027
        """Connect as a producer."""

    async def close(self) -> None:  # noqa: B027
        """Leave as a producer."""

    @abstractmethod
    async def enqueue(self, task: int) -> None:
        """Enqueue one task, committed when this returns."""

    async def enqueue_many(self, tasks: Sequence[int]) -> None:
        """Enqueue all of them in one call, if the peer has one."""
        for task in tasks:
            await self.enqueue(task)

    async def enqueue_in_transaction(
        self, task: int, *, open_seconds: float, committing: Callable[[], None]
    ) -> None:
        """Enqueue in a transaction of the caller's, hold it open, say so, and commit."""
        raise TypeError(f"{type(self).__name__} has no enqueue in a transaction of the caller's")

    @abstractmethod
    def work(self) -> None:
        """Be a worker until SIGTERM."""


async def until_terminated() -> None:
    """Return on SIGTERM or Ctrl-C."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await asked.wait()


def with_fast_loop() -> None:
    """Run asyncio on uvloop from here on, where the peer's environment has it."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def main(program: Program) -> None:
    """Do what the command line says."""
    act, *given = sys.argv[1:]
    if act == "work":
        program.work()
        return
    if act == "setup":
        asyncio.run(program.setup())
        return
    with_fast_loop()
    print(json.dumps(asyncio.run(_produce(program, act, [float(x) for x in given]))), flush=True)


async def _produce(program: Program, act: str, given: list[float]) -> dict[str, Any]:
    await program.open()
    try:
        before = process_time()
        told: dict[str, Any] = await PRODUCERS[act](program, *given)
        return {"cpu": process_time() - before, **told}
    finally:
        await program.close()


async def _enqueue(program: Program, seconds: float) -> dict[str, Any]:
    """Enqueue one by one for some seconds."""
    await program.enqueue(0)
    made, began = 1, monotonic()
    while made < TASKS and monotonic() - began < seconds:
        await program.enqueue(made)
        made += 1
    return {"made": made - 1, "seconds": monotonic() - began}


async def _fill(program: Program, tasks: float) -> dict[str, Any]:
    """Enqueue so many in bulk calls."""
    began = monotonic()
    for first in range(0, int(tasks), program.batch):
        await program.enqueue_many(range(first, min(int(tasks), first + program.batch)))
    return {"made": int(tasks), "seconds": monotonic() - began}


async def _steady(
    program: Program, rate: float, seconds: float, open_seconds: float = 0.0
) -> dict[str, Any]:
    """Enqueue at a steady rate; tell when each call, or each commit, began."""
    sent: list[float] = []

    def stamp() -> None:
        sent.append(monotonic())

    began = monotonic() + 0.05
    for task in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + task / rate - monotonic()))
        if open_seconds:
            await program.enqueue_in_transaction(task, open_seconds=open_seconds, committing=stamp)
        else:
            stamp()
            await program.enqueue(task)
    return {"made": len(sent), "seconds": monotonic() - began, "sent": sent}


async def _feed(program: Program, seconds: float, ahead: float, batch: float) -> dict[str, Any]:
    """Keep about *ahead* tasks waiting, for some seconds."""
    assert marks is not None
    made, began = 0, monotonic()
    while monotonic() - began < seconds and made + batch <= TASKS:
        if made - marks.shown() < ahead:
            await program.enqueue_many(range(made, made + int(batch)))
            made += int(batch)
        else:
            await asyncio.sleep(0.005)
    return {"made": made, "seconds": monotonic() - began, "began": began}


PRODUCERS: dict[str, Callable[..., Any]] = {
    "enqueue": _enqueue,
    "fill": _fill,
    "steady": _steady,
    "feed": _feed,
}

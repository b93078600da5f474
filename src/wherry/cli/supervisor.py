"""Runs N worker processes, and never leaves one behind.

    supervisor ──── pipe, held open by the supervisor only ────► worker 1 … N

A worker stops gracefully when the pipe closes, which the kernel sees to also after a SIGKILL. The
supervisor passes signals on, starts another worker in the place of one that died, and ends when
all have ended. It imports none of the application's code, so that nothing of it can break it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Literal

from wherry.cli.metrics import Told
from wherry.cli.running import Run
from wherry.telemetry.loggers import logger
from wherry.worker.signals import SIGNALS, handle

log = logger("wherry.supervisor")

# A worker bounds its own end; beyond this after its shutdown timeout something is broken.
_MERCY_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
# Who has lived so long is started anew without a pause.
_HEALTHY_SECONDS = 60.0
# The set-up is wrong, or the database out of reach: at a first start no other will fare better.
_NO_USE = (2, 3)

Next = Literal["again", "done", "give up"]


def next_step(code: int, *, first: bool, stopping: bool, until_empty: bool) -> Next:
    """Say what follows when a worker has ended with *code* (negative: by that signal)."""
    if stopping or (until_empty and code in (0, 1)):
        return "done"
    return "give up" if first and code in _NO_USE else "again"


def pause_seconds(deaths: int) -> float:
    """Return how long to wait before the next start, after so many early deaths in a row."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(deaths - 1, 10)) if deaths else 0.0


def final_code(code: int, *, stopping: bool) -> int:
    """Return what a worker's end adds to the supervisor's exit code."""
    if stopping and -code in SIGNALS:
        # Told to stop before it could listen: it had leased nothing yet.
        return 0
    return code if 0 <= code <= 3 else (0 if stopping and code == 130 else 1)


class Supervisor:
    """N worker processes under one roof."""

    def __init__(
        self,
        arguments: Sequence[str],
        wanted: Run,
        *,
        processes: int,
        environment: Mapping[str, str],
        told: Told | None = None,
    ) -> None:
        """*told* hears the numbers of the workers, if anybody wants to know them."""
        self._arguments = tuple(arguments)
        self._processes = processes
        self._environment = os.environ | dict(environment)
        self._name = wanted.name
        self._until_empty = wanted.until_empty
        self._told = told
        self._grace_seconds = wanted.shutdown_timeout.total_seconds() + _MERCY_SECONDS
        self._stopping = asyncio.Event()
        self._alive: dict[int, asyncio.subprocess.Process] = {}
        self._codes: list[int] = []

    async def run(self) -> int:
        """Run until all workers have ended; return the worst of their exit codes."""
        for number in SIGNALS:
            handle(number, self._pass_on)
        reading, writing = os.pipe()
        try:
            async with asyncio.TaskGroup() as places:
                for place in range(1, self._processes + 1):
                    places.create_task(self._keep(place, reading), name=f"worker-{place}")
        finally:
            os.close(writing)
            os.close(reading)
        return max(self._codes, default=0)

    def _pass_on(self, number: signal.Signals) -> None:
        log.info("%s received: passing it on to %d workers", number.name, len(self._alive))
        self._stop(number)

    def _stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._stopping.set()
        for process in self._alive.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, place: int, reading: int) -> None:
        """Keep one place filled until we stop, or no start is of use."""
        deaths = 0
        first = True
        while not self._stopping.is_set():
            began_at = monotonic()
            code = await self._run_one(place, reading)
            step = next_step(
                code,
                first=first,
                stopping=self._stopping.is_set(),
                until_empty=self._until_empty,
            )
            if step != "again":
                self._codes.append(final_code(code, stopping=self._stopping.is_set()))
                if step == "give up":
                    self._stop()
                return
            first = False
            deaths = 0 if monotonic() - began_at > _HEALTHY_SECONDS else deaths + 1
            pause = pause_seconds(deaths) * random.uniform(0.5, 1.0)
            log.warning("worker %d %s; starting another in %.1f s", place, _how(code), pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run_one(self, place: int, reading: int) -> int:
        if self._told is None:
            return await self._run_process(place, reading, None)
        async with self._told.by_one() as fd:
            return await self._run_process(place, reading, fd)

    async def _run_process(self, place: int, reading: int, telling: int | None) -> int:
        name = () if self._name is None else ("--name", f"{self._name}-{place}")
        to = () if telling is None else ("--metrics-to", str(telling))
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "wherry", "worker", "--supervised-by", str(reading)),
                *name,
                *to,
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                env=self._environment,
                pass_fds=(reading,) if telling is None else (reading, telling),
            )
        finally:
            if telling is not None:
                os.close(telling)
        self._alive[place] = process
        log.debug("worker %d is process %d", place, process.pid)
        if self._stopping.is_set():
            # The signal came while this one was being made.
            process.terminate()
        try:
            return await self._ended(process)
        finally:
            del self._alive[place]
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """Return the exit code; a worker that does not end after it was told to is killed."""
        ending = asyncio.ensure_future(process.wait())
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait([ending, stopped], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([ending], timeout=self._grace_seconds)
            if not ending.done():
                log.error("process %d does not end: killing it", process.pid)
                process.kill()
            return await ending
        finally:
            stopped.cancel()
            ending.cancel()


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

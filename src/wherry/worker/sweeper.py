"""Watches over running handlers: who has to stop is told, and who does not obey is dealt with.

It runs on the loop, beside the handlers. The keeper's thread cannot do it: that one may be waiting
for a database that never answers, just when leases are about to run out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic

from wherry.domain.lease import Fence
from wherry.domain.stacks import thread_stack
from wherry.telemetry.loggers import logger
from wherry.worker.attempt import Attempt, Reason
from wherry.worker.held import Held
from wherry.worker.logged import fields_of

log = logger("wherry.worker")

# How long a handler that was told to stop may take to clean up.
CLEAN_UP_SECONDS = 2.0
_EVERY_SECONDS = 0.25


class Sweeper:
    """The deadlines of all running attempts of one worker; *also* is called at each sweep."""

    def __init__(
        self,
        running: Mapping[Fence, Attempt],
        held: Held,
        *,
        lease_seconds: float,
        also: Callable[[], object],
    ) -> None:
        self._running = running
        self._held = held
        self._also = also
        # A lease that nobody extended ends its handler this long before it runs out.
        self._margin = min(lease_seconds / 10, 2.0)

    async def run(self) -> None:
        """Sweep for ever; the owner cancels it."""
        while True:
            next_at = self.sweep(monotonic())
            self._also()
            await asyncio.sleep(max(0.01, next_at - monotonic()))

    def sweep(self, now: float) -> float:
        """Look at every attempt once; returns when to look again."""
        next_at = now + _EVERY_SECONDS
        for attempt in list(self._running.values()):
            # An open transaction that completes the task needs no lease: its row lock is enough.
            if attempt.reason is not Reason.LOST and not attempt.context.completing:
                doomed_at = attempt.lease.deadline - self._margin
                if now >= doomed_at:
                    log.warning(
                        "task %s: its lease cannot be extended in time, its handler is told to"
                        " stop",
                        attempt.lease.id,
                        extra=fields_of(attempt.lease),
                    )
                    self._held.lose(attempt.lease)
                    attempt.stop(Reason.LOST)
                else:
                    next_at = min(next_at, doomed_at)
            if attempt.reason is not None:
                self._insist(attempt, now)
            elif attempt.stop_at is not None:
                if now >= attempt.stop_at:
                    attempt.stop(Reason.TIMEOUT)
                else:
                    next_at = min(next_at, attempt.stop_at)
        return next_at

    def _insist(self, attempt: Attempt, now: float) -> None:
        if attempt.warned or now - attempt.told_at < CLEAN_UP_SECONDS:
            return
        attempt.warned = True
        why = attempt.reason.value if attempt.reason else "it should stop"
        if attempt.in_thread:
            log.warning(
                "task %s is stuck: its handler goes on although %s, and a thread cannot be"
                " stopped; it keeps its slot until it returns. It is here:\n%s",
                attempt.lease.id,
                why,
                thread_stack(attempt.thread),
                extra=fields_of(attempt.lease),
            )
        else:
            told = "task %s is stuck: its handler ignores that %s; it is closed"
            log.warning(told, attempt.lease.id, why, extra=fields_of(attempt.lease))
            attempt.forsake()

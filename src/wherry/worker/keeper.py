"""Keeps leases alive from a thread of its own, whatever the event loop is doing.

A lease is extended before a third of it has passed, counted from its own start; every pass beats
for all leases that are due in one statement. What the database answers (lost, or a cancel was asked
for) is handed to the loop. That a lease cannot be extended in time is the sweeper's to notice: this
thread may be waiting for a database that never answers.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Protocol, TypeVar

from wherry.commands.base import Command
from wherry.commands.leases import HeartbeatLeases
from wherry.commands.workers import BeatWorker
from wherry.domain.lease import Lease, Reported
from wherry.domain.stacks import thread_stack
from wherry.domain.worker import Directive
from wherry.telemetry.loggers import logger
from wherry.transport.faults import is_trouble, one_line, without_rows
from wherry.transport.patience import Patience
from wherry.worker.held import Held
from wherry.worker.memory import resident_bytes

R = TypeVar("R")

log = logger("wherry.worker")

_BATCH = 2000
_BEAT_WORKER_EVERY = 20.0


@dataclass(slots=True)
class News:
    """What a pass found: these leases are lost, these tasks' cancel was asked for.

    `directive`: what the worker itself is asked to do, if that has changed.
    """

    lost: list[Lease] = field(default_factory=list)
    canceled: list[Lease] = field(default_factory=list)
    directive: Directive | None = None


class Beats(Protocol):
    """The blocking transport of a keeper's thread."""

    def call(self, command: Command[R]) -> R:
        """Return the command's answer."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Keeper:
    """The heartbeat thread of one worker."""

    def __init__(
        self,
        transport: Beats,
        held: Held,
        *,
        me: BeatWorker,
        lease_seconds: float,
        blocked_after: float,
        call_soon: Callable[[Callable[[], object]], object],
        tell: Callable[[News], object],
        deaf_seconds: Callable[[], float | None] = lambda: None,
    ) -> None:
        """*deaf_seconds*: for how long no notification was heard; asked in the thread."""
        self._transport = transport
        self._held = held
        self._me = me
        self._lease_seconds = lease_seconds
        self._blocked_after = blocked_after
        self._call_soon = call_soon
        self._tell = tell
        self._deaf_seconds = deaf_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wherry-keeper", daemon=True)
        self._loop_thread = threading.get_ident()
        self._seen_at = self._beat_at = monotonic()
        self._asked_at: float | None = None
        self._complained = False
        self._directive = Directive.NONE
        # For tests: the shortest time that any lease had left when it was beaten.
        self.shortest_left = lease_seconds

    def start(self) -> None:
        """Start beating; call it on the loop's thread."""
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """Have the thread end soon."""
        self._stop.set()

    def join(self, *, timeout: float) -> None:
        """Wait for the thread to end, at most *timeout* seconds."""
        self._thread.join(timeout)

    def age_seconds(self) -> float:
        """Since when no heartbeat got through; with nothing to beat for, no look at that."""
        return monotonic() - self._beat_at

    def blocked_seconds(self) -> float:
        """For how long the loop has not answered; below a second that says nothing."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None or self._seen_at >= asked_at else monotonic() - asked_at

    def _run(self) -> None:
        next_worker_beat = 0.0
        patience = Patience()
        while True:
            pause = self._pause() * random.uniform(0.8, 1.0)
            try:
                if monotonic() >= next_worker_beat:
                    self._beat_worker()
                    next_worker_beat = monotonic() + _BEAT_WORKER_EVERY
                self._beat()
                self._beat_at = monotonic()
            except Exception as error:
                # The border of this service's tick: the next one must come, whatever this one met,
                # and sooner, since each lease has only its own time left.
                pause = min(pause, 0.5)
                if patience.may_complain():
                    trace = None if is_trouble(error) else without_rows(error)
                    log.warning(
                        "heartbeats do not get through: %s", one_line(error), exc_info=trace
                    )
            self._watch_loop()
            if self._stop.wait(pause):
                break
        self._transport.close()

    def _beat_worker(self) -> None:
        me = replace(self._me, memory_bytes=resident_bytes(), deaf_seconds=self._deaf_seconds())
        directive = self._transport.call(me)
        if directive is not self._directive:
            self._directive = directive
            self._post(lambda: self._tell(News(directive=directive)))

    def _pause(self) -> float:
        # While nothing is held a pass only has to find out soon enough that something is.
        return min(self._lease_seconds / 6, 1.0 if self._held else 5.0)

    def _beat(self) -> None:
        # What would have lost a third by the next pass is beaten in this one.
        latest = monotonic() + self._lease_seconds * 2 / 3 + self._pause()
        due = [lease for lease in self._held.all() if lease.deadline < latest]
        for start in range(0, len(due), _BATCH):
            part = due[start : start + _BATCH]
            self.shortest_left = min(self.shortest_left, *(lease.remaining for lease in part))
            answers = self._transport.call(HeartbeatLeases(tuple(part), self._lease_seconds))
            news = News()
            for lease, answer in zip(part, answers, strict=True):
                if answer is Reported.LOST:
                    news.lost.append(lease)
                elif answer is Reported.CANCEL_REQUESTED:
                    news.canceled.append(lease)
            if news.lost or news.canceled:
                self._post(lambda news=news: self._tell(news))  # type: ignore[misc]

    def _watch_loop(self) -> None:
        """Report a loop that has not answered for long: some async handler is blocking it."""
        now = monotonic()
        if self._asked_at is None or self._seen_at >= self._asked_at:
            self._asked_at = now
            self._complained = False
            self._post(self._seen)
        elif now - self._asked_at > self._blocked_after and not self._complained:
            self._complained = True
            log.warning(
                "the event loop has been blocked for %.1f s; leases are kept, but nothing else"
                " moves. A plain function would run in a thread. It is here:\n%s",
                now - self._asked_at,
                thread_stack(self._loop_thread),
            )

    def _seen(self) -> None:
        self._seen_at = monotonic()

    def _post(self, function: Callable[[], object]) -> None:
        try:
            self._call_soon(function)
        except RuntimeError:
            # The loop is closed: there is nobody left to tell.
            self._stop.set()

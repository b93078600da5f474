"""A worker: leases tasks, runs their handlers in slots, reports, and stops without losing anything.

    intake ──► buffer ──► slots (runner + handler) ──► reporter
                              ▲
      keeper's thread ────────┘  lease lost, cancel asked for

It holds no maintenance; whoever composes it runs that beside it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic

from wherry.commands.leases import LeaseTasks
from wherry.commands.maintenance import PromoteTasks
from wherry.commands.queues import ListReadyQueues
from wherry.config import WorkerSettings
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome
from wherry.errors import Unavailable
from wherry.tasks.registry import Registry
from wherry.transport.base import Transport
from wherry.worker.attempt import Attempt, Reason, Runner
from wherry.worker.context import Queue
from wherry.worker.held import Fence, Held
from wherry.worker.intake import Pace, Wanted, wanted
from wherry.worker.keeper import News
from wherry.worker.reporter import Reporter
from wherry.worker.threads import Threads
from wherry.worker.wakeups import Wakeups

log = logging.getLogger("wherry.worker")

# How long a canceled async handler may take to clean up before it is left behind.
_CLEAN_UP_SECONDS = 2.0
# Tasks on their last attempt are not prefetched; at least this often a lease is for free slots only.
_FREE_SLOTS_EVERY = 1.0


@dataclass(slots=True)
class Summary:
    """What a worker did. `abandoned`: tasks whose handlers were still running at the end;
    `unreported`: tasks whose outcomes could not be stored. Both come back when their leases run out.
    """

    answers: Counter[Reported] = field(default_factory=Counter)
    abandoned: list[int] = field(default_factory=list)
    unreported: list[int] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if everything that was leased was settled, else 1."""
        return 1 if self.abandoned or self.unreported else 0


class Worker:
    """One worker in one event loop."""

    def __init__(
        self,
        app: Queue,
        registry: Registry,
        *,
        leasing: Transport,
        reporting: Transport,
        wakeups: Wakeups,
        queues: tuple[str, ...] | None,
        name: str,
        settings: WorkerSettings,
        until_empty: bool = False,
    ) -> None:
        self.name = name
        self.settings = settings
        self.held = Held()
        self.summary = Summary()
        self._leasing = leasing
        self._wakeups = wakeups
        self._queues = queues
        self._rotation: deque[str] = deque(queues or ())
        self._types = registry.names
        self._until_empty = until_empty
        self._threads = Threads(name=f"wherry-{name}")
        self._runner = Runner(app, registry, self._threads)
        self._reporter = Reporter(reporting, self.held, told=self._told)
        self._buffer: asyncio.Queue[Lease] = asyncio.Queue()
        self._pace = Pace()
        # Set whenever a slot became free: the intake may want more, the end may have come.
        self._moved = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._free_slots_at = monotonic()
        self._cancel_asked: set[Fence] = set()
        self._stuck: dict[Fence, float] = {}

    def stop(self) -> None:
        """Stop leasing, let what runs finish, then end; safe to call again."""
        self._stopping.set()
        self._wakeups.wake()
        self._moved.set()

    def hurry(self) -> None:
        """Interrupt what still runs."""
        self.stop()
        self._hurried.set()

    async def run(self) -> Summary:
        """Work until stopped (or, with `until_empty`, until nothing is due), then settle everything."""
        slots = [
            asyncio.create_task(self._slot(), name=f"slot-{n}")
            for n in range(self.settings.concurrency)
        ]
        services = [
            asyncio.create_task(self._reporter.run(), name="reporter"),
            asyncio.create_task(self._sweep(), name="sweeper"),
        ]
        intake = asyncio.create_task(self._intake(), name="intake")
        try:
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait(
                [intake, stopping, *slots, *services], return_when=asyncio.FIRST_COMPLETED
            )
            stopping.cancel()
            for service in (intake, *slots, *services):
                if service.done() and not service.cancelled() and service.exception():
                    raise service.exception() or RuntimeError
        finally:
            self.stop()
            await _settled([intake], timeout=self.settings.lease_for.total_seconds())
            await self._wind_down(slots)
            await self._last_reports()
            for task in (*slots, *services):
                task.cancel()
            await _settled([*slots, *services], timeout=_CLEAN_UP_SECONDS)
            self._threads.close()
        return self.summary

    def news(self, news: News) -> None:
        """Act on what the keeper found; called on the loop."""
        for lease in news.lost:
            self.held.drop([lease])
            # Should it still be waiting for a slot, it will see that its time is over.
            lease.deadline = 0.0
            attempt = self._runner.running.get((lease.id, lease.token))
            if attempt is not None and attempt.reason is not Reason.LOST:
                log.warning("task %s: its lease is lost, its handler is told to stop", lease.id)
                attempt.reason = None
                attempt.stop(Reason.LOST)
        for lease in news.canceled:
            fence = (lease.id, lease.token)
            attempt = self._runner.running.get(fence)
            if attempt is None:
                self._cancel_asked.add(fence)
            elif attempt.reason is None:
                attempt.stop(Reason.CANCEL)

    def given_up(self, lease: Lease) -> bool:
        """Whether a lease's handler ignores its end, so that somebody else must get the task."""
        since = self._stuck.get((lease.id, lease.token))
        return since is not None and monotonic() - since > _CLEAN_UP_SECONDS

    # ── intake ──

    async def _intake(self) -> None:
        pause = 0.05
        complained_at = -60.0
        while not self._stopping.is_set():
            try:
                await self._take_some()
                pause = 0.05
            except Unavailable as error:
                if monotonic() - complained_at > 60:
                    complained_at = monotonic()
                    log.warning("waiting for the database: %s", error)
                await self._until(self._stopping, seconds=pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, 5.0)
        while not self._buffer.empty():
            await self._reporter.add(GivenBack(self._buffer.get_nowait(), "release"))

    async def _take_some(self) -> None:
        want = self._wanted()
        if not want.tasks:
            await self._moved.wait()
            self._moved.clear()
            return
        leases = await self._lease(want)
        if len(leases) >= want.tasks:
            await self._wakeups.busy()
            # Yield: handlers that never wait would otherwise starve the slots' neighbours.
            await asyncio.sleep(0)
        elif not want.last:
            # Only prefetching: what was left out may be on its last attempt, which is for a free
            # slot. The next one that is free will ask again.
            await self._until(self._moved, seconds=self.settings.poll_every.total_seconds())
            self._moved.clear()
        elif len(leases) >= want.last:
            # Every free slot got one; whether there are more is not known.
            await asyncio.sleep(0)
        elif self._until_empty and not leases:
            await self._maybe_end()
        elif not self._stopping.is_set():
            await self._wakeups.pause()

    def _wanted(self) -> Wanted:
        now = monotonic()
        only_free = now - self._free_slots_at > _FREE_SLOTS_EVERY
        want = wanted(
            slots=self.settings.concurrency,
            running=len(self._runner.running),
            buffered=self._buffer.qsize(),
            pace=self._pace.seconds,
            ahead_seconds=self.settings.prefetch_ahead.total_seconds(),
            most=self.settings.batch_size,
            only_free_slots=only_free,
        )
        if want.last:
            self._free_slots_at = now
        return want

    async def _lease(self, want: Wanted) -> list[Lease]:
        if self._queues is None:
            self._rotation = deque(await self._leasing.call(ListReadyQueues()))
            random.shuffle(self._rotation)
        taken: list[Lease] = []
        for _ in range(len(self._rotation)):
            queue = self._rotation[0]
            # Round robin between queues: each lease starts with the next one.
            self._rotation.rotate(-1)
            leases = await self._leasing.call(
                LeaseTasks(
                    queue=queue,
                    worker=self.name,
                    limit=want.tasks - len(taken),
                    limit_last=max(0, want.last - len(taken)),
                    types=self._types,
                    lease_seconds=self.settings.lease_for.total_seconds(),
                )
            )
            self.held.add(leases)
            taken += leases
            for lease in leases:
                self._buffer.put_nowait(lease)
            if len(taken) >= want.tasks or self._stopping.is_set():
                break
        return taken

    async def _maybe_end(self) -> None:
        """End if nothing is due and nothing is in flight, seen after the last report was answered."""
        if self._runner.running or not self._buffer.empty() or len(self._reporter):
            await self._until(self._moved, seconds=0.05)
            self._moved.clear()
            return
        promoted = await self._leasing.call(PromoteTasks())
        if not promoted.promoted and not await self._lease(Wanted(1, 1)):
            self.stop()

    # ── slots ──

    async def _slot(self) -> None:
        while True:
            lease = await self._buffer.get()
            fence = (lease.id, lease.token)
            began_at = monotonic()
            if fence in self._cancel_asked:
                self._cancel_asked.discard(fence)
                outcome: Outcome | None = GivenBack(lease, "release")
            elif self._stopping.is_set():
                outcome = GivenBack(lease, "release")
            else:
                outcome = await self._runner.run(lease)
                self._pace.add(monotonic() - began_at)
                self._stuck.pop(fence, None)
            if outcome is None:
                self.held.drop([lease])
            else:
                await self._reporter.add(outcome)
            self._moved.set()

    async def _sweep(self) -> None:
        """Tell handlers whose time is up, again and again if they ignore it."""
        while True:
            now = monotonic()
            next_at = now + 0.25
            for fence, attempt in list(self._runner.running.items()):
                if attempt.reason is None and attempt.stop_at is not None:
                    if now >= attempt.stop_at:
                        attempt.stop(Reason.TIMEOUT)
                        self._stuck_since(fence, attempt, now)
                    else:
                        next_at = min(next_at, attempt.stop_at)
                elif attempt.reason is not None:
                    self._stuck_since(fence, attempt, now)
            await asyncio.sleep(max(0.01, next_at - now))

    def _stuck_since(self, fence: Fence, attempt: Attempt, now: float) -> None:
        since = self._stuck.get(fence) if not attempt.in_thread else now
        if since is None:
            self._stuck[fence] = now
        elif now - since > _CLEAN_UP_SECONDS:
            log.warning(
                "task %s is stuck: its handler ignores that %s; its lease is given up",
                attempt.lease.id,
                attempt.reason.value if attempt.reason else "it should end",
            )

    def _told(self, outcome: Outcome, answer: Reported) -> None:
        self.summary.answers[answer] += 1
        self._moved.set()
        match outcome, answer:
            case _, Reported.LOST:
                log.warning(
                    "task %s: the report came too late, its lease was lost", outcome.lease.id
                )
            case Failed(failure=failure), Reported.REQUEUED:
                log.warning(
                    "task %s (%s) failed in attempt %d of %d and will be retried: %s: %s",
                    outcome.lease.id, outcome.lease.type, outcome.lease.attempt,
                    outcome.lease.max_attempts, failure.type, failure.message,
                )  # fmt: skip
            case Failed(failure=failure), Reported.DEAD:
                log.error(
                    "task %s (%s) is dead after %d attempts: %s: %s\n%s",
                    outcome.lease.id, outcome.lease.type, outcome.lease.attempt,
                    failure.type, failure.message, failure.traceback,
                )  # fmt: skip
            case Failed(failure=failure), Reported.FAILED:
                log.warning(
                    "task %s (%s) failed for good: %s: %s",
                    outcome.lease.id, outcome.lease.type, failure.type, failure.message,
                )  # fmt: skip
            case Completed(), _:
                log.debug("task %s (%s): %s", outcome.lease.id, outcome.lease.type, answer)

    # ── the end ──

    async def _wind_down(self, slots: list[asyncio.Task[None]]) -> None:
        deadline = monotonic() + self.settings.shutdown_timeout.total_seconds()
        while self._runner.running and monotonic() < deadline and not self._hurried.is_set():
            await self._until(self._moved, self._hurried, seconds=deadline - monotonic())
            self._moved.clear()
        for attempt in list(self._runner.running.values()):
            attempt.stop(Reason.SHUTDOWN)
        deadline = monotonic() + _CLEAN_UP_SECONDS
        while self._runner.running and monotonic() < deadline:
            await self._until(self._moved, seconds=deadline - monotonic())
            self._moved.clear()
        self.summary.abandoned = sorted(a.lease.id for a in self._runner.running.values())
        if self.summary.abandoned:
            log.warning(
                "still running and left behind, to be run again when their leases run out: tasks %s",
                ", ".join(map(str, self.summary.abandoned)),
            )

    async def _last_reports(self) -> None:
        deadline = monotonic() + _CLEAN_UP_SECONDS
        while len(self._reporter) and monotonic() < deadline:
            await self._until(self._moved, seconds=0.05)
            self._moved.clear()
        self.summary.unreported = self._reporter.unsent()
        if self.summary.unreported:
            log.error(
                "the outcomes of these tasks could not be stored, they will run again: %s",
                ", ".join(map(str, self.summary.unreported)),
            )

    async def _until(self, *events: asyncio.Event, seconds: float) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(
                waits, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()


async def _settled(tasks: list[asyncio.Task[None]], *, timeout: float) -> None:
    """Wait for tasks to end; whatever they raise was seen before or does not matter any more."""
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=timeout)
        for task in pending:
            task.cancel()

"""A worker: leases tasks, runs their handlers in slots, reports, and stops without losing anything.

    intake ──► buffer ──► slots (runner + handler) ──► reporter
                              ▲
      keeper's thread ────────┤  lease lost, cancel asked for
      sweeper ────────────────┘  time is up, lease about to end

It holds no maintenance; whoever composes it runs that beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from wherry.config import WorkerSettings
from wherry.domain.lease import Fence, Lease, Reported
from wherry.domain.outcome import GivenBack, Outcome
from wherry.domain.worker import Directive
from wherry.errors import Unavailable
from wherry.tasks.registry import Registry
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble
from wherry.transport.patience import SOON_SECONDS, Patience
from wherry.worker.answers import log_answers
from wherry.worker.attempt import Reason, Run, Runner, absorb
from wherry.worker.buffer import Buffer
from wherry.worker.context import AppCalls
from wherry.worker.held import Held
from wherry.worker.intake import Pace, Wanted, wanted
from wherry.worker.keeper import News
from wherry.worker.logged import enter_worker, fields_of
from wherry.worker.reporter import Reporter
from wherry.worker.source import Source
from wherry.worker.summary import Summary
from wherry.worker.sweeper import CLEAN_UP_SECONDS, Sweeper
from wherry.worker.threads import Threads

log = logger("wherry.worker")

# At least this often a lease is for free slots only: what is on its last attempt is not prefetched.
_FREE_SLOTS_EVERY = 1.0
# So long quick handlers run one after the other before anything else has its turn: a lease or a
# report that waits for the loop keeps the database waiting.
_TURN_SECONDS = 0.001
# When no slot has begun anything for so long, what was prefetched is given back to the others.
_STALLED_AFTER = 1.0


class Worker:
    """One worker in one event loop."""

    def __init__(
        self,
        app: AppCalls,
        registry: Registry,
        *,
        source: Source,
        reporting: Transport,
        reporting_too: Transport | None = None,
        name: str,
        settings: WorkerSettings,
        until_empty: bool = False,
        around: Callable[[Run], Run] | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.held = Held()
        self.summary = Summary()
        self._source = source
        self._until_empty = until_empty
        self._threads = Threads(name=f"wherry-{name}")
        self.runner = Runner(
            app, registry, self._threads, is_ending=self._is_ending, waits=self._waits
        )
        self._run = self.runner.run if around is None else around(self.runner.run)
        self.reporter = Reporter(reporting, self.held, told=self._told, too=reporting_too)
        self._sweeper = Sweeper(
            self.runner.running,
            self.held,
            lease_seconds=settings.lease_for.total_seconds(),
            also=self._give_back_stalled,
        )
        self.buffer = Buffer()
        self._pace = Pace()
        self._me: asyncio.Task[Any] | None = None
        self._parts: dict[str, asyncio.Task[None]] = {}
        # Set whenever a slot became free: the intake may want more, the end may have come.
        self._moved = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._draining = False
        self._ended = False
        self._free_slots_at = self._took_at = monotonic()
        self._turn_ends_at = 0.0
        # How many handlers had to be waited for.
        self._waited = 0
        self._cancel_asked: set[Fence] = set()

    def stop(self) -> None:
        """Stop leasing, let what runs finish, then end; safe to call again."""
        self._stopping.set()
        self._source.wake()
        self._moved.set()

    def hurry(self) -> None:
        """Interrupt what still runs."""
        self._hurried.set()
        self.stop()

    def direct(self, directive: Directive) -> None:
        """Do what somebody has asked of this worker; asked for again it changes nothing.

        DRAIN: lease nothing until told otherwise, give back what has not started. STOP: see `stop`.
        """
        if directive is Directive.STOP and not self._stopping.is_set():
            log.info("worker %s was told to stop", self.name)
            self.stop()
        draining = directive is Directive.DRAIN
        if draining == self._draining:
            return
        self._draining = draining
        log.info("worker %s was told to %s", self.name, "drain" if draining else "go on")
        if draining:
            self._source.wake()
            self._give_back_buffer()
        self._moved.set()

    async def run(self) -> Summary:
        """Work until stopped (or, with `until_empty`, until nothing is due), then settle all.

        Raises whatever ended one of its parts by mistake, after the same settling.
        """
        self._me = asyncio.current_task()
        enter_worker(self.name)
        services = {
            "intake": self._intake,
            "reporter": self.reporter.run,
            "second reporter": self.reporter.run_too,
            "sweeper": self._sweeper.run,
        }
        slots = {f"slot-{n}": self._slot for n in range(self.settings.concurrency)}
        self._parts = {
            name: asyncio.create_task(part(), name=name)
            for name, part in (services | slots).items()
        }
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        try:
            await asyncio.wait(
                [stopping, *self._parts.values()], return_when=asyncio.FIRST_COMPLETED
            )
            self._raise_what_ended()
        except asyncio.CancelledError:
            # The whole loop is ending: there is no time to wait for handlers.
            self.hurry()
            raise
        finally:
            self.stop()
            await self._end()
        return self.summary

    def news(self, news: News) -> None:
        """Act on what the keeper found; called on the loop."""
        if news.directive is not None:
            self.direct(news.directive)
        for lease in news.lost:
            self.held.lose(lease)
            # Should it still be waiting for a slot, it will see that its time is over.
            lease.deadline = 0.0
            attempt = self.runner.running.get(lease.fence)
            # Once it is completing in a transaction, a lease that is gone is no news: it committed.
            if attempt is None or attempt.reason is Reason.LOST or attempt.context.completing:
                continue
            told = "task %s: its lease is lost, its handler is told to stop"
            log.warning(told, lease.id, extra=fields_of(lease))
            attempt.stop(Reason.LOST)
        for lease in news.canceled:
            attempt = self.runner.running.get(lease.fence)
            if attempt is None:
                self._cancel_asked.add(lease.fence)
            elif attempt.reason is None:
                attempt.stop(Reason.CANCEL)

    # ── intake ──

    async def _intake(self) -> None:
        patience = Patience(longest=SOON_SECONDS)
        while not self._stopping.is_set():
            began_at = monotonic()
            try:
                await self._take_some()
                patience.reset()
            except Exception as error:
                if not is_trouble(error) or self._source.is_final(error):
                    raise
                advice = error.advice if isinstance(error, Unavailable) else None
                if patience.may_complain(about=advice):
                    log.warning("waiting for %s: %s", self._source.place, error)
                pause = patience.next_pause(after=monotonic() - began_at)
                await self._until(self._stopping, seconds=pause)
        self._moved.set()

    async def _take_some(self) -> None:
        self._moved.clear()
        want = self._wanted()
        if not want.tasks or self._draining:
            await self._moved.wait()
            return
        # Only for free slots: while they are taken, ever more could be wanted.
        may_wait = want.last > 0 and not self._until_empty
        taken = await self._source.take(want, self._keep, may_wait=may_wait)
        if taken >= want.tasks:
            await self._source.busy()
            # Yield: handlers that never wait would otherwise starve the slots' neighbours.
            await asyncio.sleep(0)
        elif not want.last:
            # Only prefetching: what was left out may be on its last attempt, which is for a free
            # slot. The next one that is free will ask again.
            await self._until(self._moved, seconds=self.settings.poll_every.total_seconds())
            await self._source.gather()
        elif taken >= want.last:
            # Every free slot got one; whether there are more is not known.
            await self._source.gather()
        elif self._until_empty:
            await self._maybe_end()
        elif not self._stopping.is_set():
            await self._source.pause()

    def _keep(self, leases: list[Lease]) -> bool:
        self.held.add(leases)
        self.buffer.put(leases)
        return not self._stopping.is_set()

    def _wanted(self) -> Wanted:
        now = monotonic()
        only_free = now - self._free_slots_at > _FREE_SLOTS_EVERY
        want = wanted(
            slots=self.settings.concurrency,
            running=len(self.runner.running),
            buffered=len(self.buffer),
            pace=self._pace.seconds,
            ahead_seconds=self.settings.prefetch_ahead.total_seconds(),
            most=self.settings.batch_size,
            only_free_slots=only_free or self._is_stalled(),
        )
        if want.last:
            self._free_slots_at = now
        return want

    async def _maybe_end(self) -> None:
        """End if nothing is due and nothing in flight, seen after the last report's answer."""
        if self.runner.running or len(self.buffer) or len(self.reporter):
            await self._until(self._moved, seconds=0.05)
            return
        if await self._source.is_empty(self._keep):
            self.stop()

    # ── slots ──

    async def _slot(self) -> None:
        me = asyncio.current_task()
        while not self._ended:
            try:
                await self._fill_slot(me)
            except asyncio.CancelledError:
                if me is None or self._is_ending():
                    raise
                # Left behind by a handler that has ended, such as a timer of its own.
                await absorb(me)

    async def _fill_slot(self, me: asyncio.Task[Any] | None) -> None:
        while not self._ended:
            lease = self.buffer.take() or await self.buffer.get()
            self._took_at = ended_at = began_at = lease.began_at = monotonic()
            if self._stopping.is_set() or lease.fence in self._cancel_asked:
                outcome: Outcome | None = GivenBack(lease, "release")
            else:
                waited = self._waited
                outcome = await self._run(lease, me)
                ended_at = monotonic()
                # A handler that never waited has kept all the other slots from running.
                alone = 1 if waited != self._waited else self.settings.concurrency
                self._pace.add((ended_at - began_at) * alone)
            lease.ended_at = ended_at
            if outcome is None:
                self.held.drop([lease])
            else:
                self.reporter.put(outcome)
            self._moved.set()
            if ended_at > self._turn_ends_at:
                if self.reporter.is_full:
                    await self.reporter.room()
                await asyncio.sleep(0)
                self._turn_ends_at = monotonic() + _TURN_SECONDS

    def _waits(self) -> None:
        """Let others begin while a handler waits."""
        self._waited += 1
        self.buffer.wake(2)

    def _is_ending(self) -> bool:
        return self._ended or (self._me is not None and self._me.cancelling() > 0)

    def _told(self, outcomes: Sequence[Outcome], answers: Sequence[Reported]) -> None:
        if self._cancel_asked:
            self._cancel_asked.difference_update(o.lease.fence for o in outcomes)
        self.summary.count(answers)
        self._moved.set()
        log_answers(outcomes, answers)

    def _is_stalled(self) -> bool:
        """Whether every slot is taken by a handler that takes long, so that nothing starts soon."""
        is_full = len(self.runner.running) >= self.settings.concurrency
        return is_full and monotonic() - self._took_at > _STALLED_AFTER

    def _give_back_stalled(self) -> None:
        if self._is_stalled():
            self._give_back_buffer()

    def _give_back_buffer(self) -> None:
        for lease in self.buffer.take_all():
            self.reporter.put(GivenBack(lease, "release"))

    # ── the end ──

    def _raise_what_ended(self) -> None:
        """Raise the error of a part that ended by itself: none does, but by a mistake."""
        for name, part in self._parts.items():
            if part.done():
                error = None if part.cancelled() else part.exception()
                if error is not None or not self._stopping.is_set():
                    raise error or RuntimeError(f"the worker's {name} has ended by itself")

    async def _end(self) -> None:
        while not self._ended:
            try:
                await self._settle_all()
            except asyncio.CancelledError:
                # Canceled once more, now with all its parts, since the loop itself is ending.
                self.hurry()

    async def _settle_all(self) -> None:
        """Let handlers finish in the time there is, interrupt the rest, and report everything."""
        reporter = self._parts["reporter"]
        ends_at = monotonic() + CLEAN_UP_SECONDS
        # A limit of its own that is just up counts as a cancellation too, for a turn of the loop.
        while reporter.cancelling() and not reporter.done() and monotonic() < ends_at:
            await asyncio.wait([reporter], timeout=0.01)
        if reporter.done():
            # It ended by a mistake, or with the loop: another one sends what is left.
            self._parts["reporter"] = asyncio.create_task(self.reporter.run(), name="reporter")
        await self._settled(self.settings.shutdown_timeout.total_seconds(), unless_hurried=True)
        self._parts["intake"].cancel()
        for attempt in list(self.runner.running.values()):
            attempt.stop(Reason.SHUTDOWN)
        await self._settled(CLEAN_UP_SECONDS * 0.8)
        for attempt in list(self.runner.running.values()):
            attempt.forsake()
        await self._settled(CLEAN_UP_SECONDS * 0.2)
        self._ended = True
        self._sum_up()
        for part in self._parts.values():
            part.cancel()
        await asyncio.wait(self._parts.values(), timeout=CLEAN_UP_SECONDS)
        for part in self._parts.values():
            if part.done() and not part.cancelled():
                # What one of them raised first was raised already; the others follow from it.
                part.exception()
        self._threads.close()

    async def _settled(self, seconds: float, *, unless_hurried: bool = False) -> None:
        """Return when nothing runs and everything is reported, or after *seconds*."""
        ends_at = monotonic() + seconds
        while True:
            self._moved.clear()
            self._give_back_buffer()
            in_flight = len(self.runner.running) + len(self.reporter)
            left = ends_at - monotonic()
            if (not in_flight and self._parts["intake"].done()) or left <= 0:
                return
            if unless_hurried and self._hurried.is_set():
                return
            await self._until(self._moved, seconds=left)

    def _sum_up(self) -> None:
        self.summary.leave(
            abandoned=(attempt.lease.id for attempt in self.runner.running.values()),
            unreported=self.reporter.unsent(),
        )

    async def _until(self, event: asyncio.Event, *, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await event.wait()
        except TimeoutError:
            return

"""The desk: where workers wait for tasks, and no connection is held for any of them.

Polls gather while a statement is under way, and the next statement serves all of them. A poll that
finds nothing waits until something comes to one of its queues, which PostgreSQL notifies of, since
the desk has said what it waits for (`marks.py`). What is known to be empty is not asked about
again: a thousand idle workers that come back every minute cost no statement. A look every few
seconds is the backstop.

While the database is away, polls that wait go on waiting, and are served as soon as it is back; one
whose time is over is told Unavailable, as is one that did not want to wait.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from wherry.commands.maintenance import PromoteTasks
from wherry.commands.workers import EVERY_QUEUE, LeaveWorker
from wherry.domain.lease import Lease, LeaseRef
from wherry.domain.worker import Directive
from wherry.errors import ShuttingDown, Unavailable, WherryError
from wherry.server.caller import ALL_QUEUES
from wherry.server.dealing import deal
from wherry.server.marks import Marks
from wherry.server.returns import Returns
from wherry.server.roster import Roster, Who
from wherry.server.start_timers import StartTimers
from wherry.server.waiters import Poll, Sought, Waiter
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_trouble, one_line, without_rows
from wherry.transport.patience import SOON_SECONDS, Patience
from wherry.worker.cursors import Cursors
from wherry.worker.starts import Starts

log = logger("wherry.server")

__all__ = ["Desk", "Poll"]

# A statement that takes longer, when a poll's time is over, is not waited for.
_ANSWER_WITHIN_SECONDS: Final = 5.0
_LEAVE_WITHIN_SECONDS: Final = 0.5
_MOST_QUIET: Final = 10_000


class Desk:
    """The long polls of one server."""

    def __init__(
        self,
        *,
        leasing: Transport,
        keeping: Transport,
        instance: str,
        is_listening: Callable[[], bool],
        came: Callable[[], object] = lambda: None,
        deaf_seconds: Callable[[], float | None] = lambda: None,
        look_seconds: float = 1.0,
        look_seconds_listening: float = 5.0,
    ) -> None:
        """*leasing* leases and looks; *keeping* beats and gives back. One session each.

        *came* is called when the database has been told what workers know that have just come.
        *deaf_seconds*: for how long nothing was heard of what is notified, if it should be.
        """
        self._leasing = leasing
        self._keeping = keeping
        self._instance = instance
        # In the order in which they came; and once more by what they wait for.
        self._waiters: dict[Waiter, None] = {}
        self._by_mark: defaultdict[str, dict[Waiter, None]] = defaultdict(dict)
        # What was looked for and not there, while everything that comes is heard of.
        self._quiet: set[Sought] = set()
        self._some = asyncio.Event()
        self._draining = False
        self._patience = Patience(longest=SOON_SECONDS)
        self._trouble: Exception | None = None
        self._trouble_until = 0.0
        self._cursors = Cursors(leasing, queues=None)
        self._starts = StartTimers(Starts(leasing, queues=None), may_start=self._found)
        self._returns = Returns(keeping)
        self._roster = Roster(
            keeping, changed=self._directive_changed, came=came, deaf_seconds=deaf_seconds
        )
        self._marks = Marks(
            leasing,
            instance=instance,
            waited=self._waited_queues,
            found=self._found,
            is_listening=is_listening,
            look_seconds=look_seconds,
            look_seconds_listening=look_seconds_listening,
        )

    async def run(self) -> None:
        """Serve for ever; the owner cancels it, after `drain`."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._deal_on(), name="desk")
                group.create_task(self._marks.run(), name="marks")
                group.create_task(self._returns.run(), name="returns")
                group.create_task(self._roster.run(self._waiting_workers), name="roster")
        finally:
            self._starts.cancel()

    async def poll(self, poll: Poll) -> list[Lease]:
        """Return leases for a poll, waiting as long as it says; maybe none.

        Raises Unavailable if the database is away when its time is over. If this is canceled, what
        was leased for it goes back at once.
        """
        if self._draining:
            raise ShuttingDown
        self._roster.seen(
            poll.who,
            host=poll.caller.peer,
            queues=None if poll.every_queue else poll.queues,
            types=poll.types,
            is_polling=True,
        )
        directive = self._roster.directive_of(poll.who)
        if directive is Directive.STOP:
            return []
        waiter = Waiter(poll)
        if directive is Directive.DRAIN:
            if waiter.over:
                return []
            waiter.rests, waiter.hungry = True, False
        elif waiter.over and self._trouble is not None and monotonic() < self._trouble_until:
            raise self._away()
        elif directive is None:
            # It may have been told to drain through another server: that is known in a moment.
            waiter.rests, waiter.hungry = True, False
        elif not waiter.over and poll.sought in self._quiet and self._marks.settled(poll.marks):
            waiter.hungry = False
        return await self._wait(waiter)

    async def _wait(self, waiter: Waiter) -> list[Lease]:
        poll = waiter.poll
        self._enter(waiter)
        loop = asyncio.get_running_loop()
        latest = poll.wait_seconds + _ANSWER_WITHIN_SECONDS
        timers = [loop.call_later(latest, self._give_up, waiter)]
        if not waiter.over:
            timers.append(loop.call_later(poll.wait_seconds, self._time_is_over, waiter))
        if waiter.hungry:
            self._some.set()
        elif not waiter.rests and not self._marks.knows(poll.marks):
            self._marks.wake()
        try:
            leases = await waiter.answer
        except asyncio.CancelledError:
            # What was dealt to it already, or is on the way.
            self._returns.give_back(waiter.leases)
            waiter.leases = []
            waiter.abandon()
            raise
        finally:
            for timer in timers:
                timer.cancel()
            self._leave(waiter)
        if leases and poll.confirm_seconds is not None:
            self._returns.expect(
                leases, within=poll.confirm_seconds, lease_seconds=poll.lease_seconds
            )
        return leases

    @property
    def waiting(self) -> int:
        """How many polls wait now."""
        return len(self._waiters)

    def hears(self, queues: Collection[str]) -> bool:
        """Whether everything that comes to *queues* is heard of; the empty name is every queue."""
        return self._marks.settled(queues)

    def marked(self, queues: Collection[str]) -> bool:
        """Whether the database knows that somebody waits for *queues*."""
        return self._marks.knows(queues)

    def is_quiet(self, queues: tuple[str, ...], types: tuple[str, ...] | None = None) -> bool:
        """Whether a poll for these waits without a look: it is known that nothing is there."""
        return (queues, types) in self._quiet

    def _enter(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None
        for mark in waiter.poll.marks:
            self._by_mark[mark][waiter] = None

    def _leave(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        for mark in waiter.poll.marks:
            self._by_mark[mark].pop(waiter, None)
            if not self._by_mark[mark]:
                del self._by_mark[mark]

    async def give_back(self, leases: Sequence[Lease]) -> None:
        """Release leases that could not be delivered, at once."""
        self._returns.give_back(leases)

    def confirm(self, leases: Iterable[LeaseRef]) -> None:
        """Somebody has beaten or reported: these leases were delivered."""
        self._returns.confirm(leases)

    def seen(self, who: Who, *, host: str) -> None:
        """A worker was heard of, beating."""
        self._roster.seen(who, host=host)

    def directive_of(self, who: Who) -> Directive:
        """Return what a worker is asked to do, as far as is known here."""
        return self._roster.directive_of(who) or Directive.NONE

    def ask_directives(self) -> None:
        """Look soon for what workers are asked to do."""
        self._roster.ask_soon()

    async def leave(self, who: Who) -> None:
        """A worker says goodbye."""
        await self._roster.leave(who)

    def heard(self, queue: str) -> None:
        """There may be tasks in *queue*: its polls are served. The empty name is every queue."""
        if queue:
            self._marks.heard(queue)
            self._found([queue])
            return
        self._quiet.clear()
        self._starts.doubt()
        self._marks.rely_on_none()
        self._feed(self._waiters)

    def promoted(self) -> None:
        """Delayed tasks became ready: who listens hears of it, who does not has to look."""
        self._marks.look_now()

    def drain(self) -> None:
        """Answer all who wait, and let nobody wait any more."""
        self._draining = True
        for waiter in list(self._waiters):
            if not waiter.in_flight:
                waiter.settle()
            waiter.over = True

    async def leave_all(self) -> None:
        """Give back what is undelivered, and want no more wake-ups; within half a second each."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
                await self._returns.flushed()
        with suppress(TimeoutError, WherryError):
            async with asyncio.timeout(_LEAVE_WITHIN_SECONDS):
                await self._keeping.call(LeaveWorker(self._instance))

    async def _deal_on(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            hungry = [w for w in self._waiters if w.hungry and not w.is_gone]
            if not hungry:
                continue
            try:
                began = monotonic()
                await self._round(hungry)
                await self._starts.wait(began)
            except Exception as error:  # noqa: BLE001 - the border of a service's tick
                await self._bear(error, hungry)
            else:
                self._trouble = None
                self._patience.reset()

    async def _round(self, hungry: list[Waiter]) -> None:
        for waiter in hungry:
            # What is heard from now on asks for another round.
            waiter.hungry, waiter.in_flight = False, True
        settled = {w.poll.marks for w in hungry if self._marks.settled(w.poll.marks)}
        try:
            await deal(self._leasing, hungry, self._cursors)
            await self._deal_due(hungry)
        finally:
            for waiter in hungry:
                waiter.in_flight = False
                self._marks.dealt(waiter.leases)
                if waiter.is_gone:
                    self._returns.give_back(waiter.leases)
                    waiter.leases = []
                elif waiter.leases:
                    waiter.settle()
        for waiter in hungry:
            if waiter.is_gone:
                continue
            if waiter.over:
                waiter.settle()
            elif waiter.hungry:
                self._some.set()
            else:
                # Who takes no task on its last attempt does not know what is there for others.
                if waiter.poll.marks in settled and waiter.poll.max_last != 0:
                    self._keep_quiet(waiter.poll.sought)
                if not self._marks.knows(waiter.poll.marks):
                    self._marks.wake()

    def _keep_quiet(self, sought: Sought) -> None:
        if len(self._quiet) >= _MOST_QUIET:
            self._quiet.clear()
        self._quiet.add(sought)

    async def _deal_due(self, hungry: Sequence[Waiter]) -> None:
        """Look once more for those who do not wait: a task may be due that nobody promoted yet."""
        empty = [w for w in hungry if w.over and not w.leases and not w.is_gone]
        if empty:
            # Also if it promoted none: somebody else's maintenance may have been quicker.
            await self._leasing.call(PromoteTasks())
            await deal(self._leasing, empty, self._cursors)

    async def _bear(self, error: Exception, hungry: Sequence[Waiter]) -> None:
        """Keep those who can wait, tell the others, and give the database some time."""
        if not is_trouble(error):
            log.error("leasing failed; it will be tried again", exc_info=without_rows(error))
        elif self._patience.may_complain():
            log.warning("polls wait for the database: %s", one_line(error))
        self._trouble = error
        self._quiet.clear()
        self._cursors.doubt()
        pause = self._patience.next_pause()
        self._trouble_until = monotonic() + pause
        for waiter in hungry:
            if waiter.over:
                waiter.fail(self._away())
            elif not waiter.is_gone:
                waiter.hungry = True
        await asyncio.sleep(pause)
        self._some.set()

    def _away(self) -> WherryError:
        error = self._trouble or self._marks.trouble
        if isinstance(error, WherryError):
            return error
        return Unavailable("leasing failed: ask again")

    def _time_is_over(self, waiter: Waiter) -> None:
        waiter.over = True
        if waiter.in_flight:
            # The round that is under way answers it.
            return
        if self._trouble is not None or self._marks.trouble is not None:
            waiter.fail(self._away())
        elif not waiter.hungry:
            waiter.settle()

    def _give_up(self, waiter: Waiter) -> None:
        waiter.fail(Unavailable("the database has not answered in time"))

    def _found(self, queues: Iterable[str]) -> None:
        found = set(queues)
        self._quiet = {
            sought
            for sought in self._quiet
            if ALL_QUEUES not in sought[0] and found.isdisjoint(sought[0])
        }
        for mark in (*found, EVERY_QUEUE):
            if mark in self._by_mark:
                self._feed(self._by_mark[mark])

    def _feed(self, waiters: Iterable[Waiter]) -> None:
        for waiter in waiters:
            if not waiter.rests:
                waiter.hungry = True
                self._some.set()

    def _waited_queues(self) -> set[str]:
        return {
            mark
            for waiter in self._waiters
            if not waiter.rests and not waiter.over
            for mark in waiter.poll.marks
        }

    def _waiting_workers(self) -> list[Who]:
        return [waiter.poll.who for waiter in self._waiters]

    def _directive_changed(self, who: Who, before: Directive | None) -> None:
        is_free = before is None and self.directive_of(who) is Directive.NONE
        for waiter in [waiter for waiter in self._waiters if waiter.poll.who == who]:
            if is_free:
                waiter.rests = False
                self._feed([waiter])
                continue
            waiter.over = True
            if not waiter.in_flight:
                waiter.settle()

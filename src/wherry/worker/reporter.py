"""Reports outcomes in batches.

One report is under way at a time; what ends meanwhile waits for the next one. So a lone outcome is
sent at once, and a flood of them shares a statement and a commit. Only where whole batches pile up
a second one is sent beside it, on a connection of its own, and never of the same leases: the last
report of a lease removes its row. What could not be sent is kept and sent again: a report that had
arrived after all is answered "already done".
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any

from wherry.commands.base import Command
from wherry.commands.leases import CompleteTasks, FailTasks, GiveBackTasks
from wherry.domain.failure import Failure, type_name
from wherry.domain.lease import LeaseRef, Reported
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome
from wherry.telemetry.loggers import logger
from wherry.transport.base import Transport
from wherry.transport.faults import is_refusal, is_trouble
from wherry.transport.patience import SOON_SECONDS, Patience
from wherry.worker.held import Held

log = logger("wherry.worker")

BATCH = 1000
# A thousand results of a megabyte each would be more than one statement can carry.
BATCH_CHARACTERS = 8 * 1024 * 1024
# Slots wait while this many outcomes are unsent: a worker must not outrun its database for long.
_MOST_WAITING = 5_000
# From so many on, two reports are under way.
_PILED_UP = 2 * BATCH
# Where so many end while a report is under way, the next one waits until it is full, or for so
# long: what a statement and a commit cost is then shared by more of them.
_MANY = 32
_FILL_SECONDS = 0.02
_BUSY_PAUSE = 0.05
_LONGEST_BUSY_PAUSE = 1.0


class Reporter:
    """Sends outcomes, keeps those that did not get through, and tells what became of each."""

    def __init__(
        self,
        transport: Transport,
        held: Held,
        *,
        told: Callable[[Sequence[Outcome], Sequence[Reported]], object],
        too: Transport | None = None,
    ) -> None:
        self._transport = transport
        self._too = too
        self._held = held
        self._told = told
        self._waiting: deque[Outcome] = deque()
        # All that are not known to be stored, whether they wait, are under way, or are held up.
        self._unsettled: dict[LeaseRef, Outcome] = {}
        self._held_up: set[LeaseRef] = set()
        # Of all that were busy when they were last asked for, how long each waited after that.
        self._pauses: dict[LeaseRef, float] = {}
        # The leases that a report under way tells of.
        self._under_way: set[str] = set()
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._piled_up = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._unsettled)

    def unsent(self) -> list[int]:
        """Return the ids of the tasks whose outcomes are not known to be stored."""
        return sorted(lease.id for lease in self._unsettled)

    def oldest(self) -> Outcome | None:
        """Return what has waited longest to be stored."""
        return next(iter(self._unsettled.values()), None)

    def put(self, outcome: Outcome) -> None:
        """Have an outcome reported."""
        self._unsettled[outcome.lease] = outcome
        self._waiting.append(outcome)
        self._some.set()
        waiting = len(self._waiting)
        if waiting >= BATCH:
            self._full.set()
            if waiting >= _PILED_UP:
                self._piled_up.set()
        if waiting > _MOST_WAITING:
            self._room.clear()

    @property
    def is_full(self) -> bool:
        """Whether far too many outcomes wait, so that `room` would not return at once."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Return when there is room for more outcomes."""
        await self._room.wait()

    async def run(self) -> None:
        """Send for ever; the owner cancels it once nothing more is to come."""
        await self._run(self._transport, self._some, least=1)

    async def run_too(self) -> None:
        """Send beside `run` what has piled up; needed for nothing but speed."""
        if self._too is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._run(self._too, self._piled_up, least=_PILED_UP)

    async def _run(self, transport: Transport, enough: asyncio.Event, *, least: int) -> None:
        patience = Patience(longest=SOON_SECONDS)
        while True:
            await enough.wait()
            try:
                while len(self._waiting) >= least and (batch := self._next_batch()):
                    began_at = monotonic()
                    await self._flush(transport, batch)
                    patience.reset()
                    if len(batch) >= _MANY:
                        await self._fill(began_at + _FILL_SECONDS - monotonic())
                # If all that waits is of leases under way, whoever tells of those comes back to it.
                enough.clear()
            except Exception as error:
                if not is_trouble(error):
                    raise
                if patience.may_complain():
                    log.warning("%d outcomes are kept until they can be told: %s", len(self), error)
                await asyncio.sleep(patience.next_pause())

    async def _fill(self, seconds: float) -> None:
        if seconds <= 0 or len(self._waiting) >= BATCH:
            return
        self._full.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._full.wait()

    async def _flush(self, transport: Transport, batch: list[Outcome]) -> None:
        leases = {outcome.lease.lease_id for outcome in batch}
        self._under_way |= leases
        try:
            kinds = set(map(type, batch))
            for kind in (Completed, Failed, GivenBack):
                if kind in kinds:
                    alike = [outcome for outcome in batch if type(outcome) is kind]
                    await self._send(transport, alike)
        except BaseException:
            # What is left of it goes first next time, but for what was busy and waits by itself.
            left = self._unsettled.keys() - self._held_up - {o.lease for o in self._waiting}
            self._waiting.extendleft(o for o in reversed(batch) if o.lease in left)
            raise
        finally:
            self._under_way -= leases
            if self._waiting:
                self._some.set()
            if len(self._waiting) <= _MOST_WAITING:
                self._room.set()

    def _next_batch(self) -> list[Outcome]:
        batch: list[Outcome] = []
        not_yet: list[Outcome] = []
        under_way = self._under_way
        size = 0
        while self._waiting and len(batch) < BATCH and size < BATCH_CHARACTERS:
            outcome = self._waiting.popleft()
            if under_way and outcome.lease.lease_id in under_way:
                not_yet.append(outcome)
                continue
            batch.append(outcome)
            if type(outcome) is Completed and outcome.result_text is not None:
                size += len(outcome.result_text)
        self._waiting.extendleft(reversed(not_yet))
        return batch

    async def _send(self, transport: Transport, outcomes: list[Any]) -> None:
        command = _command(outcomes, self._held.closed_by([o.lease for o in outcomes]))
        if self._pauses and any(outcome.lease in self._pauses for outcome in outcomes):
            # Of these it is known: their neighbours need not find out again, which takes time.
            command = command.after_conflict()
        try:
            answers = await transport.call(command)
        except Exception as error:
            if not is_refusal(error):
                raise
            # One bad outcome must not spoil its neighbours.
            await self._send_apart(transport, outcomes, error)
            return
        busy: list[Outcome] = []
        if Reported.BUSY in answers:
            told = list(zip(outcomes, answers, strict=True))
            busy = [outcome for outcome, answer in told if answer is Reported.BUSY]
            outcomes = [outcome for outcome, answer in told if answer is not Reported.BUSY]
            answers = [answer for answer in answers if answer is not Reported.BUSY]
        if outcomes:
            leases = [outcome.lease for outcome in outcomes]
            for lease in leases:
                del self._unsettled[lease]
                self._pauses.pop(lease, None)
            self._told(outcomes, answers)
            self._held.drop(leases)
        self._wait_for_locks(busy)

    async def _send_apart(
        self, transport: Transport, outcomes: list[Any], error: Exception
    ) -> None:
        if len(outcomes) > 1:
            middle = len(outcomes) // 2
            await self._send(transport, outcomes[:middle])
            await self._send(transport, outcomes[middle:])
            return
        [outcome] = outcomes
        plain = _plainer(outcome, error)
        if plain is None:
            log.error("the outcome of task %s cannot be stored: %s", outcome.lease.id, error)
            del self._unsettled[outcome.lease]
            self._pauses.pop(outcome.lease, None)
            self._held.drop([outcome.lease])
            return
        await self._send(transport, [plain])

    def _wait_for_locks(self, busy: list[Outcome]) -> None:
        """Send these again after a while: an open transaction is completing their tasks.

        Each is asked for less and less, whatever goes well meanwhile.
        """
        together: dict[float, list[Outcome]] = defaultdict(list)
        for outcome in busy:
            waited = self._pauses.get(outcome.lease)
            pause = _BUSY_PAUSE if waited is None else min(waited * 2, _LONGEST_BUSY_PAUSE)
            self._pauses[outcome.lease] = pause
            together[pause].append(outcome)
        self._held_up.update(o.lease for o in busy)
        for pause, outcomes in together.items():
            asyncio.get_running_loop().call_later(pause, self._again, outcomes)

    def _again(self, outcomes: list[Outcome]) -> None:
        self._held_up.difference_update(o.lease for o in outcomes)
        self._waiting.extend(outcomes)
        self._some.set()


def _command(outcomes: Sequence[Any], closed: tuple[str, ...]) -> Command[list[Reported]]:
    match outcomes[0]:
        case Completed():
            return CompleteTasks(tuple(outcomes), closed)
        case Failed():
            return FailTasks(tuple(outcomes), closed)
        case _:
            return GiveBackTasks(tuple(outcomes), closed)


def _plainer(outcome: Outcome, error: Exception) -> Outcome | None:
    """An outcome that PostgreSQL cannot refuse, in place of one that it did refuse."""
    match outcome:
        case Completed(lease, result) if result is not None:
            failure = Failure(
                "ResultRefused", f"PostgreSQL refused the result: {type_name(type(error))}", ""
            )
            return Failed(lease, "fail", failure, reason="its result cannot be stored")
        case Failed(failure=failure) if failure.type != "ErrorRefused":
            return replace(
                outcome, failure=Failure("ErrorRefused", "PostgreSQL refused the error's text", "")
            )
        case _:
            return None

"""Leases for many polls at once: one statement for all that look for the same.

A round serves every poll that may find something. It goes through each poll's queues in the poll's
order; polls that stand at the same queue and know the same types share a statement, in the order in
which they came, and tasks are dealt out to them one by one in turn. No poll is ever given more than
it asked for, nor much more than LEASE_LIMIT_BYTES of payloads; one statement leases no more than
that either, since a thousand of the largest tasks would be a gigabyte.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Final

from wherry.commands.leases import LeaseForPollers
from wherry.commands.queues import ListReadyOf, ListReadyQueues
from wherry.config import LEASE_LIMIT_BYTES
from wherry.domain.cursor import Cursor
from wherry.domain.lease import Lease
from wherry.server.waiters import Waiter
from wherry.transport.base import Transport
from wherry.worker.cursors import Cursors

# A statement takes the longer the more polls it is for, and mostly there is one task: so at first
# it is for those who came first, and only if there was enough for all of them for more.
_FIRST_POLLERS: Final = 100
# With fewer characters of payloads than this a statement has not been stopped by their bytes.
_MAYBE_CUT_CHARACTERS: Final = LEASE_LIMIT_BYTES // 4


@dataclass(slots=True)
class _Hand:
    """One poll in one round: the queues that it has not been through yet, the next one last."""

    waiter: Waiter
    queues: list[str]


async def deal(transport: Transport, waiters: Sequence[Waiter], cursors: Cursors) -> None:
    """Lease for *waiters*, in their order; each one's `leases` grow. Raises Unavailable.

    What was leased before an error stays leased, and stands in `leases`.
    """
    hands = await _hands(transport, waiters)
    while hands:
        groups: defaultdict[tuple[str, tuple[str, ...] | None], list[_Hand]] = defaultdict(list)
        for hand in hands:
            groups[hand.queues[-1], hand.waiter.poll.types].append(hand)
        for (queue, types), group in groups.items():
            cursor = await cursors.of(queue, types)
            await _lease(transport, queue, types, [hand.waiter for hand in group], cursor)
            await cursors.move(queue, cursor)
        for hand in hands:
            hand.queues.pop()
        hands = [
            hand for hand in hands if hand.queues and hand.waiter.wants and not hand.waiter.is_gone
        ]


async def _lease(
    transport: Transport,
    queue: str,
    types: tuple[str, ...] | None,
    waiters: Sequence[Waiter],
    cursor: Cursor,
) -> None:
    left: list[Waiter] = [each for each in waiters if each.wants and not each.is_gone]
    size = _FIRST_POLLERS
    while left:
        part = left[:size]
        size *= 4
        asked = min(sum(waiter.wants for waiter in part), LeaseForPollers.MOST_AT_ONCE)
        pollers = tuple(waiter.asks() for waiter in part)
        began = monotonic()
        front = cursor.looks_from(began)
        dealt = await transport.call(LeaseForPollers(queue, types, pollers, front=front))
        characters = sum(waiter.take(leases) for waiter, leases in zip(part, dealt, strict=True))
        leased = sorted(chain.from_iterable(dealt), key=_turn)
        cursor.leased(leased, wanted=asked, began_at=began, now=monotonic())
        is_all = len(leased) < asked and characters < _MAYBE_CUT_CHARACTERS
        if is_all and not cursor.has_passed_over(monotonic()):
            if any(waiter.wants and waiter.asks().limit_last != 0 for waiter in part):
                return
            # Tasks on their last attempt, which none of these takes, may be there for the others.
            left = left[len(part) :]
        # There may be more for those who were left out, or who want more than one statement gives.
        left = [each for each in left if each.wants and not each.is_gone]


def _turn(lease: Lease) -> tuple[int, int]:
    return -lease.priority, lease.position


async def _hands(transport: Transport, waiters: Sequence[Waiter]) -> list[_Hand]:
    named = dict.fromkeys(
        queue for w in waiters if not w.poll.every_queue for queue in w.poll.queues
    )
    ready: set[str] | None = None
    rotation: list[str] = []
    if any(waiter.poll.every_queue for waiter in waiters):
        rotation = await transport.call(ListReadyQueues())
        ready = set(rotation)
        # So that none of them is always the last.
        random.shuffle(rotation)
    elif len(named) > 1:
        # One look at all of them, instead of a statement for each that is empty.
        ready = set(await transport.call(ListReadyOf(tuple(named))))
    hands: list[_Hand] = []
    for waiter in waiters:
        queues = rotation if waiter.poll.every_queue else waiter.poll.queues
        queues = [queue for queue in reversed(queues) if ready is None or queue in ready]
        if queues:
            hands.append(_Hand(waiter, queues))
    return hands

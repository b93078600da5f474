"""Leases and slots find each other, whoever comes first and whoever gives up."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.facts import await_for
from tests.worker.fake import make_lease
from wherry.domain.lease import Lease
from wherry.worker.buffer import Buffer


async def _slots(buffer: Buffer, many: int, got: list[int]) -> list[asyncio.Task[None]]:
    async def take() -> None:
        got.append((await buffer.get()).id)
        # As who waits for a handler, or for ever.
        buffer.wake(2)

    slots = [asyncio.create_task(take()) for _ in range(many)]
    await asyncio.sleep(0)
    return slots


def _leases(*ids: int) -> list[Lease]:
    return [make_lease(id_) for id_ in ids]


async def test_leases_are_taken_in_their_order_by_as_many_slots_as_there_are_leases() -> None:
    buffer, got = Buffer(), list[int]()
    slots = await _slots(buffer, 3, got)

    buffer.put(_leases(1, 2))
    await await_for(lambda: len(got) == 2)

    assert got == [1, 2]
    assert [slot.done() for slot in slots] == [True, True, False]
    buffer.put(_leases(3))
    await slots[2]
    assert got == [1, 2, 3]


async def test_a_slot_that_never_waits_takes_all_and_the_others_sleep_on() -> None:
    buffer, woken = Buffer(), list[str]()

    async def slot(name: str) -> None:
        while True:
            await buffer.get()
            woken.append(name)

    async with asyncio.TaskGroup() as group:
        slots = [group.create_task(slot(name)) for name in "abc"]
        await asyncio.sleep(0)
        buffer.put(_leases(1, 2, 3, 4))
        await await_for(lambda: not len(buffer))
        buffer.wake(3)
        for each in slots:
            each.cancel()

    assert woken == ["a"] * 4


async def test_a_slot_that_was_woken_and_canceled_at_once_leaves_its_lease_to_another() -> None:
    buffer, got = Buffer(), list[int]()
    first, second = await _slots(buffer, 2, got)

    buffer.put(_leases(1))
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    await second

    assert got == [1]


async def test_a_slot_that_gave_up_waiting_is_not_woken_in_place_of_another() -> None:
    buffer, got = Buffer(), list[int]()
    first, second = await _slots(buffer, 2, got)
    first.cancel()
    await asyncio.sleep(0)

    buffer.put(_leases(1))
    await second

    assert got == [1]


async def test_a_woken_slot_that_finds_nothing_waits_on() -> None:
    buffer, got = Buffer(), list[int]()
    [slot] = await _slots(buffer, 1, got)

    buffer.put(_leases(1))
    taken = buffer.take_all()
    await asyncio.sleep(0)
    buffer.put(_leases(2))
    await slot

    assert ([lease.id for lease in taken], got, len(buffer)) == ([1], [2], 0)

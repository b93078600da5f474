"""A worker's leases go on where the last one ended, and a worker that sleeps has passed nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.worker.fake import FakeTransport, in_turn, make_lease
from wherry.commands.fronts import ListFronts, MoveFront
from wherry.commands.leases import LeaseTasks
from wherry.domain.cursor import Cursor
from wherry.domain.front import Front, Horizon, Stretch
from wherry.domain.lease import Lease
from wherry.errors import Unavailable
from wherry.worker.intake import Wanted
from wherry.worker.source import LocalSource
from wherry.worker.wakeups import Wakeups

FRONT = Front((Stretch(100, -100, 10),))


@pytest.fixture(autouse=True)
def _no_lease_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine can make one that is faked seem so, and then the front would be moved."""
    monkeypatch.setattr("wherry.domain.cursor._LONG_SECONDS", float("inf"))


def leases(*positions: int) -> list[Lease]:
    return [make_lease(id=position, position=position) for position in positions]


def source(transport: FakeTransport) -> LocalSource:
    wakeups = Wakeups(
        transport,
        instance="i",
        queues=("default",),
        poll_seconds=1,
        poll_seconds_listening=5,
        is_listening=lambda: True,
    )
    return LocalSource(
        transport, wakeups, worker="w", queues=("default",), types=("t",), lease_seconds=30
    )


async def take(taking: LocalSource, n: int) -> int:
    return await taking.take(Wanted(n, n), lambda _: True, may_wait=False)


async def test_it_begins_at_the_front_that_it_finds_and_goes_on_where_it_ended() -> None:
    transport = FakeTransport(
        {ListFronts: lambda _: {"default": FRONT}, LeaseTasks: in_turn(leases(11, 12), leases(15))}
    )
    taking = source(transport)

    assert await take(taking, 2) == 2
    assert await take(taking, 1) == 1

    fronts = [command.front for command in transport.of(LeaseTasks)]
    assert fronts == [FRONT, FRONT.past({0: 12})]


async def test_what_was_committed_late_is_found_before_it_says_that_there_is_no_more() -> None:
    """Whoever is told so goes to sleep, and nothing would wake it for that task."""
    late = leases(3)
    transport = FakeTransport({LeaseTasks: in_turn(leases(11, 12), leases(13), late, [])})
    taking = source(transport)
    kept: list[Lease] = []

    assert await take(taking, 2) == 2

    def keep(more: list[Lease]) -> bool:
        kept.extend(more)
        return True

    taken = await taking.take(Wanted(9, 9), keep, may_wait=False)

    assert taken == 2
    assert [lease.position for lease in kept] == [13, 3]
    fronts = [command.front for command in transport.of(LeaseTasks)]
    assert fronts == [None, Front().past({0: 12}), None]


async def test_whether_there_is_anything_at_all_is_looked_for_from_the_beginning() -> None:
    transport = FakeTransport({ListFronts: lambda _: {"default": FRONT}})
    taking = source(transport)
    await take(taking, 1)

    assert await taking.is_empty(lambda _: True)

    assert [command.front for command in transport.of(LeaseTasks)] == [FRONT, None]


async def test_the_front_is_moved_by_who_leases_many_and_by_nobody_else() -> None:
    horizon = Horizon(7, ("1/2",))
    transport = FakeTransport(
        {LeaseTasks: in_turn(leases(*range(1000)), []), MoveFront: lambda _: (FRONT, horizon)}
    )
    taking = source(transport)

    for _ in range(5):
        await take(taking, 1000)

    assert transport.of(MoveFront) == [MoveFront("default", (0,), None)]
    assert len(transport.of(ListFronts)) == 1
    assert transport.of(LeaseTasks)[-1].front == FRONT


async def test_after_trouble_it_trusts_no_front_that_it_knew() -> None:
    """The next server may have lost the last seconds, and draw their positions a second time."""
    transport = FakeTransport(
        {
            ListFronts: in_turn({"default": FRONT}, {}),
            LeaseTasks: in_turn(leases(11, 12), Unavailable("gone"), []),
        }
    )
    taking = source(transport)
    await take(taking, 2)
    with pytest.raises(Unavailable):
        await take(taking, 2)

    await take(taking, 2)

    fronts = [command.front for command in transport.of(LeaseTasks)]
    assert fronts == [FRONT, FRONT.past({0: 12}), None]


async def test_nor_for_long_where_a_pooler_hides_the_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("wherry.worker.cursors.monotonic", lambda: clock[0])
    transport = FakeTransport({ListFronts: in_turn({"default": FRONT}, {})})
    taking = source(transport)
    for seconds in (1.0, 30.0, 32.0):
        clock[0] = seconds
        await take(taking, 1)

    assert [command.front for command in transport.of(LeaseTasks)] == [FRONT, FRONT, None]


async def test_what_came_begins_before_anything_else_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = FakeTransport({LeaseTasks: in_turn(leases(11), [])})
    taking = source(transport)
    begun: list[Lease] = []

    def keep(more: list[Lease]) -> bool:
        # As a slot that is woken.
        asyncio.get_running_loop().call_soon(begun.extend, more)
        return True

    had_begun: list[bool] = []
    monkeypatch.setattr(Cursor, "leased", lambda *_, **__: had_begun.append(bool(begun)))

    assert await taking.take(Wanted(9, 9), keep, may_wait=False) == 1

    assert had_begun == [True]

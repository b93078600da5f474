"""Answers are shared by those who may see the same, and by no others."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from wherry.errors import PermissionDenied, TimedOut, Unavailable
from wherry.server.caller import Caller, Right
from wherry.server.dashboard.shared import LONGEST_KEPT_SECONDS, Shared

ALL = Caller("ada", frozenset({Right.READ}), ("*",))


class Asked:
    """A verb of a service, and how often it was asked; `cost` passes on the clock meanwhile."""

    def __init__(self, *, cost: float = 0.0) -> None:
        self.times = 0
        self.now = 0.0
        self._cost = cost
        self.go_on = asyncio.Event()
        self.go_on.set()

    def clock(self) -> float:
        return self.now

    async def verb(self, caller: Caller, *, queue: str | None = None) -> int:
        """Answer how often it was asked."""
        self.times += 1
        await self.go_on.wait()
        self.now += self._cost
        if queue == "secret":
            raise PermissionDenied("no")
        return self.times


async def test_twenty_who_ask_at_once_are_one_question() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)
    asked.go_on.clear()

    asking = [asyncio.create_task(shared.read(ALL, asked.verb)) for _ in range(20)]
    await asyncio.sleep(0)
    asked.go_on.set()

    assert await asyncio.gather(*asking) == [1] * 20


async def test_an_answer_is_kept_for_two_seconds() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)

    await shared.read(ALL, asked.verb)
    asked.now += 1.9
    assert await shared.read(ALL, asked.verb) == 1
    asked.now += 0.2

    assert await shared.read(ALL, asked.verb) == 2


async def test_what_took_long_is_kept_for_longer_but_not_for_ever() -> None:
    asked = Asked(cost=0.5)
    shared = Shared(clock=asked.clock)

    await shared.read(ALL, asked.verb)
    asked.now += 9.0
    assert await shared.read(ALL, asked.verb) == 1
    asked.now += LONGEST_KEPT_SECONDS

    assert await shared.read(ALL, asked.verb) == 2


async def test_a_search_that_took_too_long_rests_as_long_as_if_it_had_found_something() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)
    times = 0

    async def search(caller: Caller) -> None:
        nonlocal times
        times += 1
        asked.now += 1.0
        raise TimedOut(1.0)

    for wait in (0.0, 19.0, 2.0):
        asked.now += wait
        with pytest.raises(TimedOut):
            await shared.read(ALL, search)

    assert times == 2


async def test_an_answer_that_is_given_to_nobody_any_more_takes_no_memory() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)

    async def pages(caller: Caller, *, after: int) -> Asked:
        return Asked()

    kept = weakref.ref(await shared.read(ALL, pages, after=1))
    asked.now += 2.1
    await shared.read(ALL, pages, after=2)
    gc.collect()

    assert kept() is None


@pytest.mark.parametrize(
    "other",
    [
        Caller("bob", frozenset({Right.READ}), ("mail",)),
        Caller("bob", frozenset({Right.READ, Right.ADMIN}), ("*",)),
    ],
    ids=["queues", "rights"],
)
async def test_who_has_other_rights_is_answered_apart(other: Caller) -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)

    first = await shared.read(ALL, asked.verb)
    second = await shared.read(other, asked.verb)

    assert (first, second) == (1, 2)


async def test_another_name_with_the_same_rights_shares() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)

    await shared.read(ALL, asked.verb)

    assert await shared.read(Caller("eve", ALL.rights, ALL.queues, peer="x"), asked.verb) == 1


async def test_another_question_is_asked() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)

    await shared.read(ALL, asked.verb, queue="a")

    assert await shared.read(ALL, asked.verb, queue="b") == 2


async def test_a_refusal_is_not_kept() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)

    for _ in range(2):
        with pytest.raises(PermissionDenied):
            await shared.read(ALL, asked.verb, queue="secret")

    assert asked.times == 2


async def test_whoever_leaves_takes_the_answer_from_nobody() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)
    asked.go_on.clear()
    leaving = asyncio.create_task(shared.read(ALL, asked.verb))
    staying = asyncio.create_task(shared.read(ALL, asked.verb))
    await asyncio.sleep(0)

    leaving.cancel()
    asked.go_on.set()

    assert await staying == 1


async def test_a_database_that_does_not_answer_is_told_of_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wherry.server.dashboard.shared.PATIENCE_SECONDS", 0.01)
    asked = Asked()
    shared = Shared(clock=asked.clock)
    asked.go_on.clear()

    with pytest.raises(Unavailable, match="did not answer"):
        await shared.read(ALL, asked.verb)
    asked.go_on.set()

    assert await shared.read(ALL, asked.verb) == 2


async def test_after_a_change_all_is_asked_anew() -> None:
    asked = Asked()
    shared = Shared(clock=asked.clock)
    await shared.read(ALL, asked.verb)

    shared.forget()

    assert await shared.read(ALL, asked.verb) == 2


async def test_an_answer_that_is_over_is_not_held() -> None:
    class Large:
        """Something that can be seen to be gone."""

    asked = Asked()
    shared = Shared(clock=asked.clock)

    async def large(_caller: Caller) -> Large:
        return Large()

    held = weakref.ref(await shared.read(ALL, large))
    assert held() is not None
    asked.now += 3.0
    await shared.read(ALL, asked.verb)
    gc.collect()

    assert held() is None

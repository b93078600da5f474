"""Answers that everybody who may ask the same shares: twenty viewers cost what one costs.

An answer is kept for two seconds, or for twenty times as long as it took: so the dashboard never
costs the database more than a twentieth of its time for one question, however large it is. Who
asks meanwhile waits for the answer that is on its way. After a change by hand all is asked anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from wherry.errors import TimedOut, Unavailable
from wherry.server.caller import Caller

P = ParamSpec("P")
R = TypeVar("R")

KEPT_SECONDS: Final = 2.0
KEPT_FOR_ITS_COST: Final = 20
LONGEST_KEPT_SECONDS: Final = 60.0
# Whoever looks at three in the morning is told soon that the database does not answer.
PATIENCE_SECONDS: Final = 5.0
MOST_KEPT: Final = 500


@dataclass(slots=True)
class _Answer:
    """An answer, there or on its way, and until when it is good (on our clock)."""

    future: asyncio.Future[Any]
    until: float | None = None

    def is_over(self, now: float) -> bool:
        return self.until is not None and now >= self.until


class Shared:
    """The answers of one server, in one event loop."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._asking: set[asyncio.Task[None]] = set()

    async def read(
        self,
        caller: Caller,
        verb: Callable[Concatenate[Caller, P], Awaitable[R]],
        /,
        *args: P.args,
        **asked: P.kwargs,
    ) -> R:
        """Return what *verb* answers *caller*, asked now or not long ago.

        Raises what the verb raises. A refusal is not kept; that a search took too long is, since
        it has cost as much as an answer.
        """
        key = _key(caller, verb, args, asked)
        answer = self._kept.get(key)
        now = self._clock()
        if answer is None or answer.is_over(now):
            self._forget_what_is_over(now)
            answer = _Answer(asyncio.get_running_loop().create_future())
            self._drop_old()
            self._kept[key] = answer
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            asking = asyncio.create_task(self._ask(key, answer, verb(caller, *args, **asked)))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        # Whoever leaves takes the answer from nobody.
        return cast("R", await asyncio.shield(answer.future))

    def _forget_what_is_over(self, now: float) -> None:
        # An answer may be a page of megabytes, which nobody will be given any more.
        for key in [key for key, answer in self._kept.items() if answer.is_over(now)]:
            del self._kept[key]

    def forget(self) -> None:
        """Ask anew from now on, as after a change; who waits already is answered as asked."""
        self._kept.clear()

    def _drop_old(self) -> None:
        # A page of tasks has megabytes of payloads: what nobody is given any more is not kept.
        now = self._clock()
        for key, answer in list(self._kept.items()):
            if answer.until is not None and now >= answer.until:
                del self._kept[key]

    async def aclose(self) -> None:
        """Stop asking."""
        for asking in self._asking:
            asking.cancel()
        if self._asking:
            await asyncio.wait(self._asking)

    async def _ask(self, key: Hashable, answer: _Answer, asking: Awaitable[Any]) -> None:
        began_at = self._clock()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                found = await asking
        except TimeoutError:
            told = f"the database did not answer within {PATIENCE_SECONDS:g} s"
            self._fail(key, answer, Unavailable(told))
            return
        except asyncio.CancelledError:
            self._fail(key, answer, Unavailable("the server is stopping"))
            raise
        except TimedOut as error:
            answer.until = self._kept_until(began_at)
            _raise_in(answer.future, error)
            return
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer raises it
            self._fail(key, answer, error)
            return
        answer.until = self._kept_until(began_at)
        answer.future.set_result(found)

    def _kept_until(self, began_at: float) -> float:
        now = self._clock()
        kept = max(KEPT_SECONDS, (now - began_at) * KEPT_FOR_ITS_COST)
        return now + min(kept, LONGEST_KEPT_SECONDS)

    def _fail(self, key: Hashable, answer: _Answer, error: Exception) -> None:
        if self._kept.get(key) is answer:
            del self._kept[key]
        _raise_in(answer.future, error)


def _raise_in(future: asyncio.Future[Any], error: Exception) -> None:
    future.set_exception(error)
    # Nobody may be left to take it.
    future.exception()


def _key(
    caller: Caller, verb: Callable[..., Any], args: tuple[Any, ...], asked: dict[str, Any]
) -> Hashable:
    """Return what two askers must have in common to share an answer: rights, and what they ask."""
    named = tuple((name, _frozen(asked[name])) for name in sorted(asked))
    positional = tuple(_frozen(value) for value in args)
    return (caller.rights, caller.queues, verb.__qualname__, positional, named)


def _frozen(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(_frozen(one) for one in cast("list[Any]", value))
    return cast("Hashable", value)

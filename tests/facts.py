"""Waiting for facts instead of sleeping: a test goes on as soon as something is so.

A fact is a callable, asked again and again; what it returns, when that is true, is what the wait
returns. What does not come true fails the test and says what was last seen.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
import pytest

T = TypeVar("T")
PAUSE_SECONDS = 0.005


def wait_for(fact: Callable[[], T], *, seconds: float = 30.0, what: str | None = None) -> T:
    """Return what *fact* returns as soon as that is true; blocks the thread meanwhile."""
    ends_at = time.monotonic() + seconds
    while True:
        seen = fact()
        if seen:
            return seen
        if time.monotonic() >= ends_at:
            pytest.fail(_never(fact, seen, seconds, what))
        time.sleep(PAUSE_SECONDS)


async def await_for(
    fact: Callable[[], Awaitable[T] | T], *, seconds: float = 30.0, what: str | None = None
) -> T:
    """Return what *fact* returns (or what that gives when awaited) as soon as it is true."""
    ends_at = time.monotonic() + seconds
    while True:
        asked: Any = fact()
        seen: T = await asked if inspect.isawaitable(asked) else asked
        if seen:
            return seen
        if time.monotonic() >= ends_at:
            pytest.fail(_never(fact, seen, seconds, what))
        await asyncio.sleep(PAUSE_SECONDS)


def wait_until_blocked(
    observer: psycopg.Connection[Any],
    blocked: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | int | None = None,
    *,
    by: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | int,
    seconds: float = 30.0,
) -> int:
    """Return the backend (of *blocked*, if given) that waits for a lock that *by* holds.

    *observer* is an idle connection to ask with. Backends are named by connection or process id.
    """
    holder, waiter = _backend(by), None if blocked is None else _backend(blocked)

    def waits() -> int | None:
        found = observer.execute(
            "select pid from pg_stat_activity"
            " where %(holder)s = any(pg_blocking_pids(pid))"
            "   and (%(waiter)s::int is null or pid = %(waiter)s)",
            {"holder": holder, "waiter": waiter},
        ).fetchone()
        return None if found is None else int(found[0])

    pid = wait_for(
        waits, seconds=seconds, what=f"backend {waiter or 'any'} waits for backend {holder}"
    )
    assert pid is not None
    return pid


def _backend(
    named: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | int,
) -> int:
    return named if isinstance(named, int) else named.info.backend_pid


def _never(fact: Callable[..., Any], seen: object, seconds: float, what: str | None) -> str:
    wanted = what or (inspect.getdoc(fact) or "").partition("\n")[0] or _source(fact)
    return f"not so after {seconds:g} s: {wanted}; last seen: {seen!r}"


def _source(fact: Callable[..., Any]) -> str:
    try:
        return " ".join(inspect.getsource(fact).split())
    except (OSError, TypeError):
        return repr(fact)

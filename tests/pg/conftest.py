"""Sessions on the test's database, and threads for what has to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.facts import wait_for
from tests.pg.support import OpenSession, Session


@pytest.fixture
def other(open_session: OpenSession) -> Session:
    """A second session."""
    return open_session()


@pytest.fixture
def observer(open_session: OpenSession) -> Session:
    """A session that only looks."""
    return open_session()


@pytest.fixture
def start() -> Iterator[Callable[..., Future[Any]]]:
    """Start a call in a thread of its own; it must be over when the test is."""
    with ThreadPoolExecutor(max_workers=16) as threads:
        yield threads.submit


@pytest.fixture
def until_blocked(observer: Session) -> Callable[[Session, Session], None]:
    """Wait until the first session waits for a lock of the second."""

    def until_blocked(waiter: Session, holder: Session) -> None:
        wait_for(
            lambda: observer.value("select %s = any(pg_blocking_pids(%s))", holder.pid, waiter.pid),
            what="one session waits for the other",
        )

    return until_blocked

"""A plain handler is handed to a thread, and on that way, too, its lease can run out."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from time import monotonic
from typing import Any

import wherry
from tests.worker.fake import make_lease
from wherry.worker.attempt import Runner
from wherry.worker.threads import Ended, Threads


async def test_a_plain_handler_does_not_start_when_its_thread_comes_too_late() -> None:
    """L8: no effect after the end of the lease, however long the way to the thread was."""
    app = wherry.App("host=nowhere.invalid")
    started: list[int] = []

    @app.task(name="t")
    def t() -> None:
        started.append(1)

    lease = make_lease(seconds=5)

    class LateThreads(Threads):
        async def run(
            self, context: Context, function: Callable[[], Any], *, gives_up: Callable[[], bool]
        ) -> Ended:
            lease.deadline = monotonic()
            return await super().run(context, function, gives_up=gives_up)

    threads = LateThreads(name="late")
    runner = Runner(app, app.registry, threads, is_ending=lambda: False)

    outcome = await runner.run(lease)

    threads.close()
    assert outcome is None
    assert started == []

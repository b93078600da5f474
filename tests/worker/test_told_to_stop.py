"""What makes a plain handler's `wait_cancelled` end, whoever comes first."""

from __future__ import annotations

import threading
from typing import Any

from tests.worker.fake import make_lease
from wherry.worker.context import Context, tell_to_stop


def _waiting(context: Context, told: list[bool]) -> threading.Thread:
    thread = threading.Thread(target=lambda: told.append(context.wait_cancelled(30)), daemon=True)
    thread.start()
    return thread


def test_all_threads_of_a_handler_that_wait_are_told() -> None:
    told: list[bool] = []
    app: Any = None
    context = Context(app, make_lease())
    threads = [_waiting(context, told) for _ in range(8)]

    tell_to_stop(context)
    for thread in threads:
        thread.join(20)

    assert told == [True] * 8


def test_who_comes_to_wait_when_it_was_told_already_does_not_wait() -> None:
    app: Any = None
    context = Context(app, make_lease())

    tell_to_stop(context)

    assert context.cancelled
    assert context.wait_cancelled(30)


def test_nobody_told_is_found_out_when_the_time_is_over() -> None:
    app: Any = None

    assert not Context(app, make_lease()).wait_cancelled(0)

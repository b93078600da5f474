"""A worker that owns its loop: in a thread, in a child, again and again, and always to an end."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler

import pytest

import wherry
from tests.embedded.support import in_child
from wherry.app.loop import run_in_own_loop
from wherry.domain.state import State
from wherry.errors import BlockingInLoop

HANGS = 600


def test_work_runs_outside_of_the_main_thread_and_leaves_signals_alone(dsn: str) -> None:
    app = wherry.App(dsn)
    done: list[str] = []

    @app.task(name="t")
    def t() -> None:
        done.append(threading.current_thread().name)

    app.enqueue("t")
    before = signal.getsignal(signal.SIGTERM)
    worker = threading.Thread(target=lambda: app.work(until_empty=True), name="elsewhere")
    worker.start()
    worker.join(20)

    assert not worker.is_alive()
    assert len(done) == 1
    assert signal.getsignal(signal.SIGTERM) is before
    app.close()


def test_work_can_be_called_again_and_again_on_one_app(dsn: str) -> None:
    """RUN-05: each time in a new loop, with pools of its own."""
    app = wherry.App(dsn)
    done: list[int] = []

    @app.task(name="t")
    async def t(n: int) -> None:
        await app.aenqueue("nobody knows this")
        done.append(n)

    for n in range(3):
        app.enqueue("t", {"n": n})
        app.work(until_empty=True)
        asyncio.run(app.aenqueue("nobody knows this"))

    assert done == [0, 1, 2]
    app.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_works_with_connections_of_its_own(dsn: str) -> None:
    """RUN-01: the parent has used the App, so it has a pool and threads that the child has not."""
    app = wherry.App(dsn)

    @app.task(name="t")
    async def t() -> None:
        pass

    id_ = app.enqueue("t").id

    assert in_child(lambda: app.work(until_empty=True).answers == {wherry.Reported.DONE: 1})

    task = app.get_task(id_)
    assert task is not None
    assert (task.state, task.attempts) == (State.SUCCEEDED, 1)
    app.close()


@pytest.mark.parametrize("sent", [lambda app: app, lambda app: app.work])
def test_an_app_that_is_sent_to_a_spawned_process_says_what_to_do(
    sent: Callable[[wherry.App], object],
) -> None:
    """RUN-07: as `spawn` and `forkserver` send what they are to run, before a child is there."""
    app = wherry.App("host=/nowhere")

    with pytest.raises(TypeError, match="one that is spawned makes its own"):
        ForkingPickler.dumps(sent(app))


async def test_work_inside_a_running_loop_names_what_to_call_instead(app: wherry.App) -> None:
    @app.task(name="t")
    async def t() -> None:
        pass

    with pytest.raises(BlockingInLoop, match="awork"):
        app.work(until_empty=True)


def test_a_loop_of_its_own_does_not_wait_for_what_will_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SHUT-12: neither for tasks that ignore their cancellation nor for threads."""
    may_end = threading.Event()
    stubborn = True

    async def ignores() -> None:
        while stubborn:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(HANGS)

    left: list[asyncio.Task[None]] = []

    async def main() -> str:
        left.append(asyncio.create_task(ignores(), name="the stubborn one"))
        threading_call = asyncio.to_thread(may_end.wait, HANGS)
        left.append(asyncio.create_task(threading_call, name="in a thread"))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        return "done"

    try:
        assert run_in_own_loop(main, call="work") == "done"
        assert "the stubborn one" in caplog.text
    finally:
        may_end.set()
        stubborn = False
        # Nobody will step it any more; it must not be reported as forgotten.
        left[0]._log_destroy_pending = False  # type: ignore[attr-defined]

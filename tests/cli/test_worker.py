"""`wherry worker` as a process: it ends when it should, with the code that tells how."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Running
from tests.facts import wait_for
from wherry import App
from wherry.cli import main
from wherry.cli.running import Run
from wherry.domain.options import TaskSpec

Start = Callable[..., Running]
Cli = Callable[..., Answer]
READY = "20 slots"


def running_tasks(app: App) -> int:
    return len(app.list_tasks(state="leased").tasks)


def test_a_worker_runs_what_is_due_and_ends_with_0(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    app.enqueue("shop.mail", {"to": "a"})
    app.enqueue("shop.broken", max_attempts=1)

    worker = started("worker", shop, "--dsn", dsn, "--until-empty")

    assert worker.end() == 0
    assert worker.out == "mail to a\n"
    assert {task.type: str(task.state) for task in app.list_tasks().tasks} == {
        "shop.mail": "succeeded",
        "shop.broken": "dead",
    }
    assert r"ValueError: boom \x1b[31mred" in worker.err
    assert "\x1b" not in worker.err


def test_queues_are_served_by_name_whatever_is_in_it(cli: Cli, app: App, shop: str) -> None:
    """IDM-10."""
    for queue in ("a", "b", "c", "d,e", " f"):
        app.enqueue("shop.mail", {"to": queue}, queue=queue)

    answer = cli(
        "worker", shop, "--queues", "a, b", "--queue", "d,e", "--queue", " f", "--until-empty"
    )

    assert answer.code == 0, answer.err
    assert [task.queue for task in app.list_tasks(state="queued").tasks] == ["c"]


def test_every_queue_is_served_if_asked_for(cli: Cli, app: App, shop: str) -> None:
    app.enqueue("shop.mail", {"to": "x"}, queue="odd one")

    assert cli("worker", shop, "--queues", "*", "--until-empty").code == 0
    assert app.list_tasks(state="queued").tasks == ()


def test_sigterm_lets_what_runs_finish(started: Start, app: App, dsn: str, shop: str) -> None:
    id = app.enqueue("shop.slow", {"seconds": 1}).id
    worker = started("worker", shop, "--dsn", dsn)
    worker.says("begun")

    worker.signal(signal.SIGTERM)

    assert worker.end() == 0
    task = app.get_task(id)
    assert task is not None
    assert (task.state, task.attempts) == ("succeeded", 1)
    assert "SIGTERM received" in worker.err


def test_ctrl_c_of_an_idle_worker_ends_it_at_once_with_0(
    started: Start, dsn: str, shop: str
) -> None:
    worker = started("worker", shop, "--dsn", dsn, "--shutdown-timeout", "10m")
    worker.says(READY)

    worker.signal(signal.SIGINT)

    assert worker.end() == 0


def test_a_thread_that_never_ends_does_not_keep_the_process(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    """SHUT-11: gone in the grace and 2 s more, and 1 says that something was left."""
    id = app.enqueue("shop.endless").id
    worker = started("worker", shop, "--dsn", dsn, "--shutdown-timeout", "1s")
    worker.says("begun")

    worker.signal(signal.SIGTERM)

    # It would be there for ever.
    assert worker.end() == 1
    assert f"left behind, to run again when their leases run out: tasks {id}\n" in worker.err
    assert running_tasks(app) == 1


def test_a_coroutine_that_ignores_its_cancellation_does_not_keep_the_process(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    """SHUT-12."""
    app.enqueue("shop.stubborn")
    worker = started("worker", shop, "--dsn", dsn, "--shutdown-timeout", "1s")
    worker.says("begun")

    worker.signal(signal.SIGTERM)

    assert worker.end() in (0, 1)
    assert app.list_tasks(state="succeeded").tasks == ()


def test_a_second_signal_hurries(started: Start, app: App, dsn: str, shop: str) -> None:
    app.enqueue("shop.endless")
    worker = started("worker", shop, "--dsn", dsn, "--shutdown-timeout", "60s")
    worker.says("begun")

    worker.signal(signal.SIGTERM)
    worker.says("SIGTERM received")
    first_at = time.monotonic()
    # Signals within a second count as one.
    wait_for(lambda: time.monotonic() - first_at > 1.2)
    worker.signal(signal.SIGINT)

    assert worker.end() == 1


STUCK = """
import asyncio, threading, time
import wherry

app = wherry.App()

@app.task
async def leaves_a_thread() -> None:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)

@app.task
async def leaves_a_task() -> None:
    async def forever() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    app.kept = asyncio.create_task(forever())

@app.task
def leaves_a_stubborn_thread() -> None:
    threading.Thread(target=time.sleep, args=[600]).start()
"""


@pytest.mark.parametrize("type", ["leaves_a_thread", "leaves_a_task", "leaves_a_stubborn_thread"])
def test_what_a_handler_leaves_running_does_not_keep_the_process(
    started: Start, app: App, dsn: str, tmp_path: Path, type: str
) -> None:
    (tmp_path / "shop.py").write_text(STUCK)
    app.enqueue(f"shop.{type}")

    worker = started("worker", "shop:app", "--dsn", dsn, "--until-empty")

    assert worker.end() == 0
    assert app.list_tasks().tasks[0].state == "succeeded"


def test_what_is_registered_for_the_exit_runs(started: Start, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import atexit, wherry\napp = wherry.App()\n@app.task\ndef f() -> None: ...\n"
        "atexit.register(print, 'goodbye')\n"
    )

    worker = started("worker", "shop:app", "--dsn", dsn, "--until-empty")

    assert worker.end() == 0
    assert worker.out == "goodbye\n"


# ── the streams ──


def test_a_worker_whose_output_nobody_reads_goes_on(
    app: App, dsn: str, shop: str, tmp_path: Path
) -> None:
    """HND-13, CLI-07: neither the handler that prints nor the log fails."""
    ids = [app.enqueue("shop.mail", {"to": "x" * 10_000}).id for _ in range(20)]
    app.enqueue("shop.broken")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "wherry", "worker", shop, "--dsn", dsn, "--until-empty", "-v"],
            stdout=writing,
            stderr=writing,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)

    assert done.returncode == 0
    succeeded = app.list_tasks(state="succeeded").tasks
    assert {task.id for task in succeeded} == set(ids)
    assert all(task.attempts == 1 for task in succeeded)


def test_a_worker_without_any_streams_works(app: App, dsn: str, shop: str) -> None:
    app.enqueue("shop.mail", {"to": "a"})
    command = f"exec {sys.executable} -m wherry worker {shop} --until-empty <&- >&- 2>&-"

    done = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "WHERRY_DSN": dsn},
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    assert [task.state for task in app.list_tasks().tasks] == ["succeeded"]


# ── the set-up ──


def test_a_database_out_of_reach_at_the_start_is_3(started: Start, shop: str) -> None:
    worker = started("worker", shop, "--dsn", "host=127.0.0.1 port=1 dbname=x")

    assert worker.end() == 3
    assert worker.err.count("\n") == 1


def test_no_database_is_2(started: Start, shop: str) -> None:
    worker = started("worker", shop)

    assert worker.end() == 2
    assert "no database is configured" in worker.err


def test_what_a_worker_can_be_told_is_the_same_here_and_in_python() -> None:
    """CLI-06: no setting that one of the two does not know, and the same defaults."""
    parameters = dict(inspect.signature(App.work).parameters)
    del parameters["self"]
    given = {param.name: param for param in main.commands["worker"].params}

    # What `wherry up` runs in the same loop is none of the worker's business. Metrics are read off
    # the App, in Python.
    assert {field.name for field in fields(Run)} - {"beside"} == set(parameters)
    assert set(parameters) - set(given) == {"listen"}
    assert "no_listen" in given
    for name in ("concurrency", "lease_for", "shutdown_timeout"):
        default = parameters[name].default
        said = default.total_seconds() if isinstance(default, timedelta) else default
        assert str(given[name].default).removesuffix("s") == f"{said:g}"


def test_what_a_task_can_be_told_is_the_same_here_and_in_python() -> None:
    """CLI-06."""
    stored = {name.removesuffix("_seconds") for name in TaskSpec._fields}
    given = {str(param.name) for param in main.commands["enqueue"].params}

    # A retry policy is the type's to say.
    assert stored - given == {"retry"}

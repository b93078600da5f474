"""Worker processes end as they are told to, in the time there is, and lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wherry
from tests.e2e.workers import (
    ROOT,
    WorkerProcess,
    effects,
    environment,
    make_effects,
    one_row,
    starts,
    states,
    wait_until_up,
)
from tests.facts import wait_for
from tests.lateness import late_machine
from wherry.domain.retry import Fixed
from wherry.domain.state import State
from wherry.domain.task import Task

Start = Callable[..., WorkerProcess]


@pytest.fixture
def queue(dsn: str) -> Iterator[wherry.App]:
    """An App that only enqueues and looks."""
    with wherry.App(dsn) as app:
        yield app


@pytest.fixture
def start(dsn: str, tmp_path: Path) -> Iterator[Start]:
    """Start a worker process and wait until it is up; it is gone when the test ends."""
    started: list[WorkerProcess] = []

    def start(name: str = "w1", *, wait: bool = True, **options: Any) -> WorkerProcess:
        worker = WorkerProcess(dsn, tmp_path, name, **options)
        started.append(worker)
        if wait:
            wait_until_up(worker)
        return worker

    yield start
    for worker in started:
        worker.end()


def get(queue: wherry.App, id: int) -> Task:
    task = queue.get_task(id)
    assert task is not None
    return task


def enqueue(
    queue: wherry.App, name: str, payload: dict[str, Any] | None = None, *, max_attempts: int = 20
) -> int:
    """Enqueue a task of the program's that is retried at once, and return its id."""
    return queue.enqueue(name, payload, max_attempts=max_attempts, retry=Fixed(0)).id


def began(folder: Path, id: int, *, times: int = 1) -> None:
    """Wait until a task's handler has begun."""
    wait_for(lambda: starts(folder)["start", id] >= times, what=f"task {id} has begun")


def final(queue: wherry.App, id: int, *, seconds: float = 40) -> Task:
    """Wait until a task is finished."""
    wait_for(lambda: get(queue, id).state.is_final, seconds=seconds, what=f"task {id} is finished")
    return get(queue, id)


@pytest.mark.parametrize("how", ["module", "exec form of a shell", "supervisor"])
def test_an_idle_worker_ends_at_once_and_says_by_which_signal(
    dsn: str, tmp_path: Path, how: str
) -> None:
    """SHUT-13."""
    (tmp_path / "idle_shop.py").write_text(
        "import wherry\napp = wherry.App()\n\n\n@app.task\nasync def buy() -> None:\n    pass\n"
    )
    worker = [sys.executable, "-m", "wherry", "worker", "idle_shop:app"]
    command = {
        "module": worker,
        "exec form of a shell": ["sh", "-c", 'exec "$@"', "-", *worker],
        "supervisor": [*worker, "--processes", "2"],
    }[how]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=tmp_path,
            env=environment(dsn, tmp_path),
        )
    try:
        count = 2 if how == "supervisor" else 1
        wait_for(lambda: log.read_text().count(" slots, queues") >= count, seconds=30)
        process.terminate()
        code = process.wait(25)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()

    assert code == 0, log.read_text()
    assert "SIGTERM received" in log.read_text()


def test_a_shutdown_cancels_an_async_handler_after_the_grace_and_gives_its_task_back(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """SHUT-01, SHUT-02, SHUT-08."""
    worker = start(shutdown_timeout=1, lease_for=30)
    id_ = enqueue(queue, "sleeps", {"seconds": 60}, max_attempts=1)
    began(tmp_path, id_)

    told_at = time.monotonic()
    worker.send(signal.SIGTERM)

    assert worker.ended() == 0, worker.log
    assert time.monotonic() - told_at >= 1
    task = get(queue, id_)
    assert (task.state, task.attempts, task.history) == (State.QUEUED, 0, ())
    assert starts(tmp_path)["end", id_] == 0


def test_a_shutdown_leaves_a_thread_behind_and_another_worker_runs_its_task_again(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """SHUT-02, SHUT-11."""
    worker = start(shutdown_timeout=1, lease_for=2)
    id_ = enqueue(queue, "blocks", {"seconds": 60}, max_attempts=2)
    began(tmp_path, id_)

    worker.send(signal.SIGTERM)

    assert worker.ended() == 1
    assert f"left behind, to run again when their leases run out: tasks {id_}" in worker.log
    start("w2", lease_for=2)
    task = final(queue, id_, seconds=20)
    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
    assert [(a.outcome, a.worker) for a in task.history] == [("lost", "w1")]
    # The first thread went with its process.
    assert starts(tmp_path)["end", id_] == 1


def test_a_drain_keeps_the_lease_of_what_it_waits_for(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """DBL-04: three leases long, with another worker that would like to have it."""
    worker = start("leaving", shutdown_timeout=20, lease_for=2)
    id_ = enqueue(queue, "blocks", {"seconds": 6})
    began(tmp_path, id_)
    start("staying", lease_for=2)

    worker.send(signal.SIGTERM)

    assert worker.ended() == 0, worker.log
    task = get(queue, id_)
    assert (task.state, task.attempts, task.history) == (State.SUCCEEDED, 1, ())
    assert starts(tmp_path)["start", id_] == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)],
    ids=["twice the same", "mixed"],
)
def test_a_signal_that_comes_twice_at_once_counts_once_and_a_later_one_hurries(
    queue: wherry.App, start: Start, tmp_path: Path, first: signal.Signals, second: signal.Signals
) -> None:
    """SHUT-07."""
    worker = start(shutdown_timeout=60, lease_for=30)
    id_ = enqueue(queue, "sleeps", {"seconds": 60})
    began(tmp_path, id_)

    worker.send(first)
    worker.send(second)
    wait_for(lambda: "finishing what is running" in worker.log)
    told_at = time.monotonic()
    # Past the second in which it would count as the same.
    wait_for(lambda: time.monotonic() - told_at > 1.2)
    assert worker.process.poll() is None
    assert "received again" not in worker.log
    worker.send(second)

    assert worker.ended() == 0
    task = get(queue, id_)
    assert (task.state, task.attempts) == (State.QUEUED, 0)
    assert f"{second.name} received again" in worker.log


@pytest.mark.parametrize("name", ["stubborn", "leaves behind"])
def test_what_ignores_its_cancellation_keeps_no_process_alive(
    queue: wherry.App, start: Start, tmp_path: Path, name: str
) -> None:
    """SHUT-12: neither a handler nor what one has started."""
    worker = start(shutdown_timeout=1, lease_for=30)
    id_ = enqueue(queue, name, {"seconds": 60})
    began(tmp_path, id_)

    worker.send(signal.SIGTERM)

    assert worker.ended() == 0, worker.log
    if name == "stubborn":
        # It was closed, so that it can be given back at once.
        task = get(queue, id_)
        assert (task.state, task.attempts) == (State.QUEUED, 0)
    else:
        assert "left by a handler" in worker.log


def test_a_hang_up_stops_it_in_good_order_and_is_named(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """HND-13: wherever it came from."""
    worker = start()
    id_ = enqueue(queue, "hangs up")

    code = worker.ended()

    assert code == 0
    assert "SIGHUP received" in worker.log
    assert get(queue, id_).state is State.SUCCEEDED


def test_a_log_and_an_output_that_nobody_reads_stop_nothing(
    dsn: str, queue: wherry.App, tmp_path: Path
) -> None:
    """HND-13: EPIPE."""
    reading, writing = os.pipe()
    options = '{"name": "w1", "lease_for": 30}'
    program = str(ROOT / "tests/e2e/worker_program.py")
    process = subprocess.Popen(
        [sys.executable, program, options],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
        env=environment(dsn, tmp_path),
    )
    try:
        os.close(writing)
        said = b""
        while b"slots" not in said and (more := os.read(reading, 10_000)):
            said += more
        assert b"slots" in said
        os.close(reading)
        for _ in range(3):
            task = final(queue, enqueue(queue, "prints", max_attempts=2))
            assert (task.state, task.attempts) == (State.DEAD, 2)
        process.terminate()
        # 120: Python itself could not flush what nobody reads.
        assert process.wait(15) in (0, 120)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_killed_worker_loses_nothing_but_time(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """RUN-10, SHUT-02: another one has finished its task by lease + 5 s."""
    worker = start("killed", lease_for=2)
    id_ = enqueue(queue, "blocks", {"seconds": 60})
    began(tmp_path, id_)
    start("next", lease_for=2)
    with late_machine() as machine:
        killed_at = time.monotonic()
        worker.send(signal.SIGKILL)

        task = final(queue, id_, seconds=60)

        took = time.monotonic() - killed_at

    # A machine that is late is late at each step on the way.
    assert took < 2 + 5 + 20 * machine.longest
    assert (task.state, task.attempts) == (State.SUCCEEDED, 2)
    assert [(a.outcome, a.worker) for a in task.history] == [("lost", "killed")]


def test_a_task_that_ends_its_process_each_time_ends_dead(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """HND-03: os._exit in a handler is a lost worker, and counts."""
    id_ = enqueue(queue, "exits", {"code": 3}, max_attempts=2)
    for n in (1, 2):
        worker = start(f"crash {n}", wait=False, lease_for=1)
        code = worker.ended()
        assert code == 3, worker.log
    start("last", lease_for=1)

    task = final(queue, id_, seconds=15)

    assert (task.state, task.attempts) == (State.DEAD, 2)
    assert [a.worker for a in task.history] == ["crash 1", "crash 2"]
    assert starts(tmp_path)["start", id_] == 2


def test_a_worker_that_was_frozen_past_its_lease_changes_nothing_when_it_goes_on(
    queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """DBL-06: SIGSTOP and SIGCONT, as a machine that sleeps would do it."""
    frozen = start("frozen", lease_for=2)
    id_ = enqueue(queue, "blocks", {"seconds": 4})
    began(tmp_path, id_)
    frozen.send(signal.SIGSTOP)
    start("other", lease_for=2)
    first = final(queue, id_)

    frozen.send(signal.SIGCONT)
    wait_for(lambda: starts(tmp_path)["end", id_] == 2)
    wait_for(lambda: "lease was lost" in frozen.log, what="it is told")

    assert (first.state, first.attempts) == (State.SUCCEEDED, 2)
    assert get(queue, id_) == first
    # It works on as before.
    again = enqueue(queue, "blocks", {"seconds": 0})
    assert final(queue, again).state is State.SUCCEEDED
    assert frozen.process.poll() is None


def test_workers_that_are_killed_at_any_moment_do_everything_once(
    dsn: str, queue: wherry.App, start: Start, tmp_path: Path
) -> None:
    """LOST-05, LOST-09: between a return and its commit, and in the middle of maintenance."""
    make_effects(dsn)
    queue.enqueue_many(
        [
            {"type": "effect", "payload": {"n": n, "seconds": 0.01}, "retry": Fixed(0)}
            for n in range(200)
        ]
    )
    for n in range(3):
        worker = start(f"w{n}", lease_for=1, concurrency=5)
        wait_for(lambda n=n: effects(dsn)[0] > 20 * (n + 1))  # type: ignore[misc]
        worker.send(signal.SIGKILL)
        worker.ended()
        # There is no third state: finished, or coming back.
        assert set(states(dsn)) <= {"succeeded", "queued", "leased"}
    start("last", lease_for=1)

    wait_for(lambda: states(dsn) == {"succeeded": 200}, seconds=40)

    assert effects(dsn) == (200, 200)
    # The row of a killed worker's lease goes with the reaper, which may come after its last task.
    wait_for(lambda: one_row(dsn, "select count(*) from wherry.lease") == (0,))

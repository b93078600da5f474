"""A database that goes away under a server: callers are told, and nothing has to be restarted."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

import wherry
from tests.e2e.servers import Fleet, Notes, ServerProcess
from tests.e2e.workers import PrivateServer
from tests.facts import wait_for
from wherry.migrations import migrate
from wherry.wire.v1 import leases_pb2, operators_pb2, tasks_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

# Longer than a server tries to reach its database (10 s), which a call is told of then.
DEADLINE = 20.0


@pytest.fixture(scope="module")
def database() -> Iterator[PrivateServer]:
    """A PostgreSQL of these tests' own."""
    place = Path(tempfile.mkdtemp(prefix="wd-", dir="/tmp")).resolve()
    place.chmod(0o711)
    made = PrivateServer(place)
    yield made
    made.close()
    shutil.rmtree(place)


@pytest.fixture
def dsn(database: PrivateServer) -> str:
    """The private database, empty but for our schema."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("drop schema if exists wherry cascade")
        connection.execute("drop table if exists note")
    migrate(database.dsn)
    return database.dsn


@pytest.fixture
def server(fleet: Fleet, dsn: str) -> ServerProcess:
    return fleet.server(dsn)


@pytest.fixture
def stub(server: ServerProcess) -> Iterator[Any]:
    """The generated client; typed for blocking and for awaited calls at once, so for none."""
    with grpc.insecure_channel(server.target) as channel:
        yield TaskQueueStub(channel)


def effect(n: int, *, key: str = "") -> tasks_pb2.EnqueueRequest:
    made = tasks_pb2.EnqueueRequest(type="effect", payload=json.dumps({"n": n}))
    if key:
        made.key = key
    return made


def told(call: Callable[..., Any], request: Any) -> tuple[grpc.StatusCode, str, float]:
    """Return what a call was answered, and how many seconds it took."""
    begun = time.monotonic()
    code, text = grpc.StatusCode.OK, ""
    try:
        call(request, timeout=DEADLINE)
    except grpc.RpcError as error:
        code, text = error.code(), error.details() or ""
    return code, text, time.monotonic() - begun


def http_status(server: ServerProcess, path: str, body: dict[str, Any]) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http}{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_calls_are_told_that_the_database_is_away_and_go_through_when_it_is_back(
    database: PrivateServer, server: ServerProcess, stub: Any, dsn: str
) -> None:
    """DB-01: UNAVAILABLE and 503 within the call's deadline, never INTERNAL, nothing of the DSN."""
    stored = stub.Enqueue(effect(1), timeout=DEADLINE).id
    leasing = leases_pb2.LeaseRequest(worker_id="w", max_tasks=1)
    leasing.lease_duration.FromSeconds(300)
    [held] = stub.Lease(leasing, timeout=DEADLINE).tasks
    chosen = tasks_pb2.Selection(ids=[stored])
    calls: list[tuple[Callable[..., Any], Any]] = [
        (stub.Enqueue, effect(2, key="k")),
        (stub.EnqueueBatch, tasks_pb2.EnqueueBatchRequest(tasks=[effect(3)], all_or_nothing=True)),
        (stub.GetTask, tasks_pb2.GetTaskRequest(id=stored)),
        (stub.ListTasks, tasks_pb2.ListTasksRequest(page_size=10)),
        (stub.ListQueues, operators_pb2.ListQueuesRequest()),
        (stub.ListWorkers, operators_pb2.ListWorkersRequest()),
        (stub.PauseQueue, operators_pb2.PauseQueueRequest(queue="other", reason="test")),
        (stub.CancelTasks, tasks_pb2.CancelTasksRequest(selection=chosen, reason="t")),
        (stub.Lease, leasing),
        (stub.Heartbeat, leases_pb2.HeartbeatRequest(leases=[held.lease])),
        (stub.Complete, leases_pb2.CompleteRequest(lease=held.lease)),
        (stub.Fail, leases_pb2.FailRequest(lease=held.lease)),
        (stub.Release, leases_pb2.ReleaseRequest(lease=held.lease)),
    ]
    task = {"type": "effect", "payload": {"n": 4}}

    database.stop()
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        over_http = pool.submit(http_status, server, "/api/v1/tasks", task)
        answers = list(pool.map(lambda call: told(*call), calls))
        status = over_http.result(DEADLINE)
    database.start()
    again = wait_for(
        lambda: stub.GetTask(tasks_pb2.GetTaskRequest(id=stored), timeout=DEADLINE), seconds=20
    )
    done = stub.Complete(leases_pb2.CompleteRequest(lease=held.lease), timeout=DEADLINE)

    named = [request.DESCRIPTOR.name for _, request in calls]
    codes = {name: code for name, (code, *_) in zip(named, answers, strict=True)}
    assert codes == dict.fromkeys(named, grpc.StatusCode.UNAVAILABLE)
    assert max(seconds for *_, seconds in answers) < DEADLINE - 2
    assert {text for _, text, _ in answers} == {"the database is out of reach just now: try again"}
    assert status == 503
    assert again.task.state == tasks_pb2.STATE_LEASED
    assert done.answer == leases_pb2.REPORTED_DONE
    assert stub.Enqueue(effect(2, key="k"), timeout=DEADLINE).created
    assert server.runs
    assert "Traceback" not in server.log


def test_a_long_poll_outlives_its_database_and_gets_the_first_task_that_comes(
    database: PrivateServer, server: ServerProcess, stub: Any, dsn: str, notes: Notes
) -> None:
    """DB-01, DB-05: it began before the outage, and is answered within seconds of its end."""
    asked = leases_pb2.LeaseRequest(worker_id="w", queues=["default"])
    asked.wait.FromSeconds(50)
    poll = stub.Lease.future(asked, timeout=60)
    wait_for(lambda: notes.waiting() == 1, seconds=20, what="it waits")

    database.stop(signal.SIGQUIT)
    wait_for(lambda: "polls wait" in server.log or "not listening" in server.log, seconds=20)
    assert not poll.done()
    database.start()
    with wherry.App(dsn) as app:
        id_ = app.enqueue("effect", {"n": 1}).id
    [task] = poll.result(timeout=20).tasks

    assert task.id == id_
    stub.Complete(leases_pb2.CompleteRequest(lease=task.lease), timeout=DEADLINE)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_remote_workers_outlive_the_database_of_their_server(
    database: PrivateServer,
    fleet: Fleet,
    server: ServerProcess,
    dsn: str,
    how: signal.Signals,
) -> None:
    """DB-01, B3: under load; nothing of server or workers is started again."""
    tasks = 600
    workers = [
        fleet.worker(
            server.address, notes=dsn, name=f"w{n}", options="--concurrency 4 --lease-for 5s"
        )
        for n in range(2)
    ]
    with wherry.App(dsn) as app:
        app.enqueue_many(
            {"type": "quiet", "payload": {"n": n, "seconds": 0.02}} for n in range(tasks)
        )
    counts = Notes(dsn)
    for least in (50, 200):
        wait_for(lambda least=least: counts.done() > least, seconds=20)  # type: ignore[misc]
        database.stop(how)
        database.start()
    assert counts.done() < tasks

    counts.wait_until_done(tasks, seconds=40)

    rows, ids = counts.ask("select count(*), count(distinct id) from wherry.finished")[0]
    assert (rows, ids) == (tasks, tasks)
    assert all(program.runs for program in (server, *workers))
    assert "Traceback" not in "".join(program.log for program in (server, *workers))
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert [worker.ended(within=15) for worker in workers] == [0, 0]

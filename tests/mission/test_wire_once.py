"""The mission's list through the wire: real servers, and workers that have nothing else.

Calls are those of the generated stubs, as a program in any language makes them.
"""

from __future__ import annotations

import json
import signal
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

import wherry
from tests.e2e.servers import Fleet, Notes, ServerProcess, wait_until_up
from tests.facts import wait_for
from wherry.domain.lease import Reported
from wherry.wire.v1 import leases_pb2, tasks_pb2
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

TASKS = 5_000
WORKERS = 10
DEADLINE = 20.0


@pytest.fixture
def server(fleet: Fleet, dsn: str) -> ServerProcess:
    return fleet.server(dsn)


@pytest.fixture
def stub(server: ServerProcess) -> Iterator[Any]:
    """The generated client; typed for blocking and for awaited calls at once, so for none."""
    with grpc.insecure_channel(server.target) as channel:
        yield TaskQueueStub(channel)


@pytest.fixture
def remote(server: ServerProcess) -> Iterator[wherry.App]:
    """An App that has only the server."""
    with wherry.App(server.address) as app:
        yield app


def keyed(n: int = 1) -> tasks_pb2.EnqueueRequest:
    payload = json.dumps({"n": n})
    return tasks_pb2.EnqueueRequest(type="effect", queue="mission", payload=payload, key="order-7")


def leased(stub: Any, worker: str, *, seconds: float = 30.0) -> list[leases_pb2.LeasedTask]:
    asked = leases_pb2.LeaseRequest(worker_id=worker, queues=["mission"], max_tasks=10)
    asked.lease_duration.FromMilliseconds(int(seconds * 1000))
    return list(stub.Lease(asked, timeout=DEADLINE).tasks)


def refused(call: Any, request: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=DEADLINE)
    code: grpc.StatusCode = caught.value.code()
    return code


def test_the_same_key_twice_gives_the_same_id(stub: Any, notes: Notes) -> None:
    """A2, through Enqueue and EnqueueBatch."""
    first = stub.Enqueue(keyed(), timeout=DEADLINE)
    second = stub.Enqueue(keyed(), timeout=DEADLINE)
    batch = tasks_pb2.EnqueueBatchRequest(tasks=[keyed(), keyed(2)])
    same, other = stub.EnqueueBatch(batch, timeout=DEADLINE).results

    assert (first.created, second.created) == (True, False)
    assert first.id == second.id == same.task.id == other.task.id
    assert (second.payload_matches, other.task.payload_matches) == (True, False)
    assert notes.states() == {"queued": 1}


def test_one_key_is_one_task_for_twenty_who_enqueue_it_at_once(
    server: ServerProcess, notes: Notes
) -> None:
    """A2, K1: each over a connection of its own, half of them through HTTP."""
    answers: list[tuple[int, bool]] = []
    together = threading.Barrier(20)

    def by_grpc() -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.target, options) as channel:
            grpc.channel_ready_future(channel).result(timeout=DEADLINE)
            together.wait(DEADLINE)
            answer = TaskQueueStub(channel).Enqueue(keyed(), timeout=DEADLINE)
            answers.append((answer.id, answer.created))

    def by_http() -> None:
        together.wait(DEADLINE)
        body = {"type": "effect", "queue": "mission", "payload": {"n": 1}, "key": "order-7"}
        answer = posted(server, "/api/v1/tasks", body)
        answers.append((int(answer["id"]), answer["created"]))

    threads = [threading.Thread(target=by) for by in [by_grpc, by_http] * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)

    assert len(answers) == 20
    assert len({id_ for id_, _ in answers}) == 1
    assert [created for _, created in answers].count(True) == 1
    assert notes.states() == {"queued": 1}


def test_ten_remote_workers_never_share_a_task(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """A3, A7, DBL-13: 10 worker processes over 5,000 tasks, each task begun once."""
    workers = [
        fleet.worker(
            server.address,
            notes=notes.dsn,
            name=f"w{n}",
            options="--queue mission --concurrency 5",
            wait=False,
        )
        for n in range(WORKERS)
    ]
    wait_until_up(*workers)
    for first in range(0, TASKS, 1000):
        remote.enqueue_many(
            {"type": "effect", "payload": {"n": n}, "queue": "mission"}
            for n in range(first, first + 1000)
        )

    notes.wait_until_done(TASKS, seconds=60)

    begun = notes.all()
    assert len(begun) == TASKS
    assert Counter(note.task for note in begun).most_common(1)[0][1] == 1
    assert {note.attempt for note in begun} == {1}
    # Not one of them alone.
    assert len({note.worker for note in begun}) > WORKERS // 2
    finished, different, attempts = notes.ask(
        "select count(*), count(distinct id), sum(attempts) from wherry.finished"
    )[0]
    assert (finished, different, attempts) == (TASKS, TASKS, TASKS)
    assert notes.ask("select count(*) from wherry.live") == [(0,)]


def test_a_late_report_is_refused_and_changes_nothing(
    stub: Any, server: ServerProcess, clock: Any, notes: Notes
) -> None:
    """A5, DBL-06: FAILED_PRECONDITION, 409 over HTTP, and `lost` in a batch."""
    stub.Enqueue(keyed(), timeout=DEADLINE)
    [late] = leased(stub, "w")
    clock.advance(seconds=31)
    # The server's own maintenance takes it back.
    [present] = wait_for(lambda: leased(stub, "w"), what="the task is there again")
    table = "select * from wherry.tasks"
    before = notes.ask(table)

    lease = late.lease
    single = [
        refused(stub.Complete, leases_pb2.CompleteRequest(lease=lease, result="1")),
        refused(stub.Fail, leases_pb2.FailRequest(lease=lease)),
        refused(stub.Snooze, leases_pb2.SnoozeRequest(lease=lease, delay=Duration(seconds=5))),
        refused(stub.Release, leases_pb2.ReleaseRequest(lease=lease)),
    ]
    with pytest.raises(urllib.error.HTTPError) as over_http:
        posted(server, "/api/v1/leases:complete", {"lease": lease})
    kinds = leases_pb2.Outcome
    batch = leases_pb2.ReportRequest(
        outcomes=[
            kinds(lease=lease, complete=kinds.Completed()),
            kinds(lease=lease, fail=kinds.Failed()),
            kinds(lease=lease, release=kinds.Released()),
        ]
    )
    reported = stub.Report(batch, timeout=DEADLINE).answers
    [beat] = stub.Heartbeat(leases_pb2.HeartbeatRequest(leases=[lease]), timeout=DEADLINE).beats

    assert single == [grpc.StatusCode.FAILED_PRECONDITION] * 4
    with over_http.value as answer:
        assert answer.code == 409
        assert json.load(answer)["reason"] == "LEASE_LOST"
    assert [answer.answer for answer in reported] == [leases_pb2.REPORTED_LOST] * 3
    assert beat.answer == leases_pb2.REPORTED_LOST
    assert notes.ask(table) == before
    done = stub.Complete(leases_pb2.CompleteRequest(lease=present.lease), timeout=DEADLINE)
    assert done.answer == leases_pb2.REPORTED_DONE


def test_an_app_on_a_server_learns_that_its_lease_is_lost(
    remote: wherry.App, clock: Any, notes: Notes
) -> None:
    """A5: by value, as an App on the database does."""
    remote.enqueue("effect", {"n": 1}, queue="mission")
    [late] = remote.lease(worker="w", queues=["mission"])
    clock.advance(seconds=31)
    [_] = wait_for(lambda: remote.lease(worker="w", queues=["mission"]))

    answers = [
        remote.complete(late, result="late"),
        remote.fail(late, "late"),
        remote.snooze(late, 5),
        remote.release(late),
        *remote.heartbeat([late]),
    ]

    assert answers == [Reported.LOST] * 5
    assert notes.states() == {"leased": 1}


def test_tasks_that_fail_are_tried_again_and_end_as_they_should(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """A4: twice and then not, and always; the failures are in the history."""
    fleet.worker(server.address, notes=notes.dsn, options="--queue mission")
    options: dict[str, Any] = {"queue": "mission", "retry": wherry.Fixed(0), "max_attempts": 3}
    twice = remote.enqueue("fail_twice", {}, **options).id
    always = remote.enqueue("fail_always", {}, **options).id

    wait_for(lambda: notes.states() == {"succeeded": 1, "dead": 1}, seconds=20)

    task, dead = remote.get_task(twice), remote.get_task(always)
    assert task is not None
    assert dead is not None
    assert (task.state, task.attempts) == ("succeeded", 3)
    assert [(a.attempt, a.outcome, a.message) for a in task.history] == [
        (1, "failed", "not yet"),
        (2, "failed", "not yet"),
    ]
    assert (dead.state, dead.attempts, dead.error) == ("dead", 3, "ValueError: never works")
    assert [note.attempt for note in notes.of(twice)] == [1, 2, 3]
    assert [note.attempt for note in notes.of(always)] == [1, 2, 3]


def test_what_is_failed_by_hand_twice_is_completed_in_the_third_attempt(stub: Any) -> None:
    """A4, with nothing but the contract."""
    request = keyed()
    request.retry.fixed.delay.FromSeconds(0)
    id_ = stub.Enqueue(request, timeout=DEADLINE).id
    for attempt in (1, 2):
        [task] = leased(stub, "w")
        failed = leases_pb2.FailRequest(lease=task.lease)
        failed.error.message = f"no {attempt}"
        answer = stub.Fail(failed, timeout=DEADLINE)
        assert (task.attempt, answer.answer) == (attempt, leases_pb2.REPORTED_REQUEUED)
    [task] = leased(stub, "w")

    done = leases_pb2.CompleteRequest(lease=task.lease, result='"yes"')
    stub.Complete(done, timeout=DEADLINE)

    found = stub.GetTask(tasks_pb2.GetTaskRequest(id=id_), timeout=DEADLINE).task
    assert (found.state, found.attempts) == (tasks_pb2.STATE_SUCCEEDED, 3)
    assert [attempt.message for attempt in found.history] == ["no 1", "no 2"]


def test_a_task_whose_remote_worker_was_killed_is_finished_by_another(
    fleet: Fleet, server: ServerProcess, remote: wherry.App, notes: Notes
) -> None:
    """A5, DBL-09: the lost attempt is in the history, with the name of its worker."""
    options = "--queue mission --lease-for 2s"
    first = fleet.worker(server.address, notes=notes.dsn, name="first", options=options)
    id_ = remote.enqueue("hang_once", {}, queue="mission", retry=wherry.Fixed(0)).id
    wait_for(lambda: notes.of(id_), seconds=20)

    first.send(signal.SIGKILL)
    fleet.worker(server.address, notes=notes.dsn, name="second", options=options)
    notes.wait_until_done(1, seconds=20)

    task = remote.get_task(id_)
    assert task is not None
    [lost] = task.history
    assert (lost.outcome, lost.attempt, lost.worker) == ("lost", 1, "first")
    assert (task.attempts, [note.attempt for note in notes.of(id_)]) == (2, [1, 2])


def posted(server: ServerProcess, path: str, body: dict[str, Any]) -> Any:
    """Post JSON to the HTTP door; raises HTTPError, which its taker has to close."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http}{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        return json.load(answer)

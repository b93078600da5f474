"""`wherry server` as a process: what it listens on, what it refuses, and how soon it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
import psycopg
import pytest

from tests.cli.conftest import Answer, Running
from tests.facts import wait_for
from wherry import App
from wherry.wire.v1 import leases_pb2, task_queue_pb2_grpc, tasks_pb2

Start = Callable[..., Running]
Cli = Callable[..., Answer]
Sql = Callable[..., list[Any]]

ANYWHERE = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")


class Served:
    """A server that runs as a process, and where."""

    def __init__(self, running: Running) -> None:
        self.running = running
        running.says("see /docs there", seconds=60)
        self.grpc = self._found(r"gRPC on (\S+)") if "gRPC on " in running.err else ""
        self.http = self._found(r"HTTP on (\S+)")

    def _found(self, pattern: str) -> str:
        found = re.search(pattern, self.running.err)
        assert found is not None, self.running.err
        return found[1]

    def post(self, path: str, body: dict[str, Any], *, token: str | None = None) -> Any:
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        request = urllib.request.Request(
            self.http + path, json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@pytest.fixture
def served(started: Start, dsn: str) -> Callable[..., Served]:
    def start(*args: str, **env: str) -> Served:
        return Served(started("server", *(args or ANYWHERE), WHERRY_DSN=dsn, **env))

    return start


def waits(sql: Sql) -> int:
    return int(sql("select count(*) from wherry.waiting")[0][0])


def test_a_server_serves_both_doors(served: Callable[..., Served], dsn: str) -> None:
    server = served()

    stored = server.post("/api/v1/tasks", {"type": "t", "payload": {"n": 1}})
    with grpc.insecure_channel(server.grpc) as channel:
        stub = task_queue_pb2_grpc.TaskQueueStub(channel)
        leased = stub.Lease(leases_pb2.LeaseRequest(worker_id="w"), timeout=10)
        stub.Complete(leases_pb2.CompleteRequest(lease=leased.tasks[0].lease), timeout=10)

    with App(dsn) as app:
        task = app.get_task(leased.tasks[0].id)
    assert str(leased.tasks[0].id) == stored["id"]
    assert task is not None
    assert task.state == "succeeded"


def test_a_signal_answers_long_polls_and_ends_the_server_in_time(
    served: Callable[..., Served], sql: Sql
) -> None:
    server = served()
    with ThreadPoolExecutor() as pool, grpc.insecure_channel(server.grpc) as channel:
        stub = task_queue_pb2_grpc.TaskQueueStub(channel)
        asked = leases_pb2.LeaseRequest(worker_id="w", queues=["a"])
        asked.wait.FromSeconds(50)
        by_grpc = stub.Lease.future(asked, timeout=60)
        body = {"worker_id": "h", "queues": ["b"], "wait": "50s"}
        by_http = pool.submit(server.post, "/api/v1/leases", body)
        wait_for(lambda: waits(sql) == 2, seconds=60, what="both polls wait")

        server.running.signal(signal.SIGTERM)

        # The polls would wait for 50 s.
        assert server.running.end() == 0, server.running.err
        assert list(by_grpc.result(timeout=1).tasks) == []
        assert by_http.result(timeout=1)["tasks"] == []
    assert "Traceback" not in server.running.err


def test_an_idle_stream_does_not_hold_up_the_end(served: Callable[..., Served]) -> None:
    server = served()
    host, _, port = server.http.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as stream:
        # A request that never gets whole.
        stream.sendall(b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\ncontent-len")

        server.running.signal(signal.SIGINT)

        assert server.running.end() == 0
        # In ten seconds it would have been told that it is too slow.
        with suppress(ConnectionError):
            assert stream.recv(1000) == b""


def test_a_database_that_stands_still_does_not_hold_up_the_end(
    served: Callable[..., Served], dsn: str, sql: Sql
) -> None:
    server = served()
    with (
        psycopg.connect(dsn, connect_timeout=10) as holder,
        grpc.insecure_channel(server.grpc) as channel,
    ):
        holder.execute("lock table wherry.live, wherry.lease, wherry.worker in exclusive mode")
        stub = task_queue_pb2_grpc.TaskQueueStub(channel)
        stored = stub.Enqueue.future(tasks_pb2.EnqueueRequest(type="t"), timeout=60)
        polled = stub.Lease.future(leases_pb2.LeaseRequest(worker_id="w"), timeout=60)
        waiting = (
            "select count(*) >= 2 from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        wait_for(lambda: sql(waiting)[0][0], seconds=60, what="calls wait for the lock")

        server.running.signal(signal.SIGTERM)

        # The lock is held until this has ended.
        assert server.running.end() == 0, server.running.err
        assert stored.exception(timeout=1) is not None
        assert polled.done()
    assert "Traceback" not in server.running.err


def test_without_a_database_there_is_no_server(started: Start) -> None:
    server = started("server", *ANYWHERE, "--dsn", "postgresql://127.0.0.1:1/none")

    assert server.end() == 3
    assert "Traceback" not in server.err


def test_a_server_on_an_empty_database_says_what_to_do(plain_cli: Cli, dsn: str) -> None:
    answer = plain_cli("server", *ANYWHERE, "--dsn", dsn, "--schema", "other")

    assert answer.code == 2
    assert "run `wherry migrate`" in answer.err


@pytest.mark.parametrize("door", ["--grpc", "--http"])
def test_a_port_that_is_taken_is_one_sentence(plain_cli: Cli, dsn: str, door: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        answer = plain_cli("server", *ANYWHERE, door, address, "--dsn", dsn)

    assert answer.code == 2
    assert address in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    "address", ["8080", "localhost", "127.0.0.1:http", "::1:80", "[nowhere]:80", "1.2.3.4:70000"]
)
def test_an_address_that_is_none_is_refused(plain_cli: Cli, dsn: str, address: str) -> None:
    answer = plain_cli("server", "--http", address, "--grpc", "off", "--dsn", dsn)

    assert answer.code == 2
    assert "address" in answer.err


def test_a_server_that_others_can_reach_asks_for_a_token(
    served: Callable[..., Served], cli: Cli
) -> None:
    server = served("--grpc", "off", "--http", ":0")
    reached = server.http.replace("0.0.0.0", "127.0.0.1")
    server.http = reached
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.post("/api/v1/tasks", {"type": "t"})
    refused.value.close()
    made = cli("token", "create", "--name", "me", "--right", "enqueue", "--queue", "*")

    stored = server.post("/api/v1/tasks", {"type": "t"}, token=made.out.strip())

    assert refused.value.code == 401
    assert stored["created"] is True
    assert "go over the network in clear" in server.running.err
    assert "there is no token yet" in server.running.err
    assert "wherry token create" in server.running.err


def test_a_server_that_asks_for_no_tokens_warns_loudly_if_others_can_reach_it(
    served: Callable[..., Served],
) -> None:
    server = served("--grpc", "off", "--http", ":0", "--no-auth")

    assert "ASKS FOR NO TOKENS" in server.running.err


def test_calls_hold_no_more_connections_than_they_may(
    served: Callable[..., Served], connect: Any, sql: Sql
) -> None:
    server = served(*ANYWHERE, "--pool-size", "2")
    holder = connect(autocommit=False)
    holder.execute("select id from wherry.enqueue('default', 't', key => 'k')")

    def enqueue(_: int) -> Any:
        return server.post("/api/v1/tasks", {"type": "t", "key": "k"})["id"]

    def waiting() -> int:
        [[n]] = sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")
        return int(n)

    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(enqueue, range(20))
        wait_for(lambda: waiting() == 2)
        holder.commit()
        assert len(set(answers)) == 1

    # Connections stay in the pool: there never were more.
    names = sql("select application_name from pg_stat_activity where datname = current_database()")
    assert [name for [name] in names].count("wherry app") == 2


def test_a_certificate_needs_its_key(plain_cli: Cli, dsn: str, tmp_path: Any) -> None:
    (tmp_path / "cert.pem").write_text("nothing")

    answer = plain_cli("server", *ANYWHERE, "--tls-cert", "cert.pem", "--dsn", dsn)

    assert answer.code == 2
    assert "--tls-key" in answer.err


def test_a_server_keeps_the_queue_in_order(served: Callable[..., Served], dsn: str) -> None:
    served()
    with App(dsn) as app:
        id = app.enqueue("a", max_attempts=1).id
        app.lease(worker="lost", lease_for=0.1)

        wait_for(lambda: (task := app.get_task(id)) and task.state == "dead", seconds=60)

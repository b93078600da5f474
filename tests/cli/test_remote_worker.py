"""`wherry worker --server`: the same worker and handlers, without a database."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wherry
from tests.cli.conftest import SHOP, Answer, Running
from tests.facts import wait_for
from wherry.domain.state import State

Start = Callable[..., Running]
Cli = Callable[..., Answer]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)


@pytest.fixture
def database(dsn: str) -> Iterator[wherry.App]:
    """The database that only the server is told of."""
    with wherry.App(dsn) as app:
        yield app


@pytest.fixture
def serve(started: Start, dsn: str) -> Callable[..., tuple[str, Running]]:
    """Start a server; gives its address and the process."""

    def start(*args: str, port: int = 0) -> tuple[str, Running]:
        where = ("--grpc", f"127.0.0.1:{port}", "--http", "off")
        server = started("server", *where, *args, WHERRY_DSN=dsn)
        server.says("gRPC on ", seconds=60)
        found = re.search(r"gRPC on ([0-9.:]+)", server.err)
        assert found is not None, server.err
        return f"grpc://{found[1]}", server

    return start


def state(app: wherry.App, id: int) -> State:
    task = app.get_task(id)
    assert task is not None
    return task.state


def test_it_runs_what_others_enqueue_and_ends_on_a_signal(
    serve: Callable[..., tuple[str, Running]], started: Start, database: wherry.App
) -> None:
    address, _ = serve()
    worker = started("worker", "shop:app", "--server", address)
    worker.says(f"through {address}")

    id_ = database.enqueue("shop.mail", {"to": "ada"}).id
    worker.says("mail to ada")
    wait_for(lambda: state(database, id_) is State.SUCCEEDED)
    worker.signal(signal.SIGTERM)

    assert worker.end(seconds=8) == 0, worker.err


def test_several_processes_share_the_work(
    serve: Callable[..., tuple[str, Running]], started: Start, database: wherry.App
) -> None:
    address, _ = serve()
    worker = started(
        "worker", "shop:app", "--server", address, "--processes", "2", "--concurrency", "1",
        "--name", "w",
    )  # fmt: skip
    # Enough that the process which is there last finds some too.
    database.enqueue_many([{"type": "shop.slow", "payload": {"seconds": 1.5}}] * 60)

    def names() -> set[str | None]:
        return {task.worker for task in database.list_tasks(state="leased").tasks}

    wait_for(lambda: names() == {"w-1", "w-2"}, seconds=60, what="both have a task")
    worker.signal(signal.SIGTERM)

    assert worker.end(seconds=15) == 0, worker.err


def test_a_killed_server_costs_neither_a_task_nor_an_attempt(
    serve: Callable[..., tuple[str, Running]], started: Start, database: wherry.App
) -> None:
    address, server = serve()
    port = int(address.rpartition(":")[2])
    worker = started("worker", "shop:app", "--server", address)
    running = database.enqueue("shop.slow", {"seconds": 2}).id
    worker.says("begun")

    server.signal(signal.SIGKILL)
    server.end()
    wait_for(lambda: "waiting for the server" in worker.err, seconds=60)
    serve(port=port)

    later = database.enqueue("shop.mail", {"to": "bob"}).id
    for id_ in (running, later):
        wait_for(lambda id_=id_: state(database, id_) is State.SUCCEEDED, seconds=60)  # type: ignore[misc]
    task = database.get_task(running)
    assert task is not None
    assert (task.attempts, task.history) == (1, ())
    worker.signal(signal.SIGTERM)
    assert worker.end(seconds=8) == 0, worker.err


def test_a_server_that_is_away_at_the_start_is_waited_for(
    serve: Callable[..., tuple[str, Running]], started: Start, database: wherry.App
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    worker = started("worker", "shop:app", "--server", f"grpc://127.0.0.1:{port}")
    worker.says("out of reach at the start")
    id_ = database.enqueue("shop.mail", {"to": "ada"}).id

    serve(port=port)

    wait_for(lambda: state(database, id_) is State.SUCCEEDED, seconds=60)
    worker.signal(signal.SIGTERM)
    assert worker.end(seconds=8) == 0, worker.err


def test_a_frozen_server_holds_up_neither_the_work_afterwards_nor_the_end(
    serve: Callable[..., tuple[str, Running]], started: Start, database: wherry.App
) -> None:
    address, server = serve()
    worker = started("worker", "shop:app", "--server", address, "--lease-for", "3s")
    ids = [database.enqueue("shop.slow", {"seconds": 4}).id]
    worker.says("begun")

    server.signal(signal.SIGSTOP)
    ids.append(database.enqueue("shop.mail", {"to": "bob"}).id)
    worker.says("heartbeats do not get through", seconds=60)
    server.signal(signal.SIGCONT)
    for id_ in ids:
        wait_for(lambda id_=id_: state(database, id_) is State.SUCCEEDED, seconds=60)  # type: ignore[misc]

    server.signal(signal.SIGSTOP)
    worker.signal(signal.SIGTERM)
    assert worker.end(seconds=10) == 0, worker.err
    server.signal(signal.SIGCONT)


def test_a_worker_that_is_not_let_in_ends_with_a_sentence(
    serve: Callable[..., tuple[str, Running]], started: Start, cli: Cli, tmp_path: Path
) -> None:
    address, _ = serve("--auth")

    stranger = started("worker", "shop:app", "--server", address)
    assert stranger.end() == 2
    assert "Traceback" not in stranger.err

    made = cli("token", "create", "--name", "x", "--right", "read", "--queue", "*", "--json").json
    reader = started("worker", "shop:app", "--server", address, WHERRY_TOKEN=made["token"])
    assert reader.end() == 2
    assert "the right work" in reader.err
    assert "Traceback" not in reader.err


def test_a_token_comes_from_the_environment_or_a_file_and_is_rotated(
    serve: Callable[..., tuple[str, Running]],
    started: Start,
    cli: Cli,
    database: wherry.App,
    tmp_path: Path,
) -> None:
    def token(name: str) -> dict[str, Any]:
        rights = ("--right", "work", "--queue", "*", "--json")
        found: dict[str, Any] = cli("token", "create", "--name", name, *rights).json
        return found

    address, _ = serve("--auth")
    first, second = token("first"), token("second")
    kept = tmp_path / "token"
    kept.write_text(first["token"] + "\n")
    worker = started("worker", "shop:app", "--server", f"{address}?token_file={kept}")
    worker.says("through ")

    kept.write_text(second["token"] + "\n")
    assert cli("token", "revoke", str(first["id"])).code == 0
    id_ = database.enqueue("shop.mail", {"to": "ada"}).id

    wait_for(lambda: state(database, id_) is State.SUCCEEDED, seconds=60)
    worker.signal(signal.SIGTERM)
    assert worker.end(seconds=8) == 0, worker.err
    assert first["token"] not in worker.err


@pytest.mark.parametrize(
    "options",
    [
        ("--server", "grpc://h:1", "--dsn", "host=x"),
        ("--server", "grpc://h:1", "--schema", "x"),
        ("--server", "grpc://h:1", "--no-listen"),
        ("--server", "h:1"),
        ("--server", "grpc://:1"),
        ("--server", "grpc://h:1/path"),
        ("--server", "grpc://h:1?ca=x"),
        ("--server", "grpc://me:secret@h:1"),
        ("--server", "grpc://h:1?token=secret"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_without_repeating_it(
    plain_cli: Cli, options: tuple[str, ...]
) -> None:
    answer = plain_cli("worker", "shop:app", *options)

    assert answer.code == 2
    assert "secret" not in answer.err

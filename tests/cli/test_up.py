"""`wherry up`, and how other verbs find what it started."""

from __future__ import annotations

import re
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.cli.conftest import Answer, Running
from tests.facts import wait_for
from wherry import App
from wherry.embedded import running

Start = Callable[..., Running]
Cli = Callable[..., Answer]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own for the embedded server, which its unprivileged user can enter."""
    with TemporaryDirectory(prefix="wherry-up-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        path = Path(folder)
        path.chmod(0o755)
        monkeypatch.setenv("WHERRY_HOME", folder)
        yield path
        # Its keeper stops it when the last process has gone.
        wait_for(lambda: running() is None, seconds=60, what="the embedded server has stopped")


def dsn_of(up: Running) -> str:
    up.says("Ctrl-C stops it", seconds=60)
    [line] = [line for line in up.err.splitlines() if "export WHERRY_DSN=" in line]
    return line.partition("=")[2].strip("'")


def test_up_runs_a_database_that_others_join_until_ctrl_c(started: Start, plain_cli: Cli) -> None:
    up = started("up")
    dsn = dsn_of(up)

    stored = plain_cli("enqueue", "shop.mail", "--json")
    listed = plain_cli("tasks", "list", "--json", "-q")

    assert stored.code == 0
    assert "joining the embedded PostgreSQL that is running" in stored.err
    assert ([task["id"] for task in listed.json["tasks"]], listed.err) == ([1], "")
    with psycopg.connect(dsn, connect_timeout=10) as connection:
        assert connection.execute("select count(*) from wherry.tasks").fetchone() == (1,)
    up.signal(signal.SIGINT)
    assert up.end() == 0
    assert up.out == ""


def test_up_with_an_app_runs_its_handlers(started: Start, plain_cli: Cli, shop: str) -> None:
    up = started("up", shop)
    dsn_of(up)

    plain_cli("enqueue", "shop.mail", '{"to": "me"}')

    up.says("mail to me")
    up.signal(signal.SIGTERM)
    assert up.end() == 0


def test_up_serves_on_this_machine_beside_the_worker(started: Start, shop: str) -> None:
    with suppress(OSError), socket.create_server(("127.0.0.1", 8080)):
        up = started("up", shop)
        dsn_of(up)
        found = re.search(r"serving HTTP on (http://127.0.0.1:\d+),", up.err)
        assert found is not None, up.err
        body = b'{"type": "shop.mail", "payload": {"to": "you"}}'
        headers = {"content-type": "application/json"}

        request = urllib.request.Request(f"{found[1]}/api/v1/tasks", body, headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status in (200, 201)

        up.says("mail to you")
        assert "127.0.0.1:8080 is taken" in up.err
        up.signal(signal.SIGTERM)
        assert up.end() == 0


def test_up_without_a_server_opens_no_port(started: Start, shop: str) -> None:
    up = started("up", shop, "--no-server")
    dsn_of(up)
    # From here on it handles signals.
    up.says(" slots, ")

    assert "serving" not in up.err
    up.signal(signal.SIGTERM)
    assert up.end() == 0


def test_up_keeps_the_queue_in_order(started: Start, plain_cli: Cli) -> None:
    up = started("up")
    dsn = dsn_of(up)
    with App(dsn) as app:
        id = app.enqueue("a", max_attempts=1).id
        app.lease(worker="lost", lease_for=0.1)

        wait_for(lambda: (task := app.get_task(id)) and task.state == "dead", seconds=60)

    up.signal(signal.SIGTERM)
    assert up.end() == 0


def test_up_migrates_the_database_that_is_named_and_starts_none(
    started: Start, plain_cli: Cli, dsn: str
) -> None:
    up = started("up", "--dsn", dsn, "--schema", "other")
    up.says("Ctrl-C stops it")

    assert "its schema 'other' is current, " in up.err
    assert running() is None
    assert plain_cli("tasks", "list", "--dsn", dsn, "--schema", "other").code == 0
    up.signal(signal.SIGTERM)
    assert up.end() == 0


def test_no_other_verb_starts_a_database(plain_cli: Cli, shop: str) -> None:
    for verb in (["tasks", "list"], ["migrate"], ["enqueue", "a"], ["worker", shop]):
        assert plain_cli(*verb).code == 2

    assert running() is None


def test_every_verb_starts_one_that_is_named(plain_cli: Cli) -> None:
    migrated = plain_cli("migrate", "--dsn", "embedded:")
    stored = plain_cli("enqueue", "a", "--dsn", "embedded:")

    assert (migrated.code, stored.code) == (0, 0), migrated.err + stored.err
    assert migrated.out.startswith("applied 0001")


def test_queues_without_an_app_make_no_sense(plain_cli: Cli) -> None:
    answer = plain_cli("up", "--queues", "a")

    assert answer.code == 2
    assert "name one, such as shop.tasks:app" in answer.err

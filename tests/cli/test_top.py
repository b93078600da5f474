"""`wherry top`: one look for scripts, and for people on a terminal until they press q."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.cli.conftest import Answer
from tests.facts import wait_for
from wherry import App
from wherry.cli.top import (
    _quits,  # pyright: ignore[reportPrivateUsage]
    _Screen,  # pyright: ignore[reportPrivateUsage]
)
from wherry.commands.maintenance import ParkTasks
from wherry.commands.workers import BeatWorker
from wherry.domain.top import Look
from wherry.domain.worker import Directive, WorkerSeen

Cli = Callable[..., Answer]
Connect = Callable[..., psycopg.Connection[Any]]
NOW = datetime.now(UTC)


def test_one_look_tells_problems_queues_and_workers(cli: Cli, app: App) -> None:
    app.enqueue("t", queue="mail")
    app.pause_queue("mail", reason="a \x1b[31mflood")

    shown = cli("top", "--once")
    document = cli("top", "--json").json

    assert shown.code == 0
    assert shown.out.startswith("queue mail is paused")
    assert r"a \x1b[31mflood" in shown.out
    assert "oldest due" in shown.out
    assert list(document) == ["problems", "queues", "workers"]
    assert (document["queues"][0]["queue"], document["queues"][0]["ready"]) == ("mail", 1)


def test_what_waits_for_its_paused_type_is_not_called_unknown(cli: Cli, app: App) -> None:
    app.enqueue("report", queue="mail")
    app.pause_type("report")
    app.carry(
        BeatWorker(instance=str(uuid4()), name="w", host="h", pid=1, queues=None, types=("report",))
    )
    app.carry(ParkTasks("mail"))

    document = cli("top", "--json").json

    assert "has 1 of types that are paused (report) or" in document["problems"][-1]


def test_no_key_but_q_has_it_look_sooner() -> None:
    def quits(keys: str) -> tuple[bool, int]:
        asked: list[float] = []

        def pressed(seconds: float) -> str:
            asked.append(seconds)
            return keys[len(asked) - 1 : len(asked)]

        said = _quits(pressed, 60.0)
        assert all(0 < seconds <= 60 for seconds in asked)
        return said, len(asked)

    assert quits("") == (False, 1)
    assert quits("jk") == (False, 3)
    assert quits("jq") == (True, 2)


def test_on_a_terminal_it_looks_again_until_q_is_pressed(
    dsn: str, app: App, connect: Connect
) -> None:
    """Also while the database is away."""
    app.enqueue("t", queue="mail")
    name = connect().info.dbname
    owner = psycopg.connect(dsn, dbname="postgres", autocommit=True)

    def let_in(yes: bool) -> None:
        owner.execute(f"alter database {name} allow_connections {yes}".encode())
        if not yes:
            owner.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                (name,),
            )

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "wherry", "top", "--every", "500ms", "--dsn", dsn]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = bytearray()

    def twice() -> bool:
        # Nothing is there yet, or nobody at the other end any more.
        with suppress(OSError):
            seen.extend(os.read(ours, 65536))
        return b"/s" in seen

    try:
        wait_for(twice, seconds=60, what="a second look tells how the queue changes")
        let_in(False)
        wait_for(lambda: twice() and b"out of reach" in seen, seconds=60, what="it says so")
        assert process.poll() is None
        let_in(True)
        with App(dsn) as other:
            other.enqueue("t", queue="later")
        wait_for(lambda: twice() and b"later" in seen, seconds=60, what="it looks again")
        os.write(ours, b"q")
        wait_for(lambda: twice() and process.poll() is not None, seconds=60, what="it ends")
    finally:
        let_in(True)
        owner.close()
        process.kill()
        process.wait()
        os.close(ours)
    assert process.returncode == 0
    assert b"mail" in seen


@pytest.mark.parametrize(("columns", "lines"), [(40, 24), (80, 12), (120, 30), (200, 60)])
def test_a_screen_has_room_for_problems_queues_and_workers(
    columns: int, lines: int, app: App
) -> None:
    """However many there are of each: three thousand queues that wait must not hide the rest."""
    app.enqueue_many([{"type": "t", "queue": f"q{n:02}-{'x' * n}"} for n in range(80)] * 1000)
    look = Look(
        1.0,
        tuple(app.list_queues()),
        tuple(
            WorkerSeen(str(uuid4()), f"w{n}", "h", 1, ("z",), None, NOW, NOW, n < 5, Directive.NONE)
            for n in range(30)
        ),
    )
    screen = io.StringIO()
    console = Console(width=columns, height=lines, file=screen, color_system=None)

    console.print(_Screen(columns, lines).shown(None, look))

    shown = screen.getvalue().splitlines()
    text = "\n".join(shown)
    assert len(shown) <= lines
    assert all(cell_len(line) <= columns for line in shown)
    assert "queue q00- holds 1,000" in text
    assert "fell silent" in text or lines == 12
    assert re.search(r"^q00- +1,000 ", text, re.MULTILINE)
    assert re.search(r"^w0 +alive ", text, re.MULTILINE)
    queues, workers = (len(re.findall(rf"^{name}\d", text, re.MULTILINE)) for name in "qw")
    problems = len(re.findall(r"^queue q|^worker w\d", text, re.MULTILINE))
    assert f"and {80 - queues:,} more queues" in text
    assert f"and {30 - workers:,} more workers" in text
    assert f"and {80 + 25 - problems:,} more\n" in text


def test_one_look_tells_every_queue_and_worker(cli: Cli, app: App) -> None:
    app.enqueue_many([{"type": "t", "queue": f"q{n:03}"} for n in range(300)])

    shown = cli("top", "--once").out.splitlines()

    assert sum(line.startswith("queue q") for line in shown) == 300
    assert sum(bool(re.match(r"q\d{3} ", line)) for line in shown) == 300

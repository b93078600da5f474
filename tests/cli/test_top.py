"""`wherry top`: one look for scripts, and for people on a terminal until they press q."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from tests.cli.conftest import Answer
from tests.facts import wait_for
from wherry import App

Cli = Callable[..., Answer]


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


def test_on_a_terminal_it_looks_again_until_q_is_pressed(dsn: str, app: App) -> None:
    app.enqueue("t", queue="mail")
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
        os.write(ours, b"q")
        wait_for(lambda: twice() and process.poll() is not None, seconds=30, what="it ends")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert process.returncode == 0
    assert b"mail" in seen

"""At a real (pseudo) terminal: being asked, seeing how it goes, and stopping it in the middle."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pytest

from tests.facts import wait_for
from wherry import App

Dead = Callable[..., list[int]]


class Terminal:
    """A `wherry` at a terminal of so many columns: what is typed, and what is to be seen."""

    def __init__(self, *args: str, columns: int = 100) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # Whatever size the terminal has that the tests run in.
        env = {name: os.environ[name] for name in os.environ.keys() - {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wherry", *args],
            env={**env, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._fd = ours
        self.seen = ""

    def sees(self, text: str, *, seconds: float = 60.0) -> None:
        """Wait until *text* is to be seen."""
        ends_at = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < ends_at:
            if not self._read(ends_at - time.monotonic()):
                break
        assert text in self.seen, self.seen

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self, *, seconds: float = 60.0) -> int:
        ends_at = time.monotonic() + seconds
        while self._read(max(0.0, ends_at - time.monotonic())):
            pass
        return self.process.wait(timeout=seconds)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, seconds))
        try:
            part = os.read(self._fd, 65_536) if ready else b""
        except OSError:
            # Nobody is at the other end any more.
            part = b""
        self.seen += part.decode(errors="replace")
        return bool(part)


@pytest.fixture
def terminal(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Terminal]]:
    monkeypatch.setenv("WHERRY_DSN", dsn)
    opened: list[Terminal] = []

    def start(*args: str, columns: int = 100) -> Terminal:
        opened.append(Terminal(*args, columns=columns))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_somebody_is_asked_and_shown_how_it_goes(
    terminal: Callable[..., Terminal], app: App, dead: Dead
) -> None:
    dead(40)

    there = terminal("dead", "requeue", "--all", "--rate", "40/s")
    there.sees("Requeue 40 tasks? [y/N]")
    there.type("y\n")
    there.sees("20/40")

    assert there.end() == 0
    assert "requeued 40 tasks" in there.seen
    assert app.list_queues()[0].ready == 40


def test_whoever_says_nothing_or_no_changes_nothing(
    terminal: Callable[..., Terminal], app: App, dead: Dead
) -> None:
    dead(2)

    there = terminal("dead", "purge", "--all")
    there.sees("Purge 2 tasks?")
    there.type("\n")

    assert there.end() == 1
    assert len(app.list_tasks(state="dead").tasks) == 2


def test_ctrl_c_at_the_question_is_130(terminal: Callable[..., Terminal], dead: Dead) -> None:
    dead(1)

    there = terminal("dead", "purge", "--all")
    there.sees("Purge 1 task?")

    # Again, as people do: one that comes just before Python waits for the answer is not noticed.
    for _ in range(10):
        there.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            there.process.wait(timeout=2)
            break
    assert there.end(seconds=45) == 130
    assert "Traceback" not in there.seen


def test_a_narrow_terminal_shows_blocks_and_a_wide_one_a_table(
    terminal: Callable[..., Terminal], app: App
) -> None:
    app.enqueue("shop.tasks.send_email", queue="mail")

    narrow = terminal("tasks", "list", columns=24)
    wide = terminal("tasks", "list", columns=120)

    assert (narrow.end(), wide.end()) == (0, 0)
    assert re.search(r"type +shop.tasks.send_email\r\n", narrow.seen)
    assert re.search(r"id.*state.*queue.*type.*\r\n.*1.*queued.*mail", wide.seen)


def test_stopped_in_the_middle_it_tells_what_was_done_and_goes_on_later(
    app: App, dsn: str, dead: Dead
) -> None:
    """CLI-08: Ctrl-C half-way, run again; each task is requeued once."""
    dead(60)
    command = [sys.executable, "-m", "wherry", "dead", "requeue", "--all", "--yes", "--json"]
    command += ["--dsn", dsn]
    first = subprocess.Popen(
        [*command, "--rate", "2/s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # All would take half a minute.
    wait_for(lambda: app.list_tasks(state="queued").tasks, seconds=60)

    first.send_signal(signal.SIGINT)

    out, err = first.communicate(timeout=60)
    stopped = json.loads(out)
    assert (first.returncode, stopped["complete"]) == (130, False)
    assert err.endswith("interrupted\n")
    requeued = len(app.list_tasks(state="queued").tasks)
    # Of what was under way the answer had perhaps not come, be it the first of all.
    assert requeued - 10 <= stopped["answers"].get("queued", 0) <= requeued < 60
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(second.stdout)["answers"] == {"queued": 60 - requeued}

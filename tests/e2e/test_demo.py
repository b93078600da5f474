"""The demo as a newcomer runs it: it keeps every promise, and leaves nothing running behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.facts import wait_for
from wherry import embedded

ROOT = Path(__file__).resolve().parents[2]
FILES = 160


class Demo:
    """A demo that runs; what it has printed so far is at hand."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "examples.demo", str(folder), *options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    @property
    def printed(self) -> str:
        return "".join(self._lines)

    def workers(self) -> list[int]:
        """Return the process ids of the workers it has started."""
        return [int(pid) for pid in re.findall(r"worker-\d started, process (\d+)", self.printed)]

    def ended(self, *, seconds: float = 60) -> int:
        """Wait for its end and return its exit code."""
        code = self.process.wait(seconds)
        self._reading.join(seconds)
        return code

    def end(self) -> None:
        """Kill it if it still runs. Its workers end by themselves."""
        self.process.kill()
        self.ended()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            self._lines.extend(iter(self.process.stdout.readline, ""))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(FILES):
        parent = tmp_path / "files" / f"part {number % 3} [red] 100%"
        parent.mkdir(parents=True, exist_ok=True)
        (parent / f"{number}.txt").write_text(f"line of {number}\n" * number)
    return tmp_path / "files"


@pytest.fixture
def start(wherry_home: Path) -> Iterator[Callable[..., Demo]]:
    """Start a demo, which is gone with its workers when the test ends."""
    started: list[Demo] = []

    def start(folder: Path, *options: str) -> Demo:
        started.append(Demo(folder, *options))
        return started[-1]

    yield start
    for demo in started:
        demo.end()
        wait_for(lambda demo=demo: not running(demo.workers()))  # type: ignore[misc]


def running(pids: list[int]) -> list[int]:
    """Return those of the processes that have not ended."""
    return [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # In a container there may be nobody who collects orphans: a dead one stays listed.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def command_after(line: str) -> subprocess.CompletedProcess[str]:
    """Run a command that the demo printed."""
    return subprocess.run(
        shlex.split(line), capture_output=True, text=True, timeout=60, check=False
    )


def number_of(row: str, printed: str) -> str:
    """Return the number in a row of the final table."""
    found = re.search(rf"^{re.escape(row)} +([\d.,]+)", printed, re.MULTILINE)
    assert found is not None, printed
    return found[1]


def test_the_demo_keeps_every_promise_and_its_commands_work(
    start: Callable[..., Demo], folder: Path
) -> None:
    demo = start(folder)
    code = demo.ended()

    printed = demo.printed
    assert code == 0, printed
    assert "killed with SIGKILL" in printed
    rolled_back = len([n for n in range(FILES) if n % 20 == 7])
    assert number_of("documents", printed) == str(FILES - rolled_back)
    assert number_of("rolled back", printed) == str(rolled_back)
    assert number_of("tasks", printed) == str(FILES - rolled_back)
    assert number_of("succeeded", printed) == str(FILES - rolled_back - 1)
    assert int(number_of("retried", printed)) > 0
    assert number_of("dead", printed) == "1"
    assert int(number_of("recovered from the killed worker", printed)) > 0
    assert number_of("processed twice", printed) == "0"
    assert number_of("lost", printed) == "0"
    show, requeue = printed.rstrip().splitlines()[-2:]
    shown, requeued = command_after(show), command_after(requeue)
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    assert shown.stdout.count("this file is poison") >= 6
    assert requeued.returncode == 0, requeued
    with embedded.acquire() as server, psycopg.connect(server.dsn) as conn:
        kept: Any = conn.execute(
            "select state, attempts from wherry_demo.tasks where state <> 'succeeded'"
        ).fetchall()
    assert kept == [("queued", 0)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_and_its_workers(
    start: Callable[..., Demo], folder: Path, number: signal.Signals
) -> None:
    demo = start(folder)
    wait_for(lambda: len(demo.workers()) >= 2, seconds=30, what="two workers have started")

    demo.process.send_signal(number)

    assert demo.ended() == 130, demo.printed
    assert not running(demo.workers())
    assert demo.printed.endswith("demo: stopped; nothing of it is left running\n")


def test_a_demo_that_is_killed_leaves_no_worker_behind(
    start: Callable[..., Demo], folder: Path
) -> None:
    demo = start(folder)
    wait_for(lambda: len(demo.workers()) >= 2, seconds=30, what="two workers have started")

    demo.process.kill()

    wait_for(lambda: not running(demo.workers()), seconds=15, what="the workers have ended")


def test_a_second_demo_at_the_same_time_is_refused(
    start: Callable[..., Demo], folder: Path
) -> None:
    first = start(folder)
    wait_for(lambda: len(first.workers()) >= 2, seconds=30, what="two workers have started")

    second = start(folder)

    assert second.ended() == 1
    assert second.printed == "demo: another demo is running: wait until it has ended\n"
    assert first.process.poll() is None, first.printed


def test_a_folder_with_too_few_files_is_refused(start: Callable[..., Demo], tmp_path: Path) -> None:
    (tmp_path / "only.txt").write_text("one")

    demo = start(tmp_path)

    assert demo.ended() == 2
    assert "1 readable files" in demo.printed

"""Where stdout or stderr takes nothing: the verb is done all the same, and says so by its code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from wherry.app.app import App

Run = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def run(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `wherry` with this command line, redirections included, in a shell."""
    monkeypatch.setenv("WHERRY_DSN", dsn)

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", f"exec {sys.executable} -m wherry {line}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "line", ["queues list", "queues list --json", "enqueue a", "migrate --sql", "tasks --help"]
)
def test_a_full_disk_is_told_in_a_sentence(
    app: App, run: Run, line: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLI-07: an answer that is lost must not look like one that is empty."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    app.pause_queue("mail")

    done = run(f"{line} > /dev/full")

    assert (done.returncode, done.stderr) == (
        1,
        "Error: what there is to tell could not be written: No space left on device\n",
    )


@pytest.mark.parametrize("line", ["types list --json", "queues list --json", "enqueue a"])
def test_where_stdout_is_closed_nobody_reads_it(run: Run, line: str) -> None:
    done = run(f"{line} >&-")

    assert (done.returncode, done.stderr) == (141, "")


def test_what_was_asked_for_is_done_where_stdout_is_closed(
    app: App, run: Run, sql: Callable[..., list[Any]]
) -> None:
    id = app.enqueue("a").id

    run("tasks cancel --all --yes >&-")

    assert sql("select id, state from wherry.tasks") == [(id, "canceled")]


@pytest.mark.parametrize(
    ("line", "code"),
    [("tasks show 999", 1), ("enqueue a --queue ''", 2)],
)
@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_the_exit_code_is_right_where_stderr_takes_nothing(
    run: Run, line: str, code: int, where: str
) -> None:
    assert run(f"{line} {where}").returncode == code

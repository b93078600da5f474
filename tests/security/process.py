"""`wherry server` as a process of its own, which ends with its test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.facts import wait_for

ANYWHERE = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")


class Served:
    """A server process; `grpc` and `http` are where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output
        self.grpc = ""
        self.http = ""

    @property
    def said(self) -> str:
        """Everything on stdout and stderr."""
        return self._output.read_text(errors="replace")

    def up(self) -> None:
        """Wait until it listens."""
        wait_for(
            lambda: "see /docs there" in self.said or self.process.poll() is not None,
            seconds=60,
            what="the server is up",
        )
        places = [re.search(rf"{door} on (\S+)", self.said) for door in ("gRPC", "HTTP")]
        self.grpc, self.http = (found[1] if found else "" for found in places)
        assert self.http, self.said

    def end(self) -> int:
        """Stop it and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)

    def resident_kib(self) -> int:
        """Return how much memory it has now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    def title(self) -> str:
        """Return what `ps` shows of it."""
        ps = ["ps", "-o", "args=", "-p", str(self.process.pid)]
        return subprocess.run(ps, capture_output=True, text=True, check=True).stdout


@contextmanager
def started(folder: Path, *args: str, dsn: str) -> Iterator[Served]:
    """Start a server that reads its DSN from the environment, as it should."""
    output = folder / "server.log"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "wherry", "server", *args],
            env={**os.environ, "WHERRY_DSN": dsn},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Served(process, output)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()

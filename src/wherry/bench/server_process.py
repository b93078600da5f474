"""A real `wherry server` beside a benchmark, and the ways to call it: direct, gRPC, HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Self

from wherry.bench import handlers
from wherry.bench.claims import SCHEMA
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.place import TICKS
from wherry.config import DSN_VARIABLE

WAYS = ("direct", "gRPC", "HTTP")
_STARTS_WITHIN_SECONDS = 30.0
_GRPC, _HTTP = "serving gRPC on ", "serving HTTP on "


class Served:
    """One server process on *dsn*; leaving the block ends it as an operator would."""

    def __init__(self, dsn: str, *, schema: str = SCHEMA) -> None:
        self._said = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115 - closed in `__exit__`
        command = [sys.executable, "-P", "-m", "wherry", "server", "--schema", schema]
        # Such as a profiler, which then wraps the server only.
        under = os.environ.get("WHERRY_BENCH_SERVER_UNDER", "").split()
        self._process = subprocess.Popen(
            [*under, *command, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            # Not among the arguments, which every user of the machine can read.
            env={**os.environ, DSN_VARIABLE: dsn},
            start_new_session=True,
        )
        self.grpc, self.http = "", ""

    def __enter__(self) -> Self:
        give_up_at = monotonic() + _STARTS_WITHIN_SECONDS
        try:
            while not self.http:
                if self._process.poll() is not None or monotonic() > give_up_at:
                    raise BenchmarkFailed(f"the server did not start:\n{self.told()}")
                sleep(0.02)
                self.grpc, self.http = self._address(_GRPC), self._address(_HTTP)
            self.grpc = f"grpc://{self.grpc}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def cpu(self) -> float:
        """CPU seconds of the server process so far; nan where there is no /proc."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / TICKS

    def told(self) -> str:
        """What it has logged so far."""
        return Path(self._said.name).read_text()

    def to(self, way: str, dsn: str) -> str:
        """Return the address for one of `WAYS`; *dsn* is the direct one."""
        return {"direct": dsn, "gRPC": self.grpc, "HTTP": self.http}[way]

    def _address(self, before: str) -> str:
        for line in self.told().splitlines(keepends=True):
            if before in line and line.endswith("\n"):
                return line.split(before, 1)[1].split()[0]
        return ""


class Http:
    """One kept connection to the HTTP door, as lean as the standard library allows."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address.removeprefix("http://"), timeout=60)

    def post(self, path: str, body: Any) -> Any:
        """Post *body* and return the answer; BenchmarkFailed for a refusal."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status >= 300:
            raise BenchmarkFailed(f"HTTP answered {response.status}: {answer}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


Enqueue = Callable[[Sequence[int]], None]


def enqueuing(way: str, address: str, *, batch: bool) -> tuple[Enqueue, Callable[[], None]]:
    """Return what enqueues the tasks of these numbers one way, and what closes it again."""
    if way != "HTTP":
        handlers.app.move(address)

        def many(numbers: Sequence[int]) -> None:
            handlers.nothing.enqueue_many([{"n": n} for n in numbers])

        def one(numbers: Sequence[int]) -> None:
            for n in numbers:
                handlers.nothing.enqueue(n=n)

        return (many if batch else one), handlers.app.close
    http = Http(address)

    def post_many(numbers: Sequence[int]) -> None:
        answer = http.post("/tasks:batch", {"tasks": [_body(n) for n in numbers]})
        if any("problem" in result for result in answer["results"]):
            raise BenchmarkFailed(f"HTTP refused a task: {answer}")

    def post_one(numbers: Sequence[int]) -> None:
        for n in numbers:
            http.post("/tasks", _body(n))

    return (post_many if batch else post_one), http.close


def _body(n: int) -> dict[str, Any]:
    return {"type": handlers.nothing.name, "queue": handlers.QUEUE, "payload": {"n": n}}

"""Processes of a run: they get ready, begin together, and answer with what they counted.

    parent: start(...)  ──► python -m wherry.bench.children module:function, and JSON on its stdin
            begin()     ──► "go", once all have said "ready"
            results()   ◄── one line of JSON

`function(ready, **arguments)` does its preparing, calls `ready()`, which returns at "go", and
returns what is to be told.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any, Self

from wherry.bench.errors import BenchmarkFailed

Ready = Callable[[], None]


class Child:
    """One process that takes part."""

    def __init__(self, function: str, **arguments: Any) -> None:
        # Without the current folder, whose modules may have the names of ours.
        command = [sys.executable, "-P", "-m", "wherry.bench.children", function]
        # What it says is of interest only if it fails.
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `kill`
        profiler = os.environ.get("WHERRY_BENCH_UNDER", "").split()
        self._process = subprocess.Popen(
            [*profiler, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            # Ctrl-C is the parent's to handle.
            start_new_session=True,
        )
        # Not among the arguments, which every user of the machine can read: a DSN has a password.
        self._write({"path": sys.path, **arguments})

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Return when it has said that it is ready."""
        if self._line() != "ready":
            raise BenchmarkFailed(f"a process of the benchmark did not get ready:\n{self._told()}")

    def go(self) -> None:
        """Let it begin."""
        self._write("go")

    def stop(self) -> None:
        """Ask it to stop, as an operator would."""
        self._process.send_signal(signal.SIGTERM)

    def result(self) -> dict[str, Any]:
        """Wait for its answer and its end."""
        line = self._line()
        if self._process.wait() != 0 or not line:
            raise BenchmarkFailed(
                f"a process of the benchmark ended with {self._process.returncode}:\n{self._told()}"
            )
        return dict(json.loads(line))

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                stream.close()

    def _write(self, value: Any) -> None:
        assert self._process.stdin is not None
        # A child that has died already is met, with what it said, where it is waited for.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()

    def _told(self) -> str:
        self._said.seek(0)
        return self._said.read()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Children:
    """All processes of a run; leaving the block ends those that are left."""

    def __init__(self) -> None:
        self.all: list[Child] = []

    def start(self, function: str, **arguments: Any) -> Child:
        """Start one more."""
        child = Child(function, **arguments)
        self.all.append(child)
        return child

    def begin(self) -> None:
        """Wait until all are ready, then let them begin."""
        for child in self.all:
            child.wait_until_ready()
        for child in self.all:
            child.go()

    def results(self) -> list[dict[str, Any]]:
        """Wait for all answers."""
        return [child.result() for child in self.all]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.all:
            child.kill()


def memory_bytes() -> int:
    """The most memory this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(arguments: Sequence[str]) -> None:
    """Be a child: run the function that is named, and answer on stdout."""
    module, function = arguments[0].split(":")
    given = json.loads(sys.stdin.readline())
    sys.path[:] = given.pop("path")
    answers = sys.stdout
    sys.stdout = sys.stderr
    began = 0.0

    def ready() -> None:
        nonlocal began
        print("ready", file=answers, flush=True)
        if not sys.stdin.readline():
            # The parent is gone.
            sys.exit(1)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        began = process_time()

    told: dict[str, Any] = getattr(importlib.import_module(module), function)(ready, **given)
    told = {"cpu": process_time() - began, "memory": memory_bytes(), **told}
    print(json.dumps(told), file=answers, flush=True)


def _end_with_parent() -> None:
    """Die with a parent that was killed: a worker alone would wait for its database for ever."""
    # Not through sys.stdin, whose lock would be held when the interpreter shuts down.
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

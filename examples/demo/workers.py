"""The demo's worker processes: started, killed, and all gone at the end, whatever happens.

Each runs in a session of its own, so that a Ctrl-C at the terminal reaches the demo alone, which
then stops its workers in good order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 10


class WorkerEnded(Exception):
    """A worker process ended that nobody had told to; the text holds what it said last."""


@dataclass(frozen=True, slots=True)
class Process:
    """A worker process and the file that it writes its log to."""

    popen: subprocess.Popen[bytes]
    log: IO[bytes]


class Workers:
    """The worker processes that run; leaving the `with` block stops them."""

    def __init__(self) -> None:
        self._running: dict[str, Process] = {}
        self._started = 0

    def start(self) -> tuple[str, int]:
        """Start another worker process; return its name and its process id."""
        self._started += 1
        name = f"worker-{self._started}"
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the worker is gone
        popen = subprocess.Popen(
            # -P: a folder named `examples` where the caller stands is not ours.
            [sys.executable, "-P", "-m", "examples.demo.worker", name],
            env={**os.environ, "PYTHONPATH": path},
            # Held open and never written to: its end tells the worker that we are gone.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._running[name] = Process(popen, log)
        return name, popen.pid

    def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL, which it cannot notice; return when it is gone."""
        process = self._running.pop(name)
        process.popen.kill()
        _wait(process)

    def check(self) -> None:
        """Raise WorkerEnded if one has ended by itself."""
        for name, process in self._running.items():
            code = process.popen.poll()
            if code is not None:
                process.log.seek(0)
                said = process.log.read().decode(errors="replace").splitlines()[-20:]
                raise WorkerEnded("\n".join([f"{name} ended with code {code}; its log:", *said]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            process.popen.terminate()
        for process in self._running.values():
            _wait(process)


def _wait(process: Process) -> None:
    """Wait until a process that was told to end has done so; make it, if it takes too long."""
    try:
        process.popen.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.popen.kill()
        process.popen.wait()
    finally:
        if process.popen.stdin is not None:
            process.popen.stdin.close()
        process.log.close()

"""Starts a keeper process and waits for its one answer.

The keeper must not depend on how this process happened to be started: it gets a session of its
own, the root folder, hardly any environment (as root it would hand our secrets to the server's
user), and the path to this very `wherry`, wherever it was imported from.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from wherry.embedded.find import Binaries
from wherry.embedded.home import Home
from wherry.errors import EmbeddedStartFailed

PASSED_ON = (
    "DYLD_LIBRARY_PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME",
    "TMPDIR",
)
# The process we start forks the keeper and ends, as soon as Python is up.
FORK_SECONDS = 30.0
TAIL_BYTES = 4000
TAIL_LINES = 20


class Call:
    """A keeper that was started, until it answered or nobody listens any more."""

    def __init__(self, home: Home, binaries: Binaries, settings: Mapping[str, str]) -> None:
        if not sys.executable:
            raise EmbeddedStartFailed(
                "this Python does not know its own program (sys.executable is empty)"
            )
        self.home = home
        log = os.open(
            home.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            self.log_began_bytes = os.fstat(log).st_size
            self.reading, writing = os.pipe()
            try:
                self.process = subprocess.Popen(
                    [
                        # -P: a file in the current folder must not pass for a module.
                        *(sys.executable, "-P", "-m", "wherry.embedded.keeper"),
                        *(home.path, binaries.bin, binaries.version, json.dumps(dict(settings))),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=writing,
                    stderr=log,
                    cwd="/",
                    env=_environment(),
                    start_new_session=True,
                )
            except OSError as refused:
                os.close(self.reading)
                raise EmbeddedStartFailed(f"cannot run {sys.executable}: {refused}") from refused
            finally:
                os.close(writing)
        finally:
            os.close(log)

    def wait_until_ready(self, *, within_seconds: float) -> None:
        """Return when the server takes connections; raises EmbeddedStartFailed if it will not."""
        said = self._read(within_seconds)
        if said is None:
            raise self._failed(
                f"not ready after {within_seconds:.0f} s; it goes on trying as long as somebody"
                " waits, and may be recovering from a crash"
            )
        answer = json.loads(said) if said else {"failed": "its keeper process ended early"}
        if "failed" in answer:
            raise self._failed(answer["failed"])

    def _read(self, within_seconds: float) -> bytes | None:
        """Return all that the keeper says until it closes its end, None if it is still open."""
        ends_at = time.monotonic() + within_seconds
        poller = select.poll()
        poller.register(self.reading, select.POLLIN)
        said = b""
        while (left := ends_at - time.monotonic()) > 0:
            if poller.poll(left * 1000):
                part = os.read(self.reading, 64 * 1024)
                if not part:
                    return said
                said += part
        return None

    def _failed(self, reason: str) -> EmbeddedStartFailed:
        return EmbeddedStartFailed(reason, log_path=str(self.home.log), log_tail=self._log_tail())

    def _log_tail(self) -> str:
        """Return the last lines that were logged since this start began."""
        try:
            with self.home.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                # The log may have been emptied meanwhile, because it was long.
                began = self.log_began_bytes if self.log_began_bytes <= size else 0
                log.seek(max(began, size - TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-TAIL_LINES:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.reading)
        try:
            self.process.wait(timeout=FORK_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    source = Path(__file__).resolve().parents[2]
    theirs = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # Where packages are installed Python looks anyway, and last: put first, a package there that
    # has the name of a standard module would hide it.
    if source.name not in ("site-packages", "dist-packages") or str(source) in theirs:
        passed["PYTHONPATH"] = str(source)
    # The time zone and the language of the server are the same wherever it was started.
    return {**passed, "LC_ALL": "C", "TZ": "UTC"}

"""One running PostgreSQL server: how to start it, find it again, watch it and stop it.

The process id in `postmaster.pid` is a rumour. The server may be long dead and its number given
to a stranger, which PostgreSQL would take for a rival and refuse to start, and which we must
never signal. A process is the postmaster only if its own command line names our data folder; and
a number that proved wrong is overwritten by an impossible one. The file itself stays: it also
names the shared memory by which PostgreSQL notices children of a dead server that still run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from wherry.embedded.identity import Identity, start
from wherry.embedded.locks import is_held, polls
from wherry.embedded.sockets import PORT, listens, socket_in
from wherry.errors import EmbeddedStartFailed

# Above the largest number that any kernel gives, and still what PostgreSQL can read.
IMPOSSIBLE_PID = b"2147483647"
SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "track_io_timing": "on",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    "cluster_name": "wherry",
}
# How long each way of asking a server to end may take before the next, harder one.
PATIENCE_SECONDS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 15.0), (signal.SIGKILL, 5.0))
# Children of a server that died notice it within moments; a server on its way down may have
# much to write first.
DRAIN_SECONDS = 20.0
SHUTDOWN_SECONDS = 100.0


class PidFile(NamedTuple):
    """What `postmaster.pid` says."""

    pid: int
    socket_folder: str
    port: str
    phase: str

    @classmethod
    def read(cls, data: Path) -> PidFile | None:
        """Return what the file says so far, or None where there is nothing sensible."""
        try:
            lines = (data / "postmaster.pid").read_text(errors="surrogateescape").split("\n")
            pid = int(lines[0])
        except (OSError, ValueError):
            return None
        lines += [""] * 8
        return cls(pid, socket_folder=lines[4], port=lines[3], phase=lines[7].strip())


class Postmaster:
    """A server that we started, or one that a keeper before us started and left behind."""

    def __init__(
        self, pid: int, data: Path, lock: Path, child: subprocess.Popen[bytes] | None
    ) -> None:
        self.pid = pid
        self.data = data
        self.lock = lock
        self.child = child

    def alive(self) -> bool:
        """Tell whether the postmaster itself runs; its children may outlive it by moments."""
        if self.child is not None:
            return self.child.poll() is None
        return is_postmaster(self.pid, self.data)

    def ready(self) -> bool:
        """Tell whether it takes connections."""
        found = PidFile.read(self.data)
        return found is not None and found.pid == self.pid and found.phase == "ready"

    def stop(self, *, first: signal.Signals) -> None:
        """End it and wait for all its processes, asking harder from *first* on."""
        for harder, seconds in PATIENCE_SECONDS:
            # By chance the numbers grow with the harshness.
            if harder < first:
                continue
            self._send(harder)
            for _ in polls(within_seconds=seconds):
                if not self.alive() and not is_held(self.lock):
                    return

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.child is not None:
                self.child.send_signal(number)
            elif sys.platform == "linux":
                # The descriptor pins the process: between look and signal it cannot change.
                pinned = os.pidfd_open(self.pid)
                try:
                    if is_postmaster(self.pid, self.data):
                        signal.pidfd_send_signal(pinned, number)
                finally:
                    os.close(pinned)
            elif is_postmaster(self.pid, self.data):
                os.kill(self.pid, number)


def launch(
    programs: Path,
    data: Path,
    sockets: Path,
    identity: Identity | None,
    *,
    settings: Mapping[str, str],
    lock: Path,
    held: int,
    log: int,
) -> Postmaster:
    """Start a server on *data*, which inherits *held*, the lock file *lock*; it is not ready yet.

    Nobody else may be starting one there.
    """
    _refuse_stranger(data)
    _disown(data / "postmaster.pid")
    _disown(socket_in(sockets).with_name(socket_in(sockets).name + ".lock"))
    given = {
        **SETTINGS,
        **settings,
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
    }
    command: list[str | Path] = [programs / "postgres", "-D", data]
    for name, value in given.items():
        command += ["-c", f"{name}={value}"]
    child = start(command, identity, output=log, keep_open=[held])
    return Postmaster(child.pid, data, lock, child)


def find_orphan(folders: list[Path], lock: Path) -> Postmaster | None:
    """Return the server that a dead keeper left behind, or None if there is none any more.

    A server that is on its way down is waited for, and so are children that outlived theirs.
    """
    for left in polls(within_seconds=SHUTDOWN_SECONDS):
        if not is_held(lock):
            return None
        stopping = False
        for data in folders:
            found = PidFile.read(data)
            if found is not None and is_postmaster(found.pid, data):
                if found.phase != "stopping":
                    return Postmaster(found.pid, data, lock, None)
                stopping = True
        if not stopping and left < SHUTDOWN_SECONDS - DRAIN_SECONDS:
            return None
    return None


def is_postmaster(pid: int, data: Path) -> bool:
    """Tell whether this process is a PostgreSQL server on *data*, by its command line."""
    if pid <= 0:
        return False
    words = _command_line(pid)
    return bool(words) and Path(words[0]).name == "postgres" and str(data) in words


def _command_line(pid: int) -> list[str]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        return [os.fsdecode(word) for word in raw.split(b"\0")]
    except OSError:
        if sys.platform == "linux":
            return []
    asked = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    # Spaces in paths are lost here; what comes between the flags is not.
    program, _, rest = os.fsdecode(asked.stdout).strip().partition(" -D ")
    return [program, "-D", rest.partition(" -c ")[0]]


def _refuse_stranger(data: Path) -> None:
    """Raise if a server that is none of ours runs on *data*; two would destroy it."""
    found = PidFile.read(data)
    if found is None:
        return
    named = Path(found.socket_folder) / f".s.PGSQL.{found.port}"
    if is_postmaster(found.pid, data) or (found.socket_folder and listens(named)):
        raise EmbeddedStartFailed(
            f"another PostgreSQL (process {found.pid}), which Wherry did not start, runs on"
            f" {data}: stop it with `pg_ctl -D {data} stop`"
        )


def _disown(path: Path) -> None:
    """Put an impossible process id on the first line of a lock file that nobody alive wrote."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            _, _, rest = os.read(fd, 64 * 1024).partition(b"\n")
            os.ftruncate(fd, os.pwrite(fd, IMPOSSIBLE_PID + b"\n" + rest, 0))
    finally:
        os.close(fd)

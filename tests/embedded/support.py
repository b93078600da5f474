"""What the tests of the embedded server share: processes that use one, and facts to wait for.

A `User` is a real process with a hold of its own, because what is tested is what remains when
processes die. The binaries come from `find_all`, so the tests run on what this machine has.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.lateness import late_machine
from wherry.embedded.find import find_all
from wherry.embedded.locks import is_held

SOURCE = Path(__file__).resolve().parents[2] / "src"
# Durability costs most of a first start, and most tests are not about it.
FAST = {"fsync": "off"}
PROGRAM = """
import json, sys
from pathlib import Path
from wherry.embedded import acquire
held = acquire(Path(sys.argv[1]), settings=json.loads(sys.argv[2]))
print(held.dsn, flush=True)
sys.stdin.readline()
held.release()
"""
OFFERED = find_all()
assert OFFERED, "no PostgreSQL 14 to 18 on this machine: these tests have nothing to run on"


class Person(NamedTuple):
    """An unprivileged user of the machine, with a Python that it can run."""

    uid: int
    gid: int
    python: str


class User:
    """A process that acquires a home, and lets go of it when told to."""

    def __init__(
        self,
        home: Path,
        *,
        program: str = PROGRAM,
        settings: Mapping[str, str] = FAST,
        person: Person | None = None,
        source: Path = SOURCE,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        python = sys.executable if person is None else person.python
        self.process = subprocess.Popen(
            [python, "-c", program, str(home), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={**os.environ, **(variables or {}), "PYTHONPATH": str(source)},
            start_new_session=True,
            text=True,
            user=None if person is None else person.uid,
            group=None if person is None else person.gid,
            extra_groups=None if person is None else [],
        )

    def says(self) -> str:
        """Return the next line it prints: its DSN at first, nothing if it failed."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def let_go(self) -> None:
        self.process.communicate("go\n", timeout=30)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=30)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=30)


def wait_until(fact: Callable[[], bool], what: str, *, within_seconds: float = 10.0) -> None:
    """Wait until it is so: so long, and what the machine is late at each step on the way."""
    ends_at = time.monotonic() + within_seconds
    with late_machine() as machine:
        while not fact():
            late = 20 * machine.longest
            assert time.monotonic() < ends_at + late, f"not within {within_seconds} s: {what}"
            time.sleep(0.01)


def is_stopped(home: Path) -> bool:
    """Neither a keeper nor any process of a server is left."""
    return not is_held(home / "keeper.lock") and not is_held(home / "server.lock")


def wait_until_stopped(home: Path, *, within_seconds: float = 5.0) -> None:
    wait_until(
        lambda: is_stopped(home), f"the server of {home} stops", within_seconds=within_seconds
    )


def ask(dsn: str, question: str) -> str:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        row = connection.execute(question.encode()).fetchone()
        assert row is not None
        return str(row[0])


def tell(dsn: str, command: str) -> None:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        connection.execute(command.encode())


def answers(dsn: str) -> bool:
    try:
        return ask(dsn, "select 1") == "1"
    except psycopg.OperationalError:
        return False


def birth_of(dsn: str) -> str:
    """Tell one run of a server from another."""
    return ask(dsn, "select pg_postmaster_start_time()")


def data_of(home: Path) -> Path:
    [data] = (path for path in home.iterdir() if path.name.isdigit())
    return data


def postmaster_of(home: Path) -> int:
    return int((data_of(home) / "postmaster.pid").read_text().split("\n")[0])


def keeper_of(home: Path) -> int:
    """Return the process id of the keeper, which is the parent of a server that it started."""
    return int(about(postmaster_of(home), "ppid"))


def about(process: int, column: str) -> str:
    asked = ["ps", "-o", f"{column}=", "-p", str(process)]
    return subprocess.run(
        asked, capture_output=True, text=True, timeout=30, check=True
    ).stdout.strip()


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def in_child(act: Callable[[], bool]) -> bool:
    """Return what *act* returns in a forked child of this process."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if act() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Changes user and becomes the program that is named after it.
_AS_OWNER = """
import os, sys
import warnings  # execvp wants it, and the owner may not be let in where our Python is
user, group = map(int, sys.argv[1:3])
os.setgroups([])
os.setgid(group)
os.setuid(user)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def start_as_owner(command: Sequence[str | Path], data: Path) -> subprocess.Popen[bytes]:
    """Start a program as the user that *data* belongs to."""
    if os.geteuid() == 0:
        # Not by `user=` of subprocess, which then has to fork all of this process: what gRPC does
        # at a fork crashes the child now and then, while a call is under way.
        owner = data.stat()
        become = [sys.executable, "-ISc", _AS_OWNER, str(owner.st_uid), str(owner.st_gid)]
        command = [*become, *command]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )


def find_person() -> Person | None:
    """Return `nobody` with a Python that it can run, if we may become it and there is one."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    names = ("python3", *(f"python3.{minor}" for minor in range(11, 20)))
    found = (shutil.which(name, path="/usr/bin:/usr/local/bin:/opt/bin") for name in names)
    for python in (sys.executable, *found):
        if python is None:
            continue
        try:
            tried = subprocess.run(
                [python, "-c", "import sys; assert sys.version_info >= (3, 11)"],
                stderr=subprocess.DEVNULL,
                cwd="/",
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                timeout=30,
                check=False,
            )
        except PermissionError:
            continue
        if tried.returncode == 0:
            return Person(nobody.pw_uid, nobody.pw_gid, python)
    return None


PERSON = find_person()

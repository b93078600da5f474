"""A hold and the children of the process that has it: forked, executed, turned into a daemon."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.embedded.support import (
    FAST,
    User,
    answers,
    birth_of,
    in_child,
    is_stopped,
    wait_until,
    wait_until_stopped,
)
from wherry.embedded import acquire

StartUser = Callable[..., User]

FORKED = """
import json, os, sys
from pathlib import Path
from wherry.embedded import acquire
held = acquire(Path(sys.argv[1]), settings=json.loads(sys.argv[2]))
if os.fork() == 0:
    print(held.dsn, flush=True)
    sys.stdin.readline()
else:
    os._exit(0)
"""
EXECUTED = """
import json, subprocess, sys
from pathlib import Path
from wherry.embedded import acquire
held = acquire(Path(sys.argv[1]), settings=json.loads(sys.argv[2]))
print(held.dsn, flush=True)
child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.readline()
"""
DAEMON = """
import json, os, sys
from pathlib import Path
from wherry.embedded import acquire
held = acquire(Path(sys.argv[1]), settings=json.loads(sys.argv[2]))
os.closerange(3, 256)
other = os.open("/dev/null", os.O_RDONLY)
while other < 20:
    other = os.open("/dev/null", os.O_RDONLY)
again = acquire(Path(sys.argv[1]))
held.release()
os.fstat(other)
print(again.dsn, flush=True)
sys.stdin.readline()
"""


def test_a_child_that_lets_go_takes_nothing_from_its_parent(home: Path) -> None:
    with acquire(home, settings=FAST) as held:
        born = birth_of(held.dsn)

        def release_twice() -> bool:
            held.release()
            held.release()
            return True

        assert in_child(release_twice)
        # A keeper that could have the lock alone would have stopped the server by now.
        with acquire(home) as again:
            wait_until(lambda: birth_of(again.dsn) == born, "the same server")
        assert in_child(lambda: not _could_be_had_alone(home))
        assert birth_of(held.dsn) == born
    wait_until_stopped(home)


def test_a_child_may_acquire_and_release_on_its_own(home: Path) -> None:
    with acquire(home, settings=FAST) as held:
        born = birth_of(held.dsn)

        def use() -> bool:
            with acquire(home) as own:
                return own.dsn == held.dsn

        assert in_child(use)
        assert birth_of(held.dsn) == born


def test_a_forked_child_keeps_the_server_when_its_parent_has_died(
    home: Path, start_user: StartUser
) -> None:
    family = start_user(program=FORKED)
    dsn = family.says()
    family.process.wait(timeout=30)
    born = birth_of(dsn)

    with acquire(home) as joined:
        assert joined.dsn == dsn

    assert birth_of(dsn) == born
    family.process.communicate("go\n", timeout=30)
    wait_until_stopped(home)


def test_an_executed_child_inherits_no_hold(home: Path, start_user: StartUser) -> None:
    user = start_user(program=EXECUTED)
    dsn, child = user.says(), int(user.says())
    assert answers(dsn)

    user.kill()

    wait_until_stopped(home)
    os.kill(child, 9)


def test_a_daemon_that_closed_all_files_gets_a_new_hold_and_loses_no_other_file(
    home: Path, start_user: StartUser
) -> None:
    daemon = start_user(program=DAEMON)

    dsn = daemon.says()

    assert answers(dsn)
    assert not is_stopped(home)
    daemon.let_go()
    assert daemon.process.returncode == 0
    wait_until_stopped(home)


def _could_be_had_alone(home: Path) -> bool:
    from wherry.embedded.locks import open_lock, try_exclusive

    return try_exclusive(open_lock(home / "users.lock"))

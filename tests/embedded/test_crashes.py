"""What remains when something was killed, and that the next acquire deals with it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.embedded.support import (
    FAST,
    User,
    answers,
    ask,
    birth_of,
    data_of,
    keeper_of,
    postmaster_of,
    runs,
    start_as_owner,
    tell,
    wait_until,
    wait_until_stopped,
)
from wherry.embedded import acquire, running
from wherry.embedded.locks import is_held
from wherry.errors import EmbeddedStartFailed

StartUser = Callable[..., User]


def test_a_server_that_lost_its_keeper_is_taken_over_by_the_next(home: Path) -> None:
    with acquire(home, settings=FAST) as held:
        born = birth_of(held.dsn)
        _kill_keeper(home)
        assert running(home) == held.dsn

        with acquire(home) as joined:
            assert joined.dsn == held.dsn
            assert birth_of(joined.dsn) == born
            assert is_held(home / "keeper.lock")
    wait_until_stopped(home)


def test_the_last_user_of_a_server_without_keeper_leaves_none_behind(home: Path) -> None:
    held = acquire(home, settings=FAST)
    _kill_keeper(home)
    assert answers(held.dsn)

    held.release()

    wait_until_stopped(home)


def test_a_server_without_keeper_and_users_is_found_and_stopped_in_the_end(
    home: Path, start_user: StartUser
) -> None:
    user = start_user()
    dsn = user.says()
    born = birth_of(dsn)
    _kill_keeper(home)
    user.kill()
    assert answers(dsn)

    with acquire(home) as held:
        assert birth_of(held.dsn) == born

    wait_until_stopped(home)


def test_after_keeper_and_server_were_killed_the_next_acquire_has_what_was_committed(
    home: Path, start_user: StartUser
) -> None:
    user = start_user(settings={})
    dsn = user.says()
    tell(dsn, "create table after_crash as select 42 as answer")
    keeper, server = keeper_of(home), postmaster_of(home)
    os.kill(keeper, signal.SIGKILL)
    os.kill(server, signal.SIGKILL)
    user.kill()

    with acquire(home) as held:
        assert ask(held.dsn, "select answer from after_crash") == "42"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGINT])
def test_a_server_that_dies_in_use_comes_back_where_it_was(
    number: signal.Signals, home: Path
) -> None:
    with acquire(home, settings=FAST) as held:
        before = postmaster_of(home)

        os.kill(before, number)

        wait_until(
            lambda: running(home) == held.dsn and postmaster_of(home) != before, "a new server"
        )
        assert answers(held.dsn)


def test_a_socket_that_a_dying_server_still_has_open_is_no_running_server(
    home: Path, start_user: StartUser
) -> None:
    user = start_user()
    user.says()
    record = (home / "server.json").read_text()
    user.kill()
    wait_until_stopped(home)
    (home / "server.json").write_text(record)
    path = home / "run" / ".s.PGSQL.5432"

    with socket.socket(socket.AF_UNIX) as dying:
        dying.bind(str(path))
        dying.listen()
        with ThreadPoolExecutor() as beside:
            # What the kernel does for a process that is being taken down: accept, then close.
            accepted = beside.submit(lambda: dying.accept()[0].close())
            assert running(home) is None
            accepted.result(timeout=10)

    path.unlink()


def test_a_starter_killed_in_mid_start_leaves_nothing_half_made(
    new_home: Path, start_user: StartUser
) -> None:
    starter = start_user(new_home)
    wait_until(lambda: any(new_home.glob("making-*")), "initdb at work")
    starter.kill()

    with acquire(new_home, settings=FAST) as held:
        assert answers(held.dsn)

    assert not list(new_home.glob("making-*"))


def test_a_keeper_killed_in_mid_start_is_replaced(new_home: Path, start_user: StartUser) -> None:
    starter = start_user(new_home)
    wait_until(lambda: any(new_home.glob("making-*/PG_VERSION")), "initdb at work")
    for keeper in _keepers(new_home):
        os.kill(keeper, signal.SIGKILL)
    assert starter.says() == ""

    with acquire(new_home, settings=FAST) as held:
        assert answers(held.dsn)

    assert not list(new_home.glob("making-*"))


def test_process_ids_that_belong_to_a_stranger_now_are_neither_believed_nor_signalled(
    home: Path,
) -> None:
    with acquire(home, settings=FAST) as held:
        left = {path: path.read_text() for path in _lock_files_of(home)}
    wait_until_stopped(home)
    stranger = start_as_owner(["sleep", "60"], held.data)
    owner = held.data.stat()
    for path, text in left.items():
        path.write_text(f"{stranger.pid}\n{text.partition(chr(10))[2]}")
        os.chown(path, owner.st_uid, owner.st_gid)

    with acquire(home, settings=FAST) as held:
        assert answers(held.dsn)
    wait_until_stopped(home)

    assert stranger.poll() is None
    stranger.kill()
    stranger.wait(timeout=10)


def test_a_server_that_somebody_else_runs_on_our_data_is_left_alone(
    home: Path, place: Path
) -> None:
    with acquire(home, settings=FAST) as held:
        pass
    wait_until_stopped(home)
    theirs = place / "theirs"
    theirs.mkdir()
    os.chown(theirs, held.data.stat().st_uid, held.data.stat().st_gid)
    foreign = start_as_owner(
        [
            held.bin / "postgres",
            *("-D", held.data),
            *("-c", "listen_addresses=", "-c", f"unix_socket_directories={theirs}"),
        ],
        held.data,
    )
    dsn = f"host={theirs} user=wherry dbname=wherry"
    wait_until(lambda: answers(dsn), "the foreign server")

    with pytest.raises(EmbeddedStartFailed, match="which Wherry did not start"):
        acquire(home)

    assert answers(dsn)
    assert running(home) is None
    foreign.send_signal(signal.SIGINT)
    foreign.wait(timeout=30)


def test_a_keeper_asked_twice_to_end_stops_the_server_though_it_is_used(home: Path) -> None:
    held = acquire(home, settings=FAST)
    keeper = keeper_of(home)
    os.kill(keeper, signal.SIGTERM)
    assert answers(held.dsn)

    wait_until(lambda: not runs(keeper) or _ask_again(keeper), "the keeper ends")

    wait_until_stopped(home)
    assert "received fast shutdown request" in (home / "postgres.log").read_text()
    with acquire(home) as again:
        assert again.dsn == held.dsn
        assert answers(held.dsn)
    held.release()


def _ask_again(keeper: int) -> bool:
    os.kill(keeper, signal.SIGTERM)
    return False


def _kill_keeper(home: Path) -> None:
    os.kill(keeper_of(home), signal.SIGKILL)
    wait_until(lambda: not is_held(home / "keeper.lock"), "the keeper is dead")


def _keepers(home: Path) -> list[int]:
    """Return the keepers of a home while there is no server yet to be the parent of."""
    import subprocess

    listed = subprocess.run(
        ["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, timeout=30, check=True
    )
    return [
        int(line.split()[0])
        for line in listed.stdout.splitlines()
        if "wherry.embedded.keeper" in line and str(home) in line
    ]


def _lock_files_of(home: Path) -> list[Path]:
    return [data_of(home) / "postmaster.pid", home / "run" / ".s.PGSQL.5432.lock"]

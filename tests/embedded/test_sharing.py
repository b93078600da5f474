"""One server for all who use it, from the first one's start to the last one's end."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.embedded.support import (
    FAST,
    OFFERED,
    User,
    answers,
    ask,
    birth_of,
    tell,
    wait_until_stopped,
)
from wherry.embedded import Binaries, acquire, running
from wherry.errors import EmbeddedError, EmbeddedStartFailed

StartUser = Callable[..., User]
MoveHome = Callable[[str], Path]


@pytest.mark.parametrize("found", OFFERED, ids=lambda found: found.version)
def test_a_first_acquire_gives_a_durable_server_that_only_its_socket_reaches(
    found: Binaries, new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_PG_BIN", str(found.bin))

    with acquire(new_home) as held:
        assert ask(held.dsn, "show server_version").startswith(found.version.split()[0])
        for setting, value in {
            "server_encoding": "UTF8",
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            "data_checksums": "on",
            "listen_addresses": "",
            "max_connections": "200",
        }.items():
            assert ask(held.dsn, f"show {setting}") == value, setting
        assert ask(held.dsn, "select current_user || current_database()") == "wherrywherry"
        assert ask(held.dsn, "select rolsuper from pg_roles where rolname = 'wherry'") == "True"
        assert ask(held.dsn, "select lower('Ü') || upper('ß' || 'ü')") in ("üßÜ", "Üßü")
        assert held.home == new_home
        assert held.version == found.version
        assert stat.S_IMODE((new_home / "run").stat().st_mode) == 0o700
        assert stat.S_IMODE(held.data.stat().st_mode) == 0o700


def test_what_was_committed_is_there_at_the_next_start(home: Path) -> None:
    with acquire(home) as held:
        tell(held.dsn, "create table kept as select 42 as answer")
        first = birth_of(held.dsn)
    wait_until_stopped(home)

    with acquire(home) as held:
        assert ask(held.dsn, "select answer from kept") == "42"
        assert birth_of(held.dsn) != first


def test_a_second_process_joins_the_server_and_outlives_the_first(
    home: Path, start_user: StartUser
) -> None:
    first, second = start_user(), start_user()
    dsn = first.says()
    assert second.says() == dsn
    born = birth_of(dsn)

    first.let_go()

    assert birth_of(dsn) == born
    second.let_go()
    wait_until_stopped(home)


def test_eight_first_starts_at_once_give_one_server(new_home: Path, start_user: StartUser) -> None:
    users = [start_user(new_home) for _ in range(8)]

    said = {user.says() for user in users}

    assert len(said) == 1
    [dsn] = said
    assert answers(dsn)
    assert (new_home / "postgres.log").read_text().count("ready to accept connections") == 1
    for user in users:
        user.kill()
    wait_until_stopped(new_home)


def test_the_server_stops_when_every_user_was_killed(home: Path, start_user: StartUser) -> None:
    users = [start_user() for _ in range(3)]
    dsn = {user.says() for user in users}.pop()
    for user in users[1:]:
        user.kill()
    assert answers(dsn)

    users[0].kill()

    wait_until_stopped(home, within_seconds=3)
    assert running(home) is None
    assert "database system is shut down" in (home / "postgres.log").read_text()


def test_a_terminal_interrupt_of_the_user_that_started_it_spares_the_others(
    home: Path, start_user: StartUser
) -> None:
    starter = start_user()
    dsn = starter.says()
    other = start_user()
    assert other.says() == dsn
    born = birth_of(dsn)

    os.killpg(starter.process.pid, signal.SIGINT)
    starter.process.communicate(timeout=30)

    assert birth_of(dsn) == born
    other.let_go()
    wait_until_stopped(home)


def test_holds_in_one_process_are_counted(home: Path) -> None:
    first = acquire(home, settings=FAST)
    second = acquire(home)
    born = birth_of(first.dsn)

    first.release()
    first.release()

    assert birth_of(second.dsn) == born
    assert second.dsn == first.dsn
    second.release()
    wait_until_stopped(home)


def test_who_comes_while_the_server_stops_gets_the_next_one(home: Path) -> None:
    for _ in range(4):
        # No pause: the keeper may not have noticed yet, or be in the middle of it.
        with acquire(home, settings=FAST) as held:
            assert answers(held.dsn)


def test_running_tells_where_it_is_without_holding_it(home: Path, start_user: StartUser) -> None:
    assert running(home) is None
    user = start_user()
    dsn = user.says()

    assert running(home) == dsn

    user.kill()
    wait_until_stopped(home, within_seconds=3)
    assert running(home) is None


def test_a_server_whose_sessions_are_all_taken_is_joined_all_the_same(home: Path) -> None:
    with acquire(home, settings={**FAST, "max_connections": 4}) as held, ExitStack() as taken:
        for _ in range(4):
            taken.enter_context(psycopg.connect(held.dsn))
        assert not answers(held.dsn)

        with acquire(home) as joined:
            assert joined.dsn == running(home) == held.dsn


def test_running_makes_nothing(place: Path) -> None:
    assert running(place / "none") is None
    assert not (place / "none").exists()


def test_settings_are_for_whoever_starts_it(home: Path) -> None:
    with acquire(home, settings={"fsync": False, "work_mem": "7MB"}) as held:
        assert ask(held.dsn, "show work_mem") == "7MB"
        assert ask(held.dsn, "show fsync") == "off"


@pytest.mark.parametrize("name", ["port", "listen_addresses", "a=b -c fsync", ""])
def test_a_setting_that_is_not_the_users_to_give_is_refused(name: str, new_home: Path) -> None:
    with pytest.raises(EmbeddedError, match="cannot be set for the embedded server"):
        acquire(new_home, settings={name: "1"})
    assert not new_home.exists()


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    with pytest.raises(EmbeddedStartFailed) as refused:
        acquire(home, settings={**FAST, "shared_buffers": "plenty"})

    assert "ended with code 1" in str(refused.value)
    assert 'invalid value for parameter "shared_buffers": "plenty"' in refused.value.log_tail
    assert refused.value.log_path == str(home / "postgres.log")
    with acquire(home, settings=FAST) as held:
        assert answers(held.dsn)


def test_a_long_log_begins_anew_and_keeps_one_older_part(home: Path) -> None:
    with acquire(home, settings=FAST):
        pass
    wait_until_stopped(home)
    with (home / "postgres.log").open("ab") as log:
        log.write(b"x" * 9_000_000)

    with acquire(home, settings=FAST) as held:
        assert answers(held.dsn)

    assert (home / "postgres.log.1").stat().st_size > 9_000_000
    assert (home / "postgres.log").stat().st_size < 100_000


def test_a_home_that_is_gone_takes_its_server_with_it(
    home: Path, start_user: StartUser, move_home: MoveHome
) -> None:
    user = start_user()
    dsn = user.says()

    moved = move_home("moved")

    wait_until_stopped(moved)
    assert not answers(dsn)

"""Who may start a server and who may use it: root, a normal user, and everybody else.

As root PostgreSQL's programs run as somebody else. Which of these tests are there depends on who
runs them and on what that user can run; the header of the run says it.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.embedded.support import (
    FAST,
    OFFERED,
    PERSON,
    SOURCE,
    User,
    about,
    answers,
    in_child,
    keeper_of,
    postmaster_of,
    wait_until_stopped,
)
from wherry.embedded import acquire, find_binaries
from wherry.embedded.home import Home
from wherry.embedded.identity import Identity, can_run
from wherry.embedded.mirror import mirror
from wherry.errors import EmbeddedStartFailed

StartUser = Callable[..., User]
STRANGER = 54321

if os.geteuid() != 0:

    def test_the_server_is_run_by_the_user_who_started_it(home: Path) -> None:
        with acquire(home, settings=FAST):
            assert int(about(postmaster_of(home), "uid")) == os.geteuid()


if os.geteuid() == 0:

    def test_root_runs_the_server_as_somebody_else(home: Path) -> None:
        with acquire(home, settings=FAST) as held:
            assert answers(held.dsn)
            assert int(about(postmaster_of(home), "uid")) == held.data.stat().st_uid != 0

    def test_of_the_others_only_root_gets_in(home: Path) -> None:
        with acquire(home, settings=FAST):
            path = str(home / "run" / ".s.PGSQL.5432")

            def can_connect() -> bool:
                with socket.socket(socket.AF_UNIX) as probe:
                    return probe.connect_ex(path) == 0

            def as_stranger() -> bool:
                os.setgroups([])
                os.setgid(STRANGER)
                os.setuid(STRANGER)
                return not can_connect() and not os.access(home / "users.lock", os.R_OK)

            assert in_child(can_connect)
            assert in_child(as_stranger)

    def test_a_home_that_the_servers_user_cannot_reach_is_refused_by_name(place: Path) -> None:
        closed = place / "closed"
        closed.mkdir(mode=0o700)

        with pytest.raises(EmbeddedStartFailed, match=f"who cannot enter {closed}:"):
            acquire(closed / "home")

    def test_a_closed_home_is_opened_as_far_as_the_server_needs_it(home: Path) -> None:
        home.chmod(0o700)

        with acquire(home, settings=FAST) as held:
            assert answers(held.dsn)

        assert home.stat().st_mode & 0o777 == 0o711

    def test_a_closed_folder_becomes_a_home_only_if_it_is_empty(place: Path) -> None:
        empty, private = place / "empty", place / "private"
        for folder in (empty, private):
            folder.mkdir(mode=0o700)
        (private / "letter").touch()

        for folder in (empty, private):
            Home(folder).prepare()

        assert empty.stat().st_mode & 0o777 == 0o711
        assert private.stat().st_mode & 0o777 == 0o700


# Of Debian's packages only the programs are in one place, so nobody can move them; but these are
# never below a closed folder either.
WHOLE_TREES = [found for found in OFFERED if (found.bin.parent / "share").is_dir()]

if os.geteuid() == 0 and WHOLE_TREES:

    def test_programs_below_a_closed_folder_are_mirrored(
        place: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed = place / "closed"
        programs = mirror(WHOLE_TREES[0].bin, closed)
        closed.chmod(0o700)
        monkeypatch.setenv("WHERRY_PG_BIN", str(programs))

        with acquire(home, settings=FAST) as held:
            assert answers(held.dsn)
            [mirrored] = (home / "binaries").iterdir()
        wait_until_stopped(home)
        with acquire(home, settings=FAST) as held:
            assert [mirrored] == list((home / "binaries").iterdir())

        assert closed.stat().st_mode & 0o777 == 0o700


if PERSON is not None:

    @pytest.fixture
    def own_place(place: Path) -> Path:
        """A closed folder of the normal user's own."""
        assert PERSON is not None
        folder = place / "own"
        folder.mkdir(mode=0o700)
        os.chown(folder, PERSON.uid, PERSON.gid)
        return folder

    def test_a_normal_user_has_a_server_of_their_own(
        place: Path, own_place: Path, start_user: StartUser
    ) -> None:
        assert PERSON is not None
        # The checkout and the wheel may be where only root can read.
        source = place / "source"
        shutil.copytree(SOURCE / "wherry", source / "wherry")
        programs = find_binaries().bin
        if not can_run(programs / "postgres", Identity(PERSON.uid, PERSON.gid, "nobody")):
            programs = mirror(programs, place / "programs")
        home = own_place / "home"

        user = start_user(
            home,
            person=PERSON,
            source=source,
            variables={"WHERRY_PG_BIN": str(programs), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        dsn = user.says()

        assert answers(dsn)
        assert int(about(postmaster_of(home), "uid")) == PERSON.uid
        assert int(about(keeper_of(home), "uid")) == PERSON.uid
        assert home.stat().st_mode & 0o777 == 0o700
        user.kill()
        wait_until_stopped(home)

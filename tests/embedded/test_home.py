"""Where a server lives: what `embedded:` means, long paths, folders that will not do."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.embedded.support import FAST, OFFERED, answers, wait_until_stopped
from wherry.embedded import acquire, default_home, parse, running
from wherry.errors import EmbeddedError

MoveHome = Callable[[str], Path]


@pytest.mark.parametrize(
    "dsn, folder",
    [
        ("embedded:/srv/queue", "/srv/queue"),
        ("embedded:///srv/queue", "/srv/queue"),
        ("embedded:/srv/my queue", "/srv/my queue"),
    ],
)
def test_a_folder_can_be_named_in_the_dsn(dsn: str, folder: str) -> None:
    assert parse(dsn) == Path(folder)


def test_a_relative_folder_is_meant_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert parse("embedded:queue") == tmp_path / "queue"


@pytest.mark.parametrize(
    "dsn", ["", "host=embedded:", "postgresql://embedded:x@host/db", "Embedded:", "dbname=x"]
)
def test_any_other_dsn_means_no_embedded_server(dsn: str) -> None:
    assert parse(dsn) is None


def test_wherry_home_moves_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path))

    assert parse("embedded:") == default_home() == tmp_path / "postgres"


def test_the_default_is_where_the_servers_user_can_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WHERRY_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere/data")
    if os.geteuid() == 0:
        # PostgreSQL does not run as root, and whom it runs as cannot enter root's own folders.
        assert default_home().parts[1] in ("var", "Library")
    elif sys.platform != "darwin":
        assert default_home() == Path("/somewhere/data/wherry/postgres")


def test_a_home_with_a_path_too_long_for_a_socket_has_it_elsewhere(move_home: MoveHome) -> None:
    home = move_home("long" * 30)

    with acquire(home, settings=FAST) as held:
        assert answers(held.dsn)
        assert running(home) == held.dsn
        link = home / "run"
        sockets = link.readlink()
        assert f"?host={sockets}&" in held.dsn
        assert len(str(sockets)) < 40
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    wait_until_stopped(home)

    assert not sockets.exists()


def test_a_short_socket_folder_put_there_by_another_is_not_used(
    move_home: MoveHome, tmp_path: Path
) -> None:
    home = move_home("long" * 30)
    open_to_all = tmp_path / "theirs"
    open_to_all.mkdir(mode=0o755)
    shutil.rmtree(home / "run", ignore_errors=True)
    (home / "run").symlink_to(open_to_all)

    with acquire(home, settings=FAST) as held:
        assert answers(held.dsn)
        assert str(open_to_all) not in held.dsn
    wait_until_stopped(home)

    assert not list(open_to_all.iterdir())


@pytest.mark.parametrize("name", ["with space", "a,b", "it's", 'quo"te', "back\\slash", "grün"])
def test_a_home_may_have_any_name_and_be_moved(name: str, move_home: MoveHome) -> None:
    home = move_home(name)

    with acquire(home, settings=FAST) as held:
        assert answers(held.dsn)
        assert asyncio.run(answer_to_asyncpg(held.dsn)) == 1
    wait_until_stopped(home)


async def answer_to_asyncpg(dsn: str) -> object:
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        return await connection.fetchval("select 1")
    finally:
        await connection.close()


def test_a_name_that_postgresqls_own_files_cannot_hold_is_refused(place: Path) -> None:
    with pytest.raises(EmbeddedError, match="control character"):
        acquire(place / "two\nlines")


def test_a_folder_that_everybody_may_write_to_is_refused(place: Path) -> None:
    home = place / "open"
    home.mkdir()
    home.chmod(0o777)

    with pytest.raises(EmbeddedError, match="chmod o-w"):
        acquire(home)


def test_a_folder_of_another_user_is_refused(place: Path) -> None:
    if os.geteuid() == 0:
        home = place / "theirs"
        home.mkdir()
        os.chown(home, 54321, 54321)
    else:
        home = Path("/usr")

    with pytest.raises(EmbeddedError, match="belongs to"):
        acquire(home)

    assert not (home / "users.lock").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(place: Path) -> None:
    home = place / "file"
    home.touch()

    with pytest.raises(EmbeddedError, match="is not a folder"):
        acquire(home)


def test_data_of_another_major_version_stays_and_is_spoken_of(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # 13 is never found, as it is not supported, so it stands for a version that is gone.
    home = place / "home"
    (home / "13").mkdir(parents=True)
    (home / "13" / "PG_VERSION").write_text("13\n")

    with caplog.at_level(logging.WARNING), acquire(home, settings=FAST) as held:
        assert answers(held.dsn)
        assert held.data == home / str(OFFERED[0].major)
    wait_until_stopped(home)

    assert "has data of PostgreSQL 13" in caplog.text
    assert (home / "13" / "PG_VERSION").exists()

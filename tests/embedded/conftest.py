"""Homes of their own for embedded servers, which must have no server left at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.embedded.support import FAST, OFFERED, PERSON, User, is_stopped, wait_until_stopped
from wherry.embedded import acquire


def pytest_report_header() -> str:
    me = "root" if os.geteuid() == 0 else "a normal user"
    beside = "" if PERSON is None else f" and as a normal user with {PERSON.python}"
    if os.geteuid() == 0 and PERSON is None:
        beside = " only: `nobody` can run no Python 3.11 or newer on this machine"
    versions = ", ".join(f"{found.version} ({found.source})" for found in OFFERED)
    return f"embedded server: as {me}{beside}; PostgreSQL {versions}"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path that every user can enter; pytest's own are long and closed."""
    yield from make_place()


def make_place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="we-", dir="/tmp")).resolve()
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_home(place: Path) -> Iterator[Path]:
    """A home that is not made yet, and whose server must be gone when the test ends."""
    home = place / "home"
    yield home
    if home.exists():
        wait_until_stopped(home)


@pytest.fixture(scope="session")
def lasting_place() -> Iterator[Path]:
    yield from make_place()


@pytest.fixture
def home(lasting_place: Path) -> Iterator[Path]:
    """A home with data and no server, used by one test after the other: a start takes 0.1 s."""
    home = lasting_place / "home"
    if home.exists() and not is_stopped(home):
        # A test before this one failed and left it so; the keeper stops a server without home.
        shutil.rmtree(home)
    if not home.exists():
        acquire(home, settings=FAST).release()
        wait_until_stopped(home)
    yield home
    wait_until_stopped(home)


@pytest.fixture
def move_home(home: Path) -> Iterator[Callable[[str], Path]]:
    """Give the home, with its data, another name beside its own until the test ends."""
    moved: list[Path] = []

    def move(name: str) -> Path:
        moved.append(home.rename(home.with_name(name)))
        return moved[0]

    yield move
    for place in moved:
        wait_until_stopped(place)
        place.rename(home)


@pytest.fixture
def start_user(home: Path) -> Iterator[Callable[..., User]]:
    """Start a process that uses the home (or another one), and is gone when the test ends."""
    started: list[User] = []

    def start(where: Path = home, **options: object) -> User:
        started.append(User(where, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for user in started:
        user.end()

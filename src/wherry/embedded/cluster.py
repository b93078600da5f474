"""Makes the data folder of a new server, whole or not at all.

It grows under a temporary name and is renamed when the database is in it, so a folder with the
final name is never half made, whoever was killed in between.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from wherry.embedded.home import Home
from wherry.embedded.identity import Identity, give_folder, start
from wherry.embedded.sockets import DATABASE, USER
from wherry.errors import EmbeddedStartFailed

PREFIX = "making-"
# A slow disk under load needs seconds; past this something hangs.
LIMIT_SECONDS = 100
BUILTIN_LOCALES_SINCE = 17


def make_data(
    home: Home,
    programs: Path,
    major: int,
    identity: Identity | None,
    *,
    settings: Mapping[str, str],
    held: int,
    log: int,
) -> None:
    """Make the data of *major* in *home*, with the role and the database in it.

    Only the keeper calls this, under its lock, and the programs inherit *held*, the server's
    lock: so what an earlier keeper left half made is nobody's any more, and goes.
    """
    for leftover in home.path.glob(PREFIX + "*"):
        shutil.rmtree(leftover)
    durable = settings.get("fsync", "on") == "on"
    growing = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home.path))
    try:
        give_folder(growing, identity)
        initdb = [programs / "initdb", *_initdb_options(growing, major, durable)]
        _run(initdb, identity, held=held, log=log)
        _run(
            [
                # A server without clients: the database is there before anybody could miss it.
                *(programs / "postgres", "--single", "-D", growing),
                *("-c", f"fsync={'on' if durable else 'off'}"),
                # Else a refused statement is only a line in the log.
                *("-c", "exit_on_error=on", "template1"),
            ],
            identity,
            held=held,
            log=log,
            stdin=f"create database {DATABASE};\n".encode(),
        )
        growing.rename(home.data(major))
    except BaseException:
        shutil.rmtree(growing, ignore_errors=True)
        raise
    if durable:
        _sync_folder(home.path)


def _initdb_options(data: Path, major: int, durable: bool) -> list[str | Path]:
    options: list[str | Path] = ["-D", data, "--username", USER, "--encoding", "UTF8"]
    # Only the socket lets anybody in, and its folder only the server's user and root.
    options += ["--auth=trust", "--no-instructions", "--data-checksums"]
    options += ["--text-search-config=english", "--lc-messages=C"]
    if major >= BUILTIN_LOCALES_SINCE:
        options += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    else:
        options += [f"--locale={'C.UTF-8' if _has_c_utf8() else 'C'}"]
    return options if durable else [*options, "--no-sync"]


def _has_c_utf8() -> bool:
    import locale  # only a first start needs it, and the keeper is to be up at once

    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return False
    locale.setlocale(locale.LC_CTYPE, before)
    return True


def _run(
    command: list[str | Path],
    identity: Identity | None,
    *,
    held: int,
    log: int,
    stdin: bytes | None = None,
) -> None:
    name = Path(command[0]).name
    ran = start(command, identity, output=log, keep_open=[held], takes_input=stdin is not None)
    try:
        ran.communicate(stdin, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        ran.kill()
        ran.wait()
        raise EmbeddedStartFailed(f"{name} took longer than {LIMIT_SECONDS} s") from None
    if ran.returncode != 0:
        raise EmbeddedStartFailed(f"{name} ended with code {ran.returncode}")


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Who runs the server's programs when Wherry itself runs as root.

PostgreSQL refuses root, so its programs run as `postgres` where there is such a user, else as
`nobody`. Only they do: the keeper stays root, because the Python that it runs on may be where
nobody else can read it. Data that is there already decides: it is run by the user it belongs to.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wherry.errors import EmbeddedStartFailed

PREFERRED = ("postgres", "nobody")


class Identity(NamedTuple):
    """An unprivileged user."""

    uid: int
    gid: int
    name: str


def server_identity(data: Path) -> Identity | None:
    """Return the user to run the server as, or None for the user we are."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat().st_uid) != 0:
        found = pwd.getpwuid(owner)
        return Identity(found.pw_uid, found.pw_gid, found.pw_name)
    for name in PREFERRED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid != 0:
            return Identity(found.pw_uid, found.pw_gid, found.pw_name)
    raise EmbeddedStartFailed(
        "PostgreSQL refuses to run as root, and this machine has no user"
        f" {' or '.join(PREFERRED)} to run it as"
    )


def give_folder(path: Path, identity: Identity | None) -> None:
    """Make a folder that only the server's user can enter, or make an existing one so."""
    path.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(fd, 0o700)
        if identity is not None:
            os.fchown(fd, identity.uid, identity.gid)
    finally:
        os.close(fd)


def start(
    command: Sequence[str | Path],
    identity: Identity | None,
    *,
    output: int,
    keep_open: Sequence[int] = (),
    takes_input: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program as *identity*, with nothing of ours but *output* and *keep_open*."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=keep_open,
        cwd="/",
        umask=0o077,
        user=identity.uid if identity else None,
        group=identity.gid if identity else None,
        extra_groups=[] if identity else None,
    )


def first_closed_folder(path: Path, identity: Identity) -> Path | None:
    """Return the outermost folder on the way to *path* that *identity* cannot enter, if any.

    The user is asked, not the mode bits: access lists and file systems have a say too.
    """
    way = [str(folder) for folder in reversed((path, *path.parents))]
    asked = subprocess.run(
        ["/bin/sh", "-c", 'for f; do [ -x "$f" ] || { printf %s "$f"; exit; }; done', "-", *way],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd="/",
        user=identity.uid,
        group=identity.gid,
        extra_groups=[],
        timeout=30,
        check=True,
    )
    return Path(os.fsdecode(asked.stdout)) if asked.stdout else None


def can_run(program: Path, identity: Identity) -> bool:
    """Tell whether *identity* can read and run a program with all its libraries."""
    try:
        answer = start([program, "--version"], identity, output=subprocess.DEVNULL)
    except PermissionError:
        return False
    return answer.wait(timeout=30) == 0

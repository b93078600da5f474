"""The server's socket: the only way in, in a folder that only the server's user can enter.

The kernel takes about a hundred bytes for a socket's path. In a longer home `run` is a link to a
short folder below /tmp instead; the link also remembers it, so that a server that is started
again after a crash answers where its users look for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import struct
import tempfile
from pathlib import Path
from urllib.parse import quote

from wherry.embedded.home import Home
from wherry.embedded.identity import Identity, give_folder

# There is no TCP: the number is but a part of the socket's name.
PORT = 5432
# 104 on macOS, 108 on Linux, less some air.
PATH_LIMIT_BYTES = 100
USER = DATABASE = "wherry"
PROBE_SECONDS = 5.0
# PostgreSQL's protocol, version 3.0: begin a session, end it.
HELLO = struct.pack("!I", 3 << 16) + f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
GOODBYE = b"X\0\0\0\x04"
CANNOT_CONNECT_NOW = b"57P03"
# libpq reads a comma as "and the next host", PostgreSQL as "and the next folder".
AWKWARD = re.compile(r"""[,'"\\\ud800-\udfff]""")


def socket_in(folder: Path) -> Path:
    """Return the path of the socket in *folder*."""
    return folder / f".s.PGSQL.{PORT}"


def dsn_for(folder: Path) -> str:
    """Return a URI of the server whose socket is in *folder*: libpq reads it, and asyncpg too."""
    return f"postgresql://{USER}@/{DATABASE}?host={quote(str(folder))}&port={PORT}"


def make_folder(home: Home, identity: Identity | None) -> Path:
    """Return the folder for the socket, made, closed to others, and the same as last time."""
    near = home.sockets
    if _fits(near):
        if near.is_symlink():
            near.unlink()
        give_folder(near, identity)
        return near
    owner = os.geteuid() if identity is None else identity.uid
    if near.is_symlink():
        far = near.readlink()
        if _is_private(far, owner):
            return far
        near.unlink()
    elif near.is_dir():
        # The home had a shorter path once, and was moved.
        shutil.rmtree(near)
    far = Path(tempfile.mkdtemp(prefix="wherry-", dir="/tmp"))
    give_folder(far, identity)
    near.symlink_to(far)
    return far


def drop_folder(home: Home) -> None:
    """Remove the folder below /tmp, if there is one, once its server is gone."""
    if home.sockets.is_symlink():
        with contextlib.suppress(OSError):
            home.sockets.readlink().rmdir()
            home.sockets.unlink()


def listens(path: str | Path) -> bool:
    """Tell whether somebody has this socket open, be it a server that is about to end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except (OSError, ValueError):
            return False
    return True


def serves(path: str | Path) -> bool:
    """Tell whether a server gives sessions at this socket now.

    To be accepted is no proof: the kernel does that for a killed server too, until the last of its
    memory is gone. So a session is begun, and without the driver, whose import alone takes longer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(str(path))
            probe.sendall(struct.pack("!I", len(HELLO) + 4) + HELLO)
            with probe.makefile("rb") as answer:
                while len(head := answer.read(5)) == 5:
                    kind, size = struct.unpack("!cI", head)
                    body = answer.read(size - 4)
                    if kind == b"E":
                        # Any other refusal (too many sessions, no such database) is a living
                        # server's, and its user is the one to hear of it.
                        return b"\0C" + CANNOT_CONNECT_NOW + b"\0" not in body
                    if kind == b"R" and any(body):
                        return True  # It wants a password: somebody has changed its rules.
                    if kind == b"Z":
                        probe.sendall(GOODBYE)
                        return True
        except (OSError, ValueError):
            pass
    return False


def _fits(folder: Path) -> bool:
    path = str(socket_in(folder))
    return not AWKWARD.search(path) and len(os.fsencode(path)) <= PATH_LIMIT_BYTES


def _is_private(folder: Path, owner: int) -> bool:
    """Tell whether what a link named long ago is still ours, and not put there by another."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    mode = found.st_mode
    return stat.S_ISDIR(mode) and stat.S_IMODE(mode) == 0o700 and found.st_uid == owner

"""The folder in which one embedded server lives, and what is where in it.

One home has at most one running server, whatever the versions of PostgreSQL that its users
bring; the data of each major version is in a folder of its own, because a newer PostgreSQL
cannot read what an older one wrote.

As root the home must be a folder that others may enter: PostgreSQL refuses to run as root, and
the user that it runs as cannot enter /root. That is why root's default home is not below it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import stat
import sys
from pathlib import Path

from wherry.errors import EmbeddedError

SCHEME = "embedded:"


def parse(dsn: str) -> Path | None:
    """Return the home that an `embedded:` or `embedded:/folder` DSN means, None for any other."""
    if not dsn.startswith(SCHEME):
        return None
    folder = dsn.removeprefix(SCHEME)
    if not folder:
        return default_home()
    if folder.startswith("//"):
        # People write embedded:///folder by analogy; to a path, "//" would be another root.
        folder = "/" + folder.lstrip("/")
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as unknown:
        raise EmbeddedError(f"cannot tell whose home is meant in {dsn!r}: {unknown}") from unknown


def default_home() -> Path:
    """Return the folder for a server that nobody named a folder for."""
    if chosen := os.environ.get("WHERRY_HOME"):
        return Path(chosen).absolute() / "postgres"
    macos = sys.platform == "darwin"
    if os.geteuid() == 0:
        shared = "/Library/Application Support" if macos else "/var/lib"
        return Path(shared) / "wherry" / "postgres"
    given = os.environ.get("XDG_DATA_HOME", "")
    if given.startswith("/") and not macos:
        return Path(given) / "wherry" / "postgres"
    try:
        user = Path.home()
    except RuntimeError as unknown:
        raise EmbeddedError(
            "this user has no home folder to keep the embedded server in: set WHERRY_HOME"
        ) from unknown
    data = user / "Library" / "Application Support" if macos else user / ".local" / "share"
    return data / "wherry" / "postgres"


class Home:
    """The paths in one home. Making one touches nothing; `prepare` makes the folder."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        if any(not char.isprintable() and not "\ud800" <= char <= "\udfff" for char in str(path)):
            # PostgreSQL's own files hold one path a line.
            raise EmbeddedError(f"a control character in the folder's name: {str(path)!r}")
        try:
            self.path = path.resolve()
        except (OSError, RuntimeError) as loop:
            raise EmbeddedError(f"cannot follow {path}: {loop}") from loop

    @property
    def log(self) -> Path:
        """What the server and its keeper have to say; the older part has ".1" after its name."""
        return self.path / "postgres.log"

    @property
    def record(self) -> Path:
        """What runs now and where; there only while it is ready."""
        return self.path / "server.json"

    @property
    def sockets(self) -> Path:
        """The folder of the socket, or a link to it where this path is too long for one."""
        return self.path / "run"

    @property
    def mirrors(self) -> Path:
        """Programs put where the server's user can read them; mirror.py says when."""
        return self.path / "binaries"

    def lock(self, name: str) -> Path:
        """Return the path of a lock file; locks.py says which there are."""
        return self.path / f"{name}.lock"

    def data(self, major: int) -> Path:
        """Return the data folder of one major version."""
        return self.path / str(major)

    def majors(self) -> list[int]:
        """Return the major versions that have data here, the newest first."""
        try:
            names = [entry.name for entry in self.path.iterdir()]
        except OSError:
            return []
        return sorted((int(n) for n in names if n.isascii() and n.isdigit()), reverse=True)

    def prepare(self) -> None:
        """Make the folder, or see that it is ours and that others cannot swap what is in it."""
        try:
            self._make()
            found = self.path.stat()
        except OSError as refused:
            raise EmbeddedError(
                f"cannot make {self.path} for the embedded server: {refused.strerror};"
                " set WHERRY_HOME or name another folder in embedded:/folder"
            ) from refused
        if not stat.S_ISDIR(found.st_mode):
            raise EmbeddedError(f"{self.path} is not a folder: name one in embedded:/folder")
        if found.st_uid != os.geteuid():
            raise EmbeddedError(
                f"{self.path} belongs to {user_name(found.st_uid)}, and this process runs as"
                f" {user_name(os.geteuid())}: run it as {user_name(found.st_uid)}, or name"
                " another folder in embedded:/folder"
            )
        if found.st_mode & stat.S_IWOTH:
            raise EmbeddedError(
                f"everybody may write to {self.path}, and so could swap the server's files:"
                f" run `chmod o-w {self.path}` or name another folder in embedded:/folder"
            )
        if os.geteuid() == 0 and not found.st_mode & stat.S_IXOTH and self._is_only_ours():
            self.path.chmod(stat.S_IMODE(found.st_mode) | 0o011)

    def _make(self) -> None:
        if os.geteuid() != 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            return
        # The user that PostgreSQL runs as must be able to pass, whatever root's umask is.
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o711, exist_ok=True)
            folder.chmod(0o711)

    def _is_only_ours(self) -> bool:
        return not any(self.path.iterdir()) or self.lock("users").exists()


class Record:
    """What `server.json` says: the server that is ready in a home."""

    __slots__ = ("binaries", "data", "dsn", "socket", "version")

    def __init__(self, *, dsn: str, socket: str, data: str, binaries: str, version: str) -> None:
        self.dsn = dsn
        self.socket = socket
        self.data = data
        self.binaries = binaries
        self.version = version

    @classmethod
    def read(cls, home: Home) -> Record | None:
        """Return the record, or None where there is none that can be read."""
        try:
            fields = json.loads(home.record.read_text())
            return cls(**{name: str(fields[name]) for name in cls.__slots__})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, home: Home) -> None:
        """Put the record in place whole, so that nobody reads half of it."""
        fresh = home.record.with_suffix(".new")
        fresh.write_text(json.dumps({name: getattr(self, name) for name in self.__slots__}))
        fresh.chmod(0o600)
        fresh.replace(home.record)


def user_name(uid: int) -> str:
    """Return a user's name, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"

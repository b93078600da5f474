"""Loads a folder: for each file a `documents` row and a task, in one transaction.

Some of these transactions are rolled back, as happens to everybody's. Nothing has to be cleaned up
after one: its task was never there, and no worker can have seen it.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import psycopg

from examples.demo import tables
from examples.demo.tasks import Trouble, digest

FEWEST_FILES = 100
PARTS = 4
LARGEST_FILE_BYTES = 4 * 1024 * 1024
# Of a folder without end, such as `/`, this many files are looked at.
MOST_LOOKED_AT = 20_000


class TooFewFiles(Exception):
    """The folder does not hold enough files for all that is to happen."""


def files_in(folder: Path, *, at_most: int) -> list[Path]:
    """Return files of *folder* and below, real and readable ones. Raises TooFewFiles."""
    files = list(islice(_readable_files(folder), MOST_LOOKED_AT))
    # Compiled Python is taken only where there is not enough else.
    files.sort(key=lambda path: "__pycache__" in path.parts)
    if len(files) < FEWEST_FILES:
        raise TooFewFiles(
            f"{folder}: {len(files)} readable files of at most"
            f" {LARGEST_FILE_BYTES // 1024**2} MiB; the demo needs {FEWEST_FILES} or more"
        )
    return files[:at_most]


def load(files: Sequence[Path], *, part: int, dsn: str, stop: threading.Event) -> None:
    """Store one part of the files and enqueue their tasks, until *stop* is set.

    There are PARTS of them, loaded side by side, as a program of yours serves its requests.
    """
    with tables.connect(dsn) as conn:
        for number in range(part, len(files), PARTS):
            path = files[number]
            if stop.is_set():
                return
            with conn.transaction():
                store(conn, path, trouble_of(number))
                if is_rolled_back(number):
                    # Leaves the block and undoes what was done in it, the enqueue as well.
                    raise psycopg.Rollback
            if is_rolled_back(number):
                conn.execute("insert into rolled_back (path) values (%s)", [str(path)])


def store(conn: psycopg.Connection, path: Path, trouble: Trouble) -> None:
    """Insert the document and enqueue its task in the transaction that is open on *conn*."""
    inserted = conn.execute(
        "insert into documents (path, trouble) values (%s, %s) returning id", [str(path), trouble]
    ).fetchone()
    assert inserted is not None
    document = inserted[0]
    # The key makes it one task per document, however often this is run for it.
    digest.using(tx=conn, key=f"document-{document}").enqueue(
        document=document, path=str(path), trouble=trouble
    )


def is_rolled_back(number: int) -> bool:
    """Tell whether the transaction of the file with this number is rolled back: 1 in 20 is."""
    return number % 20 == 7


def trouble_of(number: int) -> Trouble:
    """Return what befalls the file with this number. The first one is the poison."""
    if number == 0:
        return "poison"
    if number % 100 == 50:
        return "fails twice"
    if number % 25 == 5:
        return "fails once"
    # Slow ones see to it that a worker which is killed has something in its hands.
    return "slow" if number % 40 == 38 else "none"


def _readable_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names)):
            try:
                found = path.lstat()
            except OSError:
                continue  # gone since it was listed
            is_ours = stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK)
            # A name that is no text (Linux allows any bytes) cannot be stored as one.
            if is_ours and found.st_size <= LARGEST_FILE_BYTES and str(path).isprintable():
                yield path

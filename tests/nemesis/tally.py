"""What the many tasks of a bulk are asked for, begun and answered: a few bytes each.

One file for each kind of line and life of a process, in the run's folder, as `COPY` reads it. As in
a history, a line goes to the kernel in one write, before what it tells of can be undone by a kill.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.nemesis import history

KINDS = ("asked", "told", "began", "answered")


def note(kind: str, rows: Iterable[Iterable[object]]) -> None:
    """Write some lines, each with the name of this process's life before it."""
    who = history.mine().name
    text = "".join("\t".join(map(str, (who, *row))) + "\n" for row in rows)
    os.write(_file(kind), text.encode())


@cache
def _file(kind: str) -> int:
    path = Path(os.environ[history.FOLDER_VARIABLE], f"{history.mine().name}.{kind}.tsv")
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def read(folder: Path, kind: str) -> Iterator[bytes]:
    """Return what all processes have written of a kind."""
    for path in sorted(folder.glob(f"*.{kind}.tsv")):
        yield path.read_bytes()

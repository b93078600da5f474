"""What handlers leave behind, in a file that all processes of a run map.

For each task how often its handler was entered and when, and for each process how many it has
entered: a task that ran twice shows in one of the two whatever races. A handler of Python writes
into the memory; one of Node, which cannot map a file, writes batches into a journal beside it,
which `absorb` reads. It needs nothing but Python itself, since every peer's Python imports it.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from pathlib import Path
from time import monotonic
from typing import Self

MEMORY = Path("/dev/shm")
# A process's slot is its number modulo this; two of one run never meet in practice.
SLOTS = 1024
ENDS = 8 + 8 * SLOTS
RECORD = struct.Struct("<Id")


class Marks:
    """The marks of one run of at most *tasks* tasks; a context manager that removes the files."""

    def __init__(self, path: Path, tasks: int) -> None:
        self.path = path
        self.tasks = tasks
        with path.open("r+b") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0))
        self._shown = whole[:8].cast("Q")
        self._counts = whole[8:ENDS].cast("Q")
        self._began = whole[ENDS : ENDS + 8 * tasks].cast("d")
        self._hits = whole[ENDS + 8 * tasks :]
        self._read: dict[Path, int] = {}
        self._slot = os.getpid() % SLOTS

    @classmethod
    def made(cls, tasks: int) -> Marks:
        """Make new ones, all zero."""
        folder = tempfile.mkdtemp(prefix="wherry-peers-", dir=MEMORY if MEMORY.is_dir() else None)
        path = Path(folder) / "marks"
        with path.open("wb") as file:
            file.truncate(ENDS + 9 * tasks)
        return cls(path, tasks)

    def forked(self) -> None:
        """Count as a process of its own from now on."""
        self._slot = os.getpid() % SLOTS

    def hit(self, task: int) -> None:
        """Note that a handler was entered: its whole work."""
        self._began[task] = monotonic()
        hits = self._hits
        if hits[task] < 255:
            hits[task] += 1
        self._counts[self._slot] += 1

    def absorb(self) -> int:
        """Take in what journals hold, show the count to whoever asks, and return it."""
        for journal in self.path.parent.glob("journal.*"):
            done = self._read.get(journal, 0)
            with journal.open("rb") as file:
                file.seek(done)
                found = file.read()
            found = found[: len(found) - len(found) % RECORD.size]
            self._read[journal] = done + len(found)
            for task, at in RECORD.iter_unpack(found):
                self._began[task] = at
                if self._hits[task] < 255:
                    self._hits[task] += 1
            self._counts[int(journal.suffix[1:]) % SLOTS] += len(found) // RECORD.size
        self._shown[0] = sum(self._counts)
        return self._shown[0]

    def shown(self) -> int:
        """The count that the driver showed last."""
        return self._shown[0]

    def ran(self) -> int:
        """How many tasks were entered at all."""
        return self.tasks - bytes(self._hits).count(0)

    def faults(self, tasks: int) -> int:
        """How many of the first *tasks* did not run exactly once, by either count."""
        once = bytes(self._hits[:tasks]).count(1)
        return max(tasks - once, abs(sum(self._counts) - tasks))

    def began(self, task: int) -> float:
        """When the handler of a task was entered last, by the monotonic clock; 0.0 if never."""
        return float(self._began[task])

    def times(self, tasks: int) -> list[float]:
        """When each of the first *tasks* that ran was entered, in order of time."""
        return sorted(at for at in self._began[:tasks].tolist() if at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The memory goes with the last process.
        for path in self.path.parent.iterdir():
            path.unlink(missing_ok=True)
        self.path.parent.rmdir()

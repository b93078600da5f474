"""What handlers leave behind, in memory that all processes of a run share.

For each task how often its handler was entered and when, and for each process how many it has
entered. The two are counted apart: a task that ran twice shows in one of them whatever races.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from time import monotonic
from typing import Self

from wherry.bench.errors import BenchmarkFailed

PROCESSES = 64
MEMORY = Path("/dev/shm")


class Marks:
    """The marks of one run of at most *tasks* tasks; a context manager that removes the file."""

    def __init__(self, path: Path, tasks: int, *, process: int = 0) -> None:
        self.path = path
        self.tasks = tasks
        self.process = process
        with path.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), 0)
        whole = memoryview(shared)
        ends = 8 * PROCESSES
        self._counts = whole[:ends].cast("Q")
        self._began = whole[ends : ends + 8 * tasks].cast("d")
        self._hits = whole[ends + 8 * tasks :]

    @classmethod
    def made(cls, tasks: int) -> Marks:
        """Make new ones, all zero."""
        handle, name = tempfile.mkstemp(
            prefix="wherry-bench-", dir=MEMORY if MEMORY.is_dir() else None
        )
        os.ftruncate(handle, 8 * PROCESSES + 9 * tasks)
        os.close(handle)
        return cls(Path(name), tasks)

    def hit(self, task: int) -> None:
        """Note that a handler was entered; a handler's whole work in most benchmarks."""
        self._began[task] = monotonic()
        hits = self._hits
        if hits[task] < 255:
            hits[task] += 1
        self._counts[self.process] += 1

    def entered(self) -> int:
        """How many handlers were entered, by the processes' own counts."""
        return sum(self._counts)

    def once(self) -> int:
        """How many tasks were entered exactly once."""
        return bytes(self._hits).count(1)

    def began(self, task: int) -> float:
        """When the handler of a task was entered last, by the monotonic clock; 0.0 if never."""
        return float(self._began[task])

    def first(self, tasks: int) -> float:
        """When the first of the first *tasks* was entered."""
        return min((at for at in self._began[:tasks].tolist() if at), default=0.0)

    def must_be_once(self, tasks: int) -> None:
        """Stop the benchmark with a sentence unless so many ran, each once."""
        if self.once() != tasks or self.entered() != tasks:
            raise BenchmarkFailed(
                f"lost or doubled: {tasks} asked, {self.once()} of them ran once,"
                f" {self.entered()} handler runs in all"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The memory goes with the last process.
        self.path.unlink(missing_ok=True)

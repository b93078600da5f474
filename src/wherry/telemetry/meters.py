"""What one process counts, and who can be asked for the rest.

Nothing here is counted by the task: commands are, each of which carries a batch. Who runs (a
worker, a pool, a listener) is asked when somebody wants to know; what only grows is kept when they
end. A process that nobody asks has no Meters at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TypeAlias

from wherry.own_lock import OwnLock
from wherry.telemetry.families import BATCH_BOUNDS, COMMAND_BOUNDS
from wherry.telemetry.readings import Counted, Reading, added_up

Read: TypeAlias = Callable[[], Iterable[Reading]]


class Meters:
    """The numbers of one process; any thread may count and read."""

    def __init__(self) -> None:
        self._own = OwnLock()
        self._seconds: dict[str, Counted] = {}
        self._errors: Counter[str] = Counter()
        self._leased = Counted(BATCH_BOUNDS)
        self._reported = Counted(BATCH_BOUNDS)
        self._asked: list[Read] = []
        self._kept: list[Reading] = []

    def took(self, command: str, seconds: float) -> None:
        """Count a command that was answered."""
        with self._own.lock:
            counted = self._seconds.get(command)
            if counted is None:
                counted = self._seconds[command] = Counted(COMMAND_BOUNDS)
            counted.add(seconds)

    def failed(self, command: str) -> None:
        """Count a command that raised."""
        with self._own.lock:
            self._errors[command] += 1

    def leased(self, tasks: int) -> None:
        """Count a lease that brought tasks."""
        with self._own.lock:
            self._leased.add(tasks)

    def reported(self, outcomes: int) -> None:
        """Count a report."""
        with self._own.lock:
            self._reported.add(outcomes)

    def ask(self, read: Read) -> None:
        """Ask *read*, too, whenever somebody wants to know."""
        with self._own.lock:
            self._asked.append(read)

    @contextmanager
    def asking(self, read: Read) -> Generator[None]:
        """Ask *read*, too, inside the block; what it counted until then is kept."""
        self.ask(read)
        try:
            yield
        finally:
            last = [reading for reading in read() if reading.only_grows]
            with self._own.lock:
                self._asked.remove(read)
                self._kept = added_up([*self._kept, *last])

    def read(self) -> list[Reading]:
        """Return all there is to tell now."""
        with self._own.lock:
            asked = list(self._asked)
            found = [
                *(
                    Reading("wherry_command_seconds", (name,), counted.read())
                    for name, counted in self._seconds.items()
                ),
                *(
                    Reading("wherry_command_errors_total", (name,), n)
                    for name, n in self._errors.items()
                ),
                Reading("wherry_lease_batch_tasks", (), self._leased.read()),
                Reading("wherry_report_batch_tasks", (), self._reported.read()),
                *self._kept,
            ]
        for read in asked:
            found += read()
        return added_up(found)

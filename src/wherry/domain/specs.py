"""The checked tasks of one call, made as they are asked for.

To check and encode a task takes the caller about as long as it takes the database to store it.
Whoever stores a part of a batch while the next is made needs half the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

from wherry.domain.options import TaskSpec


class Specs(Sequence[TaskSpec]):
    """A batch of *n* tasks. Each is made once; what one of them raises, whoever asks for it gets.

    For one thread: two that ask at once would share out the tasks between them.
    """

    def __init__(self, n: int, making: Iterable[TaskSpec]) -> None:
        self._n = n
        self._making = iter(making)
        self._made: list[TaskSpec] = []

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> TaskSpec: ...
    @overload
    def __getitem__(self, index: slice) -> list[TaskSpec]: ...
    def __getitem__(self, index: int | slice) -> TaskSpec | list[TaskSpec]:
        return self._all()[index]

    def __iter__(self) -> Iterator[TaskSpec]:
        return iter(self._all())

    def parts(self, size: int) -> Iterator[list[TaskSpec]]:
        """Make so many at a time."""
        for start in range(0, self._n, size):
            lacking = min(start + size, self._n) - len(self._made)
            self._made.extend(islice(self._making, max(lacking, 0)))
            yield self._made[start : start + size]

    def _all(self) -> list[TaskSpec]:
        self._made.extend(self._making)
        if len(self._made) != self._n:
            raise ValueError("one of these tasks was refused: none of them may be stored")
        return self._made

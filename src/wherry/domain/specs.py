"""The checked tasks of one call, made as they are asked for.

To check and encode a task takes the caller about as long as it takes the database to store it.
Whoever stores a part of a batch while the next is made needs half the time. And most batches are of
one kind: what those tasks have in common is kept once, and only their payloads are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias, overload

from wherry.domain.options import TaskSpec

# Nobody works while the first part is made. Of a thousand tasks, parts of 250 took 4.65 us each; of
# 300 after one of 100 they took 4.4, of 320 after 50 and of 240 after 60 as long.
_FIRST_PART = 100
_PART = 300


class Alike(NamedTuple):
    """Tasks that follow one another and differ in nothing but their payloads."""

    # With the payload of none of them.
    like: TaskSpec
    payloads: list[str]

    def specs(self) -> list[TaskSpec]:
        """Return them one by one."""
        common = self.like[:-1]
        return [TaskSpec(*common, payload) for payload in self.payloads]


# Makes the tasks from one place in the batch to another, in their order.
Making: TypeAlias = Callable[[int, int], list[Alike]]


class Specs(Sequence[TaskSpec]):
    """A batch of *n* tasks. Each is made once; what one of them raises, whoever asks for it gets.

    For one thread: two that ask at once would make them twice.
    """

    def __init__(self, n: int, making: Making) -> None:
        self._n = n
        self._making = making
        self._parts: list[list[Alike]] = []
        self._made: list[TaskSpec] | None = None

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

    def parts(self) -> Iterator[list[Alike]]:
        """Make some of them at a time, a few hundred at most."""
        ends = [*range(_FIRST_PART, self._n, _PART), self._n]
        for number, (start, end) in enumerate(pairwise([0, *ends])):
            if number == len(self._parts):
                self._parts.append(self._making(start, end))
            yield self._parts[number]

    def made(self) -> Specs:
        """Make all of them now, and return them."""
        for _ in self.parts():
            pass
        return self

    def _all(self) -> list[TaskSpec]:
        if self._made is None:
            self._made = [spec for part in self.parts() for run in part for spec in run.specs()]
        return self._made

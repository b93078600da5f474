"""Long lists, a page at a time: twenty thousand rows are more than a browser bears.

What is listed changes while somebody turns pages: a row may then be seen twice, or be passed over.
The whole is put in order first, so that what is wrong stands on the first page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from wherry.server.dashboard.asking import Visit, number_of

T = TypeVar("T")

ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class Leaf(Generic[T]):
    """One page of a list: `first` is the number of its first row, from 1, `total` of all there are.

    `earlier` and `later` are the addresses of its neighbours, and `start` that of the first page;
    None where there is none.
    """

    rows: Sequence[T]
    first: int
    total: int
    start: str | None
    earlier: str | None
    later: str | None

    @property
    def last(self) -> int:
        """The number of its last row."""
        return self.first + len(self.rows) - 1


def leaf_of(visit: Visit, rows: Sequence[T]) -> Leaf[T]:
    """Return the page of *rows* that the address asks for; behind the end it is the last one."""
    pages = max(1, -(-len(rows) // ROWS))
    page = min(max(number_of(visit.query.get("page", "")), 1), pages)

    def address(number: int) -> str:
        asked = {**visit.query, "page": None if number == 1 else number}
        return visit.link(visit.name, **asked)

    begin = (page - 1) * ROWS
    return Leaf(
        rows=rows[begin : begin + ROWS],
        first=begin + 1,
        total=len(rows),
        start=address(1) if page > 2 else None,
        earlier=address(page - 1) if page > 1 else None,
        later=address(page + 1) if page < pages else None,
    )

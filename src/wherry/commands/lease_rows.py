"""The rows of leases as statements return them: put in order, and given the payloads they lack.

A large payload stands apart from its task (`task_texts.any_large`). To look for it in the statement
that leases would cost each lease of small ones 4 us, so it is read in a second one.
"""

from __future__ import annotations

from operator import itemgetter

from wherry.commands.base import Answer, Row, Rows, Statement

# Where they are in such a row.
_PAYLOAD = 2
_priority, _position = itemgetter(3), itemgetter(4)


def lease_rows(rows: Rows, queue: str) -> Answer[list[Row]]:
    """Return the rows as they are to be run: by priority, highest first, and position.

    A payload that stands apart was committed with its task, and is there as long as the task is.
    Where a lease was lost so quickly that the task was purged before the payload is read, its text
    is empty: it cannot be decoded, and nothing runs.
    """
    ordered = sorted(sorted(rows, key=_position), key=_priority, reverse=True)
    apart = [row[0] for row in ordered if row[_PAYLOAD] is None]
    if not apart:
        return ordered
    found = yield Statement("leases/read_payloads", {"queue": queue, "ids": apart})
    texts: dict[int, str] = dict(found)
    return [
        row
        if row[_PAYLOAD] is not None
        else (*row[:_PAYLOAD], texts.get(row[0], ""), *row[_PAYLOAD + 1 :])
        for row in ordered
    ]

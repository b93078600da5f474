"""Who asks a server for something, and what they may do.

A right alone allows nothing: it holds for the queues that the token's globs match. What is about
all queues at once (leasing from `*`, listing without a queue) needs the glob `*` itself; globs that
happen to match every queue there is today are not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from wherry.domain.token import ANONYMOUS, Right
from wherry.errors import PermissionDenied

__all__ = ["ALL_QUEUES", "ANYBODY", "Caller", "Right"]

ALL_QUEUES: Final = "*"
# A refusal repeats the queue's name, which came from outside and may be of any length.
_MOST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was let in: `name` is for the audit, `peer` is the host that they came from."""

    name: str
    rights: frozenset[Right]
    # Globs, with the rules of `fnmatch.fnmatchcase`: a whole name matches, or it does not.
    queues: tuple[str, ...]
    token_id: str | None = None
    peer: str = ""

    def may(self, right: Right, queue: str | None) -> bool:
        """Say whether this caller has *right* on *queue*; None (and `*`) stands for all queues."""
        if right not in self.rights:
            return False
        if ALL_QUEUES in self.queues:
            return True
        # No name of a queue: as a name, `*` would match the globs `?` and `[*]`.
        if queue is None or queue == ALL_QUEUES:
            return False
        return any(fnmatchcase(queue, glob) for glob in self.queues)

    def require(self, right: Right, queue: str | None) -> None:
        """Raise PermissionDenied, naming the right and the queue, unless `may` says yes."""
        if self.may(right, queue):
            return
        if queue is None or queue == ALL_QUEUES:
            raise PermissionDenied(f"the right {right} on all queues ('*') is needed for this")
        shown = queue if len(queue) <= _MOST_SHOWN else f"{queue[:_MOST_SHOWN]}…"
        raise PermissionDenied(f"the right {right} on queue {shown!r} is needed for this")


# Who everybody is to a server without authentication.
ANYBODY: Final = Caller(ANONYMOUS, frozenset(Right), (ALL_QUEUES,))

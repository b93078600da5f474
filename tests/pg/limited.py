"""What the tests of limited queues share."""

from __future__ import annotations

from typing import Any

from tests.pg.support import Session, spec
from wherry.commands.queues import SetQueueLimits
from wherry.domain.limits import QueueLimits


def limit(session: Session, queue: str = "default", **limits: Any) -> bool:
    """Let a queue have these limits and no others."""
    return session.call(SetQueueLimits(queue, QueueLimits.of(**limits)))


def fill(session: Session, n: int, **options: Any) -> None:
    """Enqueue so many tasks."""
    session.enqueue_many(*(spec(**options) for _ in range(n)))

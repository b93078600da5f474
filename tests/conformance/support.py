"""What the tests of calls share."""

from __future__ import annotations

from typing import Any

import wherry
from wherry import Reported
from wherry.domain.lease import Lease
from wherry.domain.task import Task


async def get(app: wherry.App, id: int) -> Task:
    task = await app.aget_task(id)
    assert task is not None
    return task


async def leased(app: wherry.App, **options: Any) -> Lease:
    """Enqueue one task, and lease it."""
    made = await app.aenqueue("t", {"n": 1}, **options)
    [lease] = await app.alease(worker="w")
    assert lease.id == made.id
    return lease


async def dead(app: wherry.App, **options: Any) -> int:
    lease = await leased(app, **options, max_attempts=1)
    assert await app.afail(lease, "no") is Reported.DEAD
    return lease.id

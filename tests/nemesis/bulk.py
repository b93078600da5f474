"""The type of a bulk: many tasks that do nothing, so that a run can have a million of them."""

from __future__ import annotations

import wherry
from tests.nemesis import tally
from tests.nemesis.tasks import MANY, SOON

QUEUE = "bulk"

app = wherry.App(pool_size=2)


@app.task(queue=QUEUE, retry=SOON, max_attempts=MANY)
async def drop(n: str) -> None:
    """Do nothing, at once."""
    lease = wherry.current().lease
    tally.note("began", [(lease.id, lease.token, lease.lease_id, n)])

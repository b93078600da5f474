"""Tasks and leases that no database has seen, for handlers that are run by hand."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from wherry.domain.lease import Lease, Rare, Times
from wherry.domain.options import TaskSpec
from wherry.domain.state import State
from wherry.domain.task import Task
from wherry.transport.on_caller import async_caller, blocking_caller

# Longer than any test: nobody beats, and nobody else could take the task.
LEASE_SECONDS = 86_400.0


def made_task(spec: TaskSpec, *, id: int) -> Task:
    """Return the task that enqueuing *spec* would have stored."""
    now = datetime.now(UTC)
    due = spec.run_after or now + timedelta(seconds=spec.delay_seconds or 0)
    return Task(
        id=id,
        queue=spec.queue,
        type=spec.type,
        payload_text=spec.payload,
        state=State.QUEUED,
        priority=spec.priority,
        attempts=0,
        max_attempts=spec.max_attempts,
        token=0,
        run_after=due,
        created_at=now,
        started_at=None,
        finished_at=None,
        worker=None,
        lease_expires_at=None,
        key=spec.key,
        tags=spec.tags,
        headers_text=json.dumps(spec.headers) if spec.headers else None,
        retry_text=json.dumps(spec.retry) if spec.retry else None,
        timeout_seconds=spec.timeout_seconds,
        result_text=None,
        reason=None,
        error=None,
        cancel_requested_at=None,
    )


def made_lease(task: Task, *, attempt: int = 1) -> Lease:
    """Return a lease on *task* that no worker holds."""
    now = datetime.now(UTC)
    return Lease(
        deadline=monotonic() + LEASE_SECONDS,
        id=task.id,
        queue=task.queue,
        type=task.type,
        payload_text=task.payload_text,
        priority=task.priority,
        position=task.id,
        attempt=attempt,
        max_attempts=task.max_attempts,
        token=attempt,
        lease_id=str(uuid.uuid4()),
        times=Times(task.run_after, task.created_at, now),
        rare=Rare(
            timeout_seconds=task.timeout_seconds,
            key=task.key,
            tags=list(task.tags) or None,
            headers_text=task.headers_text,
            retry_text=task.retry_text,
            last_error=task.error,
        ),
    )


def check_tx(tx: Any, *, awaited: bool, call: str) -> None:
    """Raise the TypeError that the real call would for this connection; a mock passes."""
    if any(kind.__module__ == "unittest.mock" for kind in type(tx).__mro__):
        return
    if awaited:
        async_caller(tx, call=call)
    else:
        blocking_caller(tx, call=call)

"""The fields that tell log lines apart: whose task, which attempt, of which worker.

Lines of Wherry about a task carry them by themselves. What a handler logs gets them from the
context that it runs in, by a filter: `TaskFields` on whatever handles the line.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from wherry.domain.lease import Lease
from wherry.worker.context import running

_worker: ContextVar[str] = ContextVar("wherry_worker")


def enter_worker(name: str) -> None:
    """Say whose tasks run in this context, and in those that are copied from it."""
    _worker.set(name)


def fields_of(lease: Lease) -> dict[str, Any]:
    """Return the fields of a line about this attempt, for `extra=`."""
    return {
        "task_id": lease.id,
        "queue": lease.queue,
        "type": lease.type,
        "attempt": lease.attempt,
        "worker": _worker.get(None),
    }


class TaskFields(logging.Filter):
    """Gives each record `task_id`, `queue`, `type`, `attempt` and `worker`; lets all through.

    They are those of the task whose handler logs, else None: a format may name them in any case.
    What a line says of itself, by `extra=`, stays. Hang it on a logging handler, also by
    `logging.config.dictConfig`: `"filters": {"task": {"()": "wherry.TaskFields"}}`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is missing."""
        context = running()
        fields: dict[str, Any] = dict.fromkeys(("task_id", "queue", "type", "attempt"))
        if context is not None:
            fields = fields_of(context.lease)
        fields["worker"] = _worker.get(None)
        for name, value in fields.items():
            record.__dict__.setdefault(name, value)
        return True

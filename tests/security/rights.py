"""What each rpc needs, as the design says it: written by hand, so that no code vouches for itself.

An rpc that is not in here fails test_enumeration.py. `elsewhere` is what a caller hears who has the
right, but for another queue: that it is denied; that there is no such task, where a "denied" would
tell that there is one; an answer item by item; or an answer with nothing of the other queue in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from tests.security.places import Place

Elsewhere = Literal["denied", "not found", "each item denied", "each item unknown", "nothing of it"]


@dataclass(frozen=True)
class Need:
    """The right that an rpc needs, and fields that succeed with it."""

    right: str | None
    fields: Callable[[Place], Mapping[str, Any]]
    elsewhere: Elsewhere
    # What is about all queues at once.
    needs_star: bool = False
    # What a caller hears who has other rights, but not this.
    without: Elsewhere = "denied"
    # Rights that it needs besides.
    also: tuple[str, ...] = ()
    # Whether it leaves a row in the audit, as all that needs `admin` does.
    is_audited: bool = False

    @property
    def rights(self) -> tuple[str, ...]:
        """All that it needs."""
        return () if self.right is None else (self.right, *self.also)


def _selection(place: Place, **more: Any) -> Mapping[str, Any]:
    return {"selection": {"filter": {"queue": place.queue}}, "reason": "why", **more}


def _schedule(place: Place, name: str) -> Mapping[str, Any]:
    # It never comes while anybody looks.
    return {"name": name, "cron": "0 0 29 2 *", "type": "t", "queue": place.queue}


NEEDS: Mapping[str, Need] = {
    "Enqueue": Need("enqueue", lambda p: {"queue": p.queue, "type": "t"}, "denied"),
    "EnqueueBatch": Need(
        "enqueue",
        lambda p: {"tasks": [{"queue": p.queue, "type": "t"}] * 2},
        "each item denied",
        without="each item denied",
    ),
    "Lease": Need("work", lambda p: {"worker_id": "w", "queues": [p.queue]}, "denied"),
    "Heartbeat": Need(
        "work",
        lambda p: {"leases": [p.lease], "worker_id": "w"},
        "each item denied",
    ),
    "Complete": Need("work", lambda p: {"lease": p.lease}, "denied"),
    "Fail": Need("work", lambda p: {"lease": p.lease, "error": {"type": "E"}}, "denied"),
    "Snooze": Need("work", lambda p: {"lease": p.lease, "delay": "3s"}, "denied"),
    "Release": Need("work", lambda p: {"lease": p.lease}, "denied"),
    "Report": Need(
        "work",
        lambda p: {"outcomes": [{"lease": p.lease, "complete": {}}]},
        "each item denied",
        without="each item denied",
    ),
    "GetTask": Need("read", lambda p: {"id": p.ready}, "not found"),
    "ListTasks": Need("read", lambda p: {"filter": {"queue": p.queue}}, "denied"),
    # What is told is that there is no such task, as of any id that names none.
    "WhyTask": Need("read", lambda p: {"id": p.ready}, "nothing of it"),
    "CountTasks": Need("read", lambda p: {"filter": {"queue": p.queue}}, "denied"),
    "GroupDeadTasks": Need("read", lambda p: {"filter": {"queue": p.queue}}, "denied"),
    "CancelTask": Need("admin", lambda p: {"id": p.ready, "reason": "why"}, "not found"),
    "RequeueTask": Need("admin", lambda p: {"id": p.ended, "reason": "why"}, "not found"),
    "CopyTask": Need(
        "enqueue",
        lambda p: {"id": p.ended, "reason": "why"},
        "not found",
        also=("read",),
        is_audited=True,
    ),
    "CancelTasks": Need("admin", _selection, "denied"),
    "RequeueTasks": Need("admin", _selection, "denied"),
    "ReprioritizeTasks": Need("admin", lambda p: _selection(p, priority=3), "denied"),
    "RescheduleTasks": Need("admin", lambda p: _selection(p, delay="3s"), "denied"),
    "PurgeTasks": Need("admin", _selection, "denied"),
    "ListQueues": Need("read", lambda _: {}, "nothing of it"),
    "PauseQueue": Need("admin", lambda p: {"queue": p.queue, "reason": "why"}, "denied"),
    "ResumeQueue": Need("admin", lambda p: {"queue": p.queue, "reason": "why"}, "denied"),
    "SetQueueLimits": Need(
        "admin",
        lambda p: {"queue": p.queue, "limits": {"max_running": 1000}, "reason": "why"},
        "denied",
    ),
    "ListPausedTypes": Need("read", lambda _: {}, "nothing of it"),
    "PauseType": Need(
        "admin", lambda p: {"type": "t", "queue": p.queue, "reason": "why"}, "denied"
    ),
    "ResumeType": Need(
        "admin", lambda p: {"type": "t", "queue": p.queue, "reason": "why"}, "denied"
    ),
    "ListSchedules": Need("read", lambda _: {}, "nothing of it"),
    "GetSchedule": Need("read", lambda p: {"name": p.schedule}, "not found"),
    "ListTicks": Need("read", lambda p: {"name": p.schedule}, "not found"),
    "AddSchedule": Need(
        "admin",
        lambda p: {"schedule": _schedule(p, f"by-hand-{p.queue}"), "reason": "why"},
        "denied",
        also=("enqueue",),
    ),
    "DeclareSchedules": Need(
        "work",
        lambda p: {
            "worker_id": "w",
            "instance": str(UUID(int=1)),
            "schedules": [_schedule(p, f"declared-{p.queue}")],
        },
        # What is refused is named, as the caller said it.
        "nothing of it",
        without="denied",
        also=("enqueue",),
    ),
    "RunSchedule": Need("admin", lambda p: {"name": p.schedule, "reason": "why"}, "not found"),
    "PauseSchedule": Need("admin", lambda p: {"name": p.schedule, "reason": "why"}, "not found"),
    "ResumeSchedule": Need("admin", lambda p: {"name": p.schedule, "reason": "why"}, "not found"),
    "DeleteSchedule": Need("admin", lambda p: {"name": p.schedule, "reason": "why"}, "not found"),
    "ListWorkers": Need("read", lambda _: {}, "nothing of it"),
    "DirectWorkers": Need(
        "admin",
        lambda _: {"names": ["w"], "directive": "DIRECTIVE_DRAIN", "reason": "why"},
        "denied",
        needs_star=True,
    ),
    # A worker of this token's: nobody else can be meant.
    "LeaveWorker": Need("work", lambda _: {"worker_id": "w"}, "nothing of it"),
    # Everybody who was let in may know what they talk to.
    "GetServer": Need(None, lambda _: {}, "nothing of it", without="nothing of it"),
}

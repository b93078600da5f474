"""What can be told of a worker at any moment, from its parts; asked from any thread."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from wherry.domain.lease import Lease, Reported
from wherry.telemetry.readings import Reading, steadily
from wherry.worker.keeper import Keeper
from wherry.worker.worker import Worker


def readings_of(
    worker: Worker, keeper: Keeper, *, is_deaf: Callable[[], bool] | None
) -> list[Reading]:
    """Return the numbers of one worker; *is_deaf*: whether it hears no notification, if it should.

    What only grows is counted by its parts whether anybody asks or not: batch by batch.
    """
    answers = steadily(lambda: dict(worker.summary.answers))
    numbers: dict[str, float] = {
        "wherry_worker_processes": 1,
        "wherry_worker_slots": worker.settings.concurrency,
        "wherry_worker_running": len(worker.runner.running),
        "wherry_worker_prefetched": len(worker.buffer),
        "wherry_worker_leases_held": len(worker.held),
        "wherry_worker_leases_lost_total": worker.held.lost + answers.get(Reported.LOST, 0),
        "wherry_worker_unreported": len(worker.reporter),
        "wherry_worker_report_lag_seconds": _lag_seconds(worker, monotonic()),
        "wherry_worker_heartbeat_age_seconds": keeper.age_seconds(),
        "wherry_worker_loop_blocked_seconds": keeper.blocked_seconds(),
    }
    if is_deaf is not None:
        numbers["wherry_listeners_down"] = is_deaf()
    return [
        *(Reading(name, (), float(value)) for name, value in numbers.items()),
        *(
            Reading("wherry_worker_outcomes_total", (str(answer),), n)
            for answer, n in answers.items()
        ),
    ]


def _lag_seconds(worker: Worker, now: float) -> float:
    oldest = steadily(worker.reporter.oldest)
    lease = None if oldest is None else oldest.lease
    # What never began is given back, and has no end of its own.
    if not isinstance(lease, Lease) or not lease.ended_at:
        return 0.0
    return max(0.0, now - lease.ended_at)

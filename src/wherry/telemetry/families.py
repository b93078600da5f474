"""Every metric that Wherry shows: its name, its kind, and how those of several processes add up.

FAMILIES is all there is; `docs/reference/metrics.md` is its table. What is told of all tasks comes
from the database, and is the same whichever server is asked: it must not be added up. What is told
of a process (a worker, a server, a supervisor) is of that process only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

# Of batches; a last bucket has what is larger.
BATCH_BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
# Of commands, in seconds.
COMMAND_BOUNDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `of_many`: what those of several processes under a supervisor make together."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    of_many: Literal["sum", "max"] = "sum"
    bounds: tuple[float, ...] = ()


_PAIR: Final = ("queue", "type")


def _counted(name: str, help: str, *labels: str) -> Family:
    return Family(name, "counter", help, labels)


def _now(name: str, help: str, *labels: str, of_many: Literal["sum", "max"] = "sum") -> Family:
    return Family(name, "gauge", help, labels, of_many)


# Of all tasks, from rows that were committed.
FLEET: Final = (
    _counted("wherry_tasks_enqueued_total", "Tasks that were stored", *_PAIR),
    _counted("wherry_tasks_requeued_total", "Tasks that were requeued by hand", *_PAIR),
    _counted("wherry_tasks_succeeded_total", "Tasks that succeeded", *_PAIR),
    _counted("wherry_tasks_failed_total", "Tasks that failed for good", *_PAIR),
    _counted("wherry_tasks_dead_total", "Tasks that died: no attempt was left", *_PAIR),
    _counted("wherry_tasks_canceled_total", "Tasks that were canceled", *_PAIR),
    _counted("wherry_tasks_retried_total", "Attempts that failed and are retried", *_PAIR),
    _counted("wherry_tasks_snoozed_total", "Attempts that put their task off", *_PAIR),
    _counted("wherry_tasks_released_total", "Leases that were given back unused", *_PAIR),
    _counted("wherry_leases_lost_total", "Leases that ran out: their worker was lost", *_PAIR),
    _now("wherry_tasks", "Tasks by state", *_PAIR, "state"),
    _now("wherry_oldest_due_seconds", "How long the first ready task has been due", "queue"),
    Family(
        "wherry_task_wait_seconds",
        "histogram",
        "From when an attempt was due until it was leased",
        _PAIR,
    ),
    Family(
        "wherry_task_run_seconds",
        "histogram",
        "From when an attempt was leased until its outcome was stored",
        _PAIR,
    ),
    _now("wherry_limited_queues", "Queues that have limits"),
    _now("wherry_queue_running_limit", "How many tasks of a queue may run at once", "queue"),
    _now("wherry_queue_limited_running", "How many run now of a queue with that limit", "queue"),
    _now("wherry_queue_starts_per_second_limit", "How many may start in a second", "queue"),
    _now(
        "wherry_queue_held_up",
        "Whether ready tasks wait for that limit of their queue just now: 1 or 0",
        "queue",
        "limit",
    ),
    _now("wherry_tally_age_seconds", "How old the newest of these sums is"),
    _now(
        "wherry_table_rows", "Rows of a table of Wherry, live and dead; estimates", "table", "kind"
    ),
    _now(
        "wherry_oldest_snapshot_seconds",
        "For how long somebody has kept vacuum from removing dead rows",
    ),
    _now("wherry_oldest_snapshot_transactions", "How many transactions old that snapshot is"),
    _now("wherry_sessions_hidden", "Sessions that the server's role may not look into for that"),
    _counted(
        "wherry_schedule_ticks_total",
        "Times of schedules, by what became of them",
        "schedule",
        "outcome",
    ),
    _now("wherry_schedules_late_seconds", "For how long the first schedule has been due"),
    _now("wherry_workers_alive", "Workers that are known and beat"),
    _now("wherry_database_up", "Whether the database answered just now: 1 or 0"),
)

# Of one process.
PROCESS: Final = (
    Family(
        "wherry_command_seconds",
        "histogram",
        "What was asked of the database, or of a server, and how long the answer took",
        ("command",),
        bounds=COMMAND_BOUNDS,
    ),
    _counted("wherry_command_errors_total", "Commands that were not answered", "command"),
    Family(
        "wherry_lease_batch_tasks",
        "histogram",
        "Tasks that came with one lease, if any came",
        bounds=BATCH_BOUNDS,
    ),
    Family(
        "wherry_report_batch_tasks",
        "histogram",
        "Outcomes in one report",
        bounds=BATCH_BOUNDS,
    ),
    _now("wherry_pool_connections", "Connections of the App's pools", "state"),
    _now("wherry_pool_connections_most", "The most connections that these pools may hold"),
    _now("wherry_pool_waiting", "Calls that wait for a connection"),
    _now("wherry_listeners_down", "Processes that should hear notifications and do not"),
)
WORKER: Final = (
    _now("wherry_worker_processes", "Workers that run"),
    _now("wherry_worker_slots", "How many tasks may run at once"),
    _now("wherry_worker_running", "Handlers that run now and have had to be waited for"),
    _now("wherry_worker_prefetched", "Tasks that are leased and not begun"),
    _now("wherry_worker_leases_held", "Leases from their arrival until their outcome is stored"),
    _counted("wherry_worker_outcomes_total", "Outcomes, by what was answered to them", "outcome"),
    _counted("wherry_worker_leases_lost_total", "Leases that were lost while they were held"),
    _now("wherry_worker_unreported", "Outcomes that are not known to be stored"),
    _now("wherry_worker_report_lag_seconds", "The age of the oldest of those", of_many="max"),
    _now(
        "wherry_worker_heartbeat_age_seconds",
        "Since heartbeats last got through",
        of_many="max",
    ),
    _now(
        "wherry_worker_loop_blocked_seconds",
        "For how long a handler has blocked the event loop",
        of_many="max",
    ),
)
SERVER: Final = (_now("wherry_server_polls", "Long polls that are open"),)
SUPERVISOR: Final = (
    _now("wherry_supervisor_workers_wanted", "Worker processes that should run"),
    _counted("wherry_supervisor_starts_total", "Worker processes that were started"),
)

FAMILIES: Final = {
    family.name: family for family in (*FLEET, *PROCESS, *WORKER, *SERVER, *SUPERVISOR)
}

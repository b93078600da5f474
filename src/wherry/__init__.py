"""Wherry: a task queue whose only queue and only source of truth is PostgreSQL.

The names below are imported on first use, so that `import wherry` (and the small keeper process of
the embedded server) stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.doctor.finding import Diagnosis, Finding, Verdict
    from wherry.domain.cron import Missed, Overlap, TickOutcome
    from wherry.domain.filter import Counted, DeadGroup, DeadGroups
    from wherry.domain.lease import Lease, Reported
    from wherry.domain.retry import Additive, Fixed, FullJitter
    from wherry.domain.schedule import ScheduleSeen, Tick
    from wherry.domain.state import State
    from wherry.domain.task import (
        Attempt,
        Canceled,
        Enqueued,
        HeldLease,
        Page,
        PausedType,
        Purged,
        QueueDepth,
        Replanned,
        RequeueAnswer,
        Requeued,
        Task,
    )
    from wherry.domain.why import Reason, Why
    from wherry.domain.worker import Directive, WorkerSeen
    from wherry.errors import (
        BlockingInLoop,
        Busy,
        ConfigError,
        DecodeError,
        DSNMissing,
        DuplicateType,
        EmbeddedError,
        EmbeddedStartFailed,
        EmbeddedUnavailable,
        HandlerError,
        IdTaken,
        InvalidOption,
        InvalidPayload,
        InvalidTask,
        KeyTaken,
        LeaseLost,
        LimitReached,
        MigrationEdited,
        MigrationError,
        MigrationFailed,
        MigrationLocked,
        MigrationMissing,
        MigrationRenamed,
        NotFinal,
        NotFound,
        PermissionDenied,
        PoolExhausted,
        ReadOnly,
        ResultError,
        ResultNotStored,
        SchemaError,
        SchemaForeign,
        SchemaMissing,
        SchemaTooNew,
        SchemaTooOld,
        ShuttingDown,
        TaskCanceled,
        TaskDead,
        TaskFailed,
        TimedOut,
        Unauthenticated,
        Unavailable,
        UnfitDatabase,
        UnknownImport,
        UnknownType,
        WherryError,
    )
    from wherry.maintenance.steps import Maintained
    from wherry.migrations.run import Applied
    from wherry.signals import Cancel, Fail, Retry, Signal, Snooze
    from wherry.tasks.task import TaskType
    from wherry.worker.context import Context, current
    from wherry.worker.logged import TaskFields
    from wherry.worker.summary import Summary

__version__ = "0.1.0"

_HOMES = {
    "wherry.app.app": ("App",),
    "wherry.doctor.finding": ("Diagnosis", "Finding", "Verdict"),
    "wherry.domain.cron": ("Missed", "Overlap", "TickOutcome"),
    "wherry.domain.filter": ("Counted", "DeadGroup", "DeadGroups"),
    "wherry.domain.lease": ("Lease", "Reported"),
    "wherry.domain.retry": ("Additive", "Fixed", "FullJitter"),
    "wherry.domain.schedule": ("ScheduleSeen", "Tick"),
    "wherry.domain.state": ("State",),
    "wherry.domain.task": (
        "Attempt",
        "Canceled",
        "Enqueued",
        "HeldLease",
        "Page",
        "PausedType",
        "Purged",
        "QueueDepth",
        "Replanned",
        "RequeueAnswer",
        "Requeued",
        "Task",
    ),
    "wherry.domain.why": ("Reason", "Why"),
    "wherry.domain.worker": ("Directive", "WorkerSeen"),
    "wherry.errors": (
        "BlockingInLoop",
        "Busy",
        "ConfigError",
        "DSNMissing",
        "DecodeError",
        "DuplicateType",
        "EmbeddedError",
        "EmbeddedStartFailed",
        "EmbeddedUnavailable",
        "HandlerError",
        "IdTaken",
        "InvalidOption",
        "InvalidPayload",
        "InvalidTask",
        "KeyTaken",
        "LeaseLost",
        "LimitReached",
        "MigrationEdited",
        "MigrationError",
        "MigrationFailed",
        "MigrationLocked",
        "MigrationMissing",
        "MigrationRenamed",
        "NotFinal",
        "NotFound",
        "PermissionDenied",
        "PoolExhausted",
        "ReadOnly",
        "ResultError",
        "ResultNotStored",
        "SchemaError",
        "SchemaForeign",
        "SchemaMissing",
        "SchemaTooNew",
        "SchemaTooOld",
        "ShuttingDown",
        "TaskCanceled",
        "TaskDead",
        "TaskFailed",
        "TimedOut",
        "Unauthenticated",
        "Unavailable",
        "UnfitDatabase",
        "UnknownImport",
        "UnknownType",
        "WherryError",
    ),
    "wherry.maintenance.steps": ("Maintained",),
    "wherry.migrations.run": ("Applied",),
    "wherry.signals": ("Cancel", "Fail", "Retry", "Signal", "Snooze"),
    "wherry.tasks.task": ("TaskType",),
    "wherry.worker.context": ("Context", "current"),
    "wherry.worker.logged": ("TaskFields",),
    "wherry.worker.worker": ("Summary",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Additive",
    "App",
    "Applied",
    "Attempt",
    "BlockingInLoop",
    "Busy",
    "Cancel",
    "Canceled",
    "ConfigError",
    "Context",
    "Counted",
    "DSNMissing",
    "DeadGroup",
    "DeadGroups",
    "DecodeError",
    "Diagnosis",
    "Directive",
    "DuplicateType",
    "EmbeddedError",
    "EmbeddedStartFailed",
    "EmbeddedUnavailable",
    "Enqueued",
    "Fail",
    "Finding",
    "Fixed",
    "FullJitter",
    "HandlerError",
    "HeldLease",
    "IdTaken",
    "InvalidOption",
    "InvalidPayload",
    "InvalidTask",
    "KeyTaken",
    "Lease",
    "LeaseLost",
    "LimitReached",
    "Maintained",
    "MigrationEdited",
    "MigrationError",
    "MigrationFailed",
    "MigrationLocked",
    "MigrationMissing",
    "MigrationRenamed",
    "Missed",
    "NotFinal",
    "NotFound",
    "Overlap",
    "Page",
    "PausedType",
    "PermissionDenied",
    "PoolExhausted",
    "Purged",
    "QueueDepth",
    "ReadOnly",
    "Reason",
    "Replanned",
    "Reported",
    "RequeueAnswer",
    "Requeued",
    "ResultError",
    "ResultNotStored",
    "Retry",
    "ScheduleSeen",
    "SchemaError",
    "SchemaForeign",
    "SchemaMissing",
    "SchemaTooNew",
    "SchemaTooOld",
    "ShuttingDown",
    "Signal",
    "Snooze",
    "State",
    "Summary",
    "Task",
    "TaskCanceled",
    "TaskDead",
    "TaskFailed",
    "TaskFields",
    "TaskType",
    "Tick",
    "TickOutcome",
    "TimedOut",
    "Unauthenticated",
    "Unavailable",
    "UnfitDatabase",
    "UnknownImport",
    "UnknownType",
    "Verdict",
    "WherryError",
    "Why",
    "WorkerSeen",
    "current",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'wherry' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})

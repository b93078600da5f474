"""What the tests of SQL share: a session that runs commands on a connection of its own.

A session is what a program is for PostgreSQL: it can leave a transaction open, and wait for
somebody else's. It is no App: nothing is sent again, so that an error of SQL is seen as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from wherry.commands.base import Command, Rows, Statement
from wherry.commands.leases import (
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.maintenance import Promoted, PromoteTasks, Reaped, ReapLeases
from wherry.commands.tasks import CancelTasks, EnqueueTasks, GetTask, PurgeTasks, RequeueTasks
from wherry.config import PoolSettings
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, LeaseRef, Reported
from wherry.domain.options import Options, TaskSpec
from wherry.domain.outcome import Completed, Failed, GivenBack
from wherry.domain.task import Canceled, Enqueued, Purged, Requeued, Task
from wherry.tasks.payload import encode
from wherry.transport.base import drive, run
from wherry.transport.connect import connection_text
from wherry.transport.render import render

R = TypeVar("R")

TABLES = ("live", "finished", "lease", "attempt", "key", "worker", "waiting", "paused", "front")
PATIENCE_SECONDS = 20.0
FAILURE = Failure("ValueError", "no good", "a traceback")


class Session:
    """One connection, made as our own are, and the commands that run on it."""

    def __init__(self, dsn: str, **options: str) -> None:
        text = connection_text(dsn, name="wherry test", settings=PoolSettings(), options=options)
        self.connection = psycopg.connect(
            make_conninfo(text, connect_timeout=10), autocommit=True, prepare_threshold=None
        )
        self.pid = self.connection.info.backend_pid

    def close(self) -> None:
        """End the connection, and with it whatever is open there."""
        self.connection.close()

    def call(self, command: Command[R]) -> R:
        """Answer *command* in the open transaction, else in one of its own as a pool would."""
        if command.atomic and not self.connection.info.transaction_status:
            with self.connection.transaction():
                return run(self.connection, command, schema="wherry")
        return run(self.connection, command, schema="wherry")

    def call_around(
        self, command: Command[R], *, before: str, act: Callable[[], object], nth: int = 1
    ) -> R:
        """Answer *command*; let something happen before its *nth* statement called *before*."""
        seen = 0

        def fetch(statement: Statement) -> Rows:
            nonlocal seen
            seen += statement.name == before
            if statement.name == before and seen == nth:
                act()
            sql = render(statement.name, "wherry", "dollar")
            with psycopg.RawCursor(self.connection) as cursor:
                values = [statement.params[name] for name in sql.names]
                cursor.execute(sql.text.encode(), values)
                return cursor.fetchall() if cursor.description else []

        return drive(command, fetch)

    def rows(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """Return the rows of any statement."""
        cursor = self.connection.execute(statement.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *params: Any) -> Any:
        """Return the only column of the only row."""
        [[value]] = self.rows(statement, *params)
        return value

    def begin(self, isolation: str = "read committed") -> None:
        """Open a transaction that stays open until `commit` or `rollback`."""
        self.rows(f"begin isolation level {isolation}")

    def commit(self) -> None:
        self.rows("commit")

    def rollback(self) -> None:
        self.rows("rollback")

    def enqueue(self, type: str = "t", payload: Any = None, **options: Any) -> int:
        """Store one task and return its id."""
        return self.enqueued(type, payload, **options).id

    def enqueued(self, type: str = "t", payload: Any = None, **options: Any) -> Enqueued:
        """Store one task and return the whole answer."""
        return self.call(EnqueueTasks((spec(type, payload, **options),)))[0]

    def enqueue_many(self, *specs: TaskSpec) -> list[Enqueued]:
        return self.call(EnqueueTasks(specs))

    def lease(self, n: int = 1, *, seconds: float = 30.0, **options: Any) -> list[Lease]:
        """Lease up to *n* tasks of the queue `default`, in one batch."""
        options = {"queue": "default", "worker": "w", **options}
        return self.call(LeaseTasks(limit=n, lease_seconds=seconds, **options))

    def lease_one(self, **options: Any) -> Lease:
        """Lease the next task; there must be one."""
        [lease] = self.lease(**options)
        return lease

    def complete(
        self, *leases: Lease, result: str | None = None, closed: Sequence[str] = ()
    ) -> list[Reported]:
        outcomes = tuple(Completed(lease, result) for lease in leases)
        return self.call(CompleteTasks(outcomes, tuple(closed)))

    def fail(
        self,
        *leases: Lease,
        verdict: Literal["retry", "fail", "cancel"] = "retry",
        after: float = 0.0,
        reason: str | None = None,
        failure: Failure = FAILURE,
        closed: Sequence[str] = (),
    ) -> list[Reported]:
        outcomes = tuple(Failed(lease, verdict, failure, after, reason) for lease in leases)
        return self.call(FailTasks(outcomes, tuple(closed)))

    def snooze(self, *leases: Lease, delay: float = 0.0) -> list[Reported]:
        return self.call(GiveBackTasks(tuple(GivenBack(o, "snooze", delay) for o in leases)))

    def release(self, *leases: Lease, closed: Sequence[str] = ()) -> list[Reported]:
        outcomes = tuple(GivenBack(lease, "release") for lease in leases)
        return self.call(GiveBackTasks(outcomes, tuple(closed)))

    def heartbeat(self, *leases: LeaseRef, seconds: float = 30.0) -> list[Reported]:
        return self.call(HeartbeatLeases(leases, seconds))

    def cancel(self, *ids: int, reason: str | None = None) -> list[Canceled]:
        return self.call(CancelTasks(ids, reason))

    def requeue(self, *ids: int, without_key: bool = False) -> list[Requeued]:
        return self.call(RequeueTasks(ids, without_key))

    def purge(self, *ids: int) -> list[int]:
        """Purge tasks and return the ids that are gone."""
        answers = zip(ids, self.call(PurgeTasks(ids)), strict=True)
        return [id_ for id_, answer in answers if answer is Purged.PURGED]

    def reap(self, batch: int = 100) -> Reaped:
        return self.call(ReapLeases(batch))

    def promote(self, batch: int = 1000) -> Promoted:
        return self.call(PromoteTasks(batch))

    def find(self, id: int) -> Task | None:
        return self.call(GetTask(id))

    def task(self, id: int) -> Task:
        """Read a task that must be there."""
        found = self.find(id)
        assert found is not None, f"task {id} is gone"
        return found

    def dump(self, *tables: str) -> dict[str, list[Any]]:
        """Return every row of our tables (or of *tables*), to compare before with after."""
        return {
            table: [
                row
                for (row,) in self.rows(f"select to_json(t) from wherry.{table} t order by t::text")
            ]
            for table in tables or TABLES
        }


def spec(type: str = "t", payload: Any = None, **options: Any) -> TaskSpec:
    """Return a checked task."""
    return Options(**options).spec(type, encode(payload or {}))


def result_of(future: Future[R]) -> R:
    """Return what a call in another thread answers, or raise what it raised."""
    return future.result(timeout=PATIENCE_SECONDS)


OpenSession = Callable[..., Session]

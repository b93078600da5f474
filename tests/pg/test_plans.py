"""Hot statements walk their indexes, also by a plan that was made while the tables were empty.

A worker prepares its statements when it starts, which may be before the first task is there, and
keeps the generic plan. So does this module: it prepares on empty tables, then loads 100,000 rows of
each kind without ANALYZE, and looks at what the old plan does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg import sql

from tests.pg.support import Session, spec
from wherry.commands.base import Command, Statement
from wherry.commands.leases import (
    CompleteInTransaction,
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseForPollers,
    LeaseTasks,
    ListPolicies,
    ReleaseUnconfirmed,
)
from wherry.commands.maintenance import (
    DiscardTasks,
    ParkTasks,
    PromoteTasks,
    ReapLeases,
    UnparkTasks,
)
from wherry.commands.queues import ListReadyOf, ListReadyQueues
from wherry.commands.tasks import (
    CancelTasks,
    EnqueueTasks,
    Filter,
    GetTask,
    ListTasks,
    PurgeTasks,
    QueuesOf,
    RequeueTasks,
)
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Poller
from wherry.domain.outcome import Completed, Failed, GivenBack
from wherry.domain.state import State
from wherry.testing import TemplateServer
from wherry.transport.render import render

MANY = 100_000
# Each step may look at each row of its batch of 200 a few times, but never at all of them for each.
MOST_ROWS = 12_000
BIG = ("live", "finished", "lease", "key", "attempt")
UUID = "00000000-0000-4000-8000-000000000001"

LOAD = f"""
insert into wherry.live (id, position, created_at, run_after, max_attempts, priority, state, queue,
                         type, key, payload)
select n, n, now(), now(), 20, n % 3, 'ready', 'q' || n % 10, 't', 'live-' || n, '{{}}'
  from generate_series(1, {MANY}) as n;
insert into wherry.live (id, position, created_at, run_after, max_attempts, state, queue, type,
                         payload)
select 200000 + n, n, now(), now() + n * interval '1 second', 20, 'delayed', 'q1', 't', '{{}}'
  from generate_series(1, {MANY}) as n;
insert into wherry.live (id, position, created_at, run_after, discard_at, max_attempts, state,
                         queue, type, payload)
select 400000 + n, n, now(), now(), now() + n * interval '1 hour', 20, 'parked', 'q1',
       'strange' || n % 100, '{{}}'
  from generate_series(1, {MANY}) as n;
insert into wherry.lease (lease_id, expires_at, queue, worker, task_ids)
select md5('l' || l)::uuid, now() + interval '1 hour' + l * interval '1 second', 'q1', 'w',
       (select array_agg(600000 + l * 10 + i) from generate_series(0, 9) as i)
  from generate_series(0, {MANY} / 10 - 1) as l;
insert into wherry.live (id, position, created_at, run_after, leased_at, lease_id, token, attempts,
                         max_attempts, state, queue, type, payload)
select id, id, now(), now(), now(), lease_id, 1, 1, 20, 'leased', 'q1', 't', '{{}}'
  from wherry.lease, unnest(task_ids) as n (id);
insert into wherry.finished (id, token, created_at, run_after, finished_at, keep_until, attempts,
                             max_attempts, priority, state, queue, type, key, payload)
select 800000 + n, 1, now(), now(), now(), now() + (n % 40) * interval '1 day', 1, 20, 0,
       case when n % 1000 = 0 then 'dead' else 'succeeded' end, 'q1', 't', 'done-' || n, '{{}}'
  from generate_series(1, {MANY}) as n;
insert into wherry.attempt (task_id, queue, token, attempt, ended_at, outcome)
select 800000 + n, 'q1', 1, 1, now(), 'failed' from generate_series(1, {MANY}) as n;
insert into wherry.key (queue, key, task_id, stamp, payload_hash)
select queue, key, id, id, ''::bytea from wherry.live where key is not null
 union all
select queue, key, id, id, ''::bytea from wherry.finished;
"""


def lease_of(n: int) -> Lease:
    """Return the lease of the *n*th leased task."""
    return Lease(
        id=600_000 + n, queue="q1", type="t", payload_text="{}", priority=0, position=0, attempt=1,
        max_attempts=20, token=1, lease_id=LEASE_IDS[n // 10], times="", deadline=math.inf,
    )  # fmt: skip


LEASE_IDS: list[str] = []
NOW: Any = None
FAILURE = Failure("E", "m", "")


@dataclass(frozen=True)
class Case:
    """A command (or a later statement of one), its indexes, and how many pages it may read."""

    name: str
    ask: Callable[[], Command[Any] | Statement]
    indexes: tuple[str, ...]
    buffers: int
    # What makes work for it, in the same transaction.
    first: str = ""


def settled() -> Statement:
    outcomes = [
        {"id": lease.id, "queue": "q1", "token": 1, "lease_id": lease.lease_id}
        for lease in (lease_of(n) for n in range(200))
    ]
    return Statement("leases/settled_tasks", {"outcomes": json.dumps(outcomes), "verb": "complete"})


WORKER = (
    "insert into wherry.worker values"
    f" ('{UUID}', 'w', 'h', 1, null, array['strange7'], now(), now(), now() + interval '1 minute')"
)
CASES = [
    Case("lease", lambda: LeaseTasks(queue="q1", worker="w", limit=200, types=("t",)),
         ("live_ready", "live_pkey"), 4000),
    Case("lease of an empty queue", lambda: LeaseTasks(queue="none", worker="w", limit=10),
         ("live_ready",), 20),
    Case("lease for pollers",
         lambda: LeaseForPollers("q1", ("t",), tuple(Poller(f"w{n}", 5, 1) for n in range(40))),
         ("live_ready", "live_pkey"), 4000),
    Case("lease for pollers of an empty queue",
         lambda: LeaseForPollers("none", None, tuple(Poller(f"w{n}", 1000) for n in range(200))),
         ("live_ready",), 20),
    Case("heartbeat", lambda: HeartbeatLeases(tuple(lease_of(n) for n in range(200))),
         ("lease_pkey", "live_pkey"), 3000),
    Case("heartbeat of a part", lambda: HeartbeatLeases(tuple(lease_of(n) for n in range(195))),
         ("lease_pkey", "live_pkey"), 3000),
    Case("complete", lambda: CompleteTasks(tuple(Completed(lease_of(n)) for n in range(200)),
                                           tuple(LEASE_IDS[:20])),
         ("lease_pkey", "live_pkey"), 6000),
    Case("complete in transaction", lambda: CompleteInTransaction(Completed(lease_of(5))),
         ("live_pkey",), 50),
    Case("fail", lambda: FailTasks(tuple(Failed(lease_of(n), "retry", FAILURE, 1.0)
                                         for n in range(200)), tuple(LEASE_IDS[:20])),
         ("lease_pkey", "live_pkey"), 8000),
    Case("give back", lambda: GiveBackTasks(tuple(GivenBack(lease_of(n), "release")
                                                  for n in range(200)), tuple(LEASE_IDS[:20])),
         ("lease_pkey", "live_pkey"), 8000),
    Case("release what is not confirmed",
         lambda: ReleaseUnconfirmed(tuple(lease_of(n) for n in range(200)), (36_000.0,) * 200),
         ("lease_pkey", "live_pkey"), 11_000),
    Case("list policies", lambda: ListPolicies(tuple(lease_of(n) for n in range(200))),
         ("live_pkey",), 2000),
    # One look into each of some forty-five days for each lease.
    Case("settled", settled, ("live_pkey", "lease_pkey"), 60_000),
    Case("enqueue", lambda: EnqueueTasks(tuple(spec() for _ in range(200))), (), 4000),
    Case("enqueue in runs of one",
         lambda: EnqueueTasks(tuple(spec(priority=n % 2) for n in range(200))), (), 4000),
    Case("enqueue one with a key among many without",
         lambda: EnqueueTasks((spec(key="new"), *(spec() for _ in range(199)))),
         ("key_pkey", "live_pkey"), 4500),
    Case("enqueue with keys",
         lambda: EnqueueTasks(tuple(spec(key=f"{kind}-{n}1", queue="q1")
                                    for n in range(100) for kind in ("live", "new"))),
         ("key_pkey", "live_pkey"), 6000),
    Case("look at keys",
         lambda: Statement("tasks/resolve_keys",
                           {"names": '[{"queue": "q1", "key": "done-7"}]'}),
         ("key_pkey", "live_pkey"), 150),
    Case("reap", lambda: ReapLeases(10), ("lease_by_expiry", "live_pkey"), 5000,
         first="update wherry.lease set expires_at = now() where lease_id in (select"
               " md5('l' || n)::uuid from generate_series(0, 19) as n)"),
    Case("reap nothing", lambda: ReapLeases(10), ("lease_by_expiry",), 50),
    Case("promote", lambda: PromoteTasks(200), ("live_delayed", "live_pkey"), 6000,
         first="update wherry.live set run_after = now() where id between 200001 and 200200"),
    Case("promote nothing", lambda: PromoteTasks(200), ("live_delayed",), 1000),
    Case("discard", lambda: DiscardTasks(200), ("live_discard", "live_pkey"), 6000,
         first="update wherry.live set discard_at = now() where id between 400001 and 400200"),
    Case("park", lambda: ParkTasks("q1", 200), ("live_ready", "live_pkey"), 8000, first=WORKER),
    Case("unpark", lambda: UnparkTasks(200), ("live_parked", "live_pkey"), 8000, first=WORKER),
    Case("unpark nothing", lambda: UnparkTasks(200), ("live_parked",), 20),
    Case("cancel", lambda: CancelTasks(tuple(range(201, 301)) + tuple(range(600_100, 600_200))),
         ("live_pkey",), 6000),
    Case("requeue", lambda: RequeueTasks(tuple(range(800_101, 800_301))), ("key_pkey",), 60_000),
    Case("requeue without key", lambda: RequeueTasks(tuple(range(800_101, 800_301)), True),
         ("key_pkey",), 60_000),
    Case("purge", lambda: PurgeTasks(tuple(range(800_101, 800_301))),
         ("attempt_pkey", "key_pkey"), 60_000),
    Case("known ids", lambda: Statement("tasks/list_known_ids",
                                        {"ids": [1, 800_100, 800_200, 999_999_999]}),
         ("live_pkey",), 800),
    Case("queues of tasks", lambda: QueuesOf((1, 600_001, 800_200, 999_999_999)),
         ("live_pkey",), 800),
    Case("get a task by its key", lambda: GetTask(queue="q1", key="done-7"), ("key_pkey",), 20),
    Case("get a task", lambda: GetTask(800_100), ("live_pkey",), 250),
    Case("list dead tasks", lambda: ListTasks(Filter(states=frozenset({State.DEAD})), 10),
         (), 300),
    Case("list live tasks",
         lambda: ListTasks(Filter(states=frozenset({State.QUEUED, State.LEASED})), 10),
         ("live_pkey",), 300),
    Case("list finished tasks",
         lambda: ListTasks(Filter(states=frozenset({State.SUCCEEDED})), 10), (), 400),
    Case("name the ready queues", lambda: ListReadyQueues(), ("live_ready",), 150),
    Case("which of these are ready", lambda: ListReadyOf(tuple(f"q{n}" for n in range(50))),
         ("live_ready",), 400),
]  # fmt: skip


def statement_of(case: Case) -> Statement:
    asked = case.ask()
    return asked if isinstance(asked, Statement) else next(asked.answer())


class Prepared:
    """A session whose statements were prepared while the tables were empty."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.rows("set plan_cache_mode = force_generic_plan")
        for table in ("live", "lease", "key", "attempt"):
            session.rows(f"alter table wherry.{table} set (autovacuum_enabled = false)")
        for number, case in enumerate(CASES):
            text = render(statement_of(case).name, "wherry", "dollar").text
            session.rows(f"prepare p{number} as {text}")
            session.begin()
            for _ in range(2):
                session.connection.execute(self._execute(case))
            session.rollback()

    def explain(self, case: Case) -> dict[str, Any]:
        """Return the root of the plan of a case as it ran; what it wrote is taken back."""
        self.session.begin()
        try:
            if case.first:
                self.session.rows(case.first)
            query = sql.SQL("explain (analyze, buffers, format json) ") + self._execute(case)
            [[plans]] = self.session.connection.execute(query).fetchall()
        finally:
            self.session.rollback()
        root: dict[str, Any] = plans[0]["Plan"]
        return root

    def _execute(self, case: Case) -> sql.Composed:
        statement = statement_of(case)
        names = render(statement.name, "wherry", "dollar").names
        name = sql.Identifier(f"p{CASES.index(case)}")
        if not names:
            return sql.SQL("execute {}").format(name)
        values = sql.SQL(", ").join(sql.Literal(statement.params[each]) for each in names)
        return sql.SQL("execute {}({})").format(name, values)


def rows_seen(node: dict[str, Any]) -> float:
    """Return how many rows a node of the plan has looked at in all its rounds."""
    passed_over = [node.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Join Filter")]
    return float((node["Actual Rows"] + sum(passed_over)) * node["Actual Loops"])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.fixture(scope="module")
def prepared(wherry_server: TemplateServer) -> Iterator[Prepared]:
    global NOW
    with wherry_server.database() as dsn:
        session = Session(dsn)
        LEASE_IDS[:] = [UUID] * 30
        NOW = session.value("select now()")
        found = Prepared(session)
        loader = Session(dsn)
        loader.rows("set enable_seqscan = on")
        loader.rows(LOAD)
        LEASE_IDS[:] = [
            row[0]
            for row in loader.rows("select md5('l' || l)::uuid::text from generate_series(0, 29) l")
        ]
        loader.close()
        yield found
        session.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_a_plan_made_on_empty_tables_walks_the_indexes_of_full_ones(
    prepared: Prepared, case: Case
) -> None:
    plan = prepared.explain(case)

    found = list(nodes(plan))
    scanned = [
        node["Relation Name"]
        for node in found
        if node["Node Type"] == "Seq Scan" and node["Relation Name"].startswith(BIG)
    ]
    assert scanned == []
    indexes = {node["Index Name"] for node in found if "Index Name" in node}
    assert set(case.indexes) <= indexes
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= case.buffers
    assert max(map(rows_seen, found)) <= MOST_ROWS

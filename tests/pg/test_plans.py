"""Hot statements walk their indexes in a large database, whatever the planner believes of it.

A worker prepares its statements when it starts, which may be before the first task is there, and
keeps those plans until somebody analyzes the tables. `plans.py` says what is asked of each plan.
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from uuid import UUID

import pytest

import wherry
from tests.pg.plans import (
    OF_ONE_TYPE,
    STATISTICS,
    Case,
    Large,
    Statistics,
    indexes_named,
)
from tests.pg.support import spec
from wherry.commands.base import Statement
from wherry.commands.finding import CountTasks, GroupDeadTasks, ListTasks, span_of
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
from wherry.commands.looking import WhyTask
from wherry.commands.maintenance import (
    CatchUpIds,
    DiscardTasks,
    DropPastDays,
    LookAround,
    ParkTasks,
    PromoteTasks,
    ReapLeases,
    UnparkTasks,
)
from wherry.commands.previewing import PreviewRequeue
from wherry.commands.queues import ListReadyOf, ListReadyQueues, ListStarts
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.tasks import (
    CancelTasks,
    EnqueueTasks,
    GetTask,
    PurgeTasks,
    QueuesOf,
    RequeueTasks,
)
from wherry.domain.failure import Failure
from wherry.domain.filter import Filter
from wherry.domain.front import Front
from wherry.domain.lease import Lease, Poller
from wherry.domain.outcome import Completed, Failed, GivenBack
from wherry.domain.state import FINAL, State
from wherry.testing import TemplateServer


def lease_of(n: int) -> Lease:
    """Return the lease of the *n*th leased task."""
    return Lease(
        id=600_000 + n, queue="q1", type="t", payload_text="{}", priority=0, position=0, attempt=1,
        max_attempts=20, token=1, lease_id=LEASE_IDS[n // 10], times="", deadline=math.inf,
    )  # fmt: skip


LEASE_IDS = [str(UUID(md5(f"l{n}".encode()).hexdigest())) for n in range(30)]
FAILURE = Failure("E", "m", "")


def settled() -> Statement:
    outcomes = [
        {"id": lease.id, "queue": "q1", "token": 1, "lease_id": lease.lease_id}
        for lease in (lease_of(n) for n in range(200))
    ]
    return Statement("leases/settled_tasks", {"outcomes": json.dumps(outcomes), "verb": "complete"})


WORKER = (
    "insert into wherry.worker values"
    f" ('{LEASE_IDS[0]}', 'w', 'h', 1, null, array['strange7'], now(), now(),"
    " now() + interval '1 minute')"
)
TOMORROW = (
    "create or replace function wherry.now() returns timestamptz language sql stable parallel safe"
    " as $$ select statement_timestamp() + interval '1 day' $$"
)
FRONT = Front().past({2: 100, 1: 200})
CASES = [
    Case("lease", lambda: LeaseTasks(queue="q1", worker="w", limit=200, types=("t",)),
         2600),
    Case("lease past a front",
         lambda: LeaseTasks(queue="q1", worker="w", limit=200, types=("t",), front=FRONT),
         2600),
    Case("read payloads",
         lambda: Statement("leases/read_payloads",
                           {"queue": "q1", "ids": list(range(600_000, 600_200))}),
         500, pages_before_17=900),
    Case("find the first ready of each stretch",
         lambda: Statement("maintenance/find_first_ready", {"queue": "q1", **FRONT.params}),
         60),
    Case("rescue tasks",
         lambda: Statement("maintenance/rescue_tasks",
                           {"queues": ["q1"], "highs": [2], "lows": [2], "starts": [6000],
                            "batch": 100}),
         2600),
    Case("lease of an empty queue", lambda: LeaseTasks(queue="none", worker="w", limit=10),
         20),
    Case("lease for pollers",
         lambda: LeaseForPollers("q1", ("t",), tuple(Poller(f"w{n}", 5, 1) for n in range(40))),
         2600),
    Case("lease for pollers of an empty queue",
         lambda: LeaseForPollers("none", None, tuple(Poller(f"w{n}", 1000) for n in range(200))),
         20),
    Case("why of a ready task",
         lambda: Statement("tasks/why_task", {"id": 9990, "most": 200}), 2600),
    Case("why of a finished task", lambda: WhyTask(800_007), 120),
    Case("heartbeat", lambda: HeartbeatLeases(tuple(lease_of(n) for n in range(200))),
         160, pages_before_17=700),
    Case("heartbeat of a part", lambda: HeartbeatLeases(tuple(lease_of(n) for n in range(195))),
         160, pages_before_17=700),
    Case("complete", lambda: CompleteTasks(tuple(Completed(lease_of(n)) for n in range(200)),
                                           tuple(LEASE_IDS[:20])),
         1050, pages_before_17=2000),
    Case("complete around what is held",
         lambda: CompleteTasks(tuple(Completed(lease_of(n)) for n in range(200)),
                               tuple(LEASE_IDS[:20]), unlocked=True),
         1050, pages_before_17=2000),
    Case("complete in transaction", lambda: CompleteInTransaction(Completed(lease_of(5))),
         20, by_callers=True),
    Case("fail", lambda: FailTasks(tuple(Failed(lease_of(n), "retry", FAILURE, 1.0)
                                         for n in range(200)), tuple(LEASE_IDS[:20])),
         3500),
    Case("give back", lambda: GiveBackTasks(tuple(GivenBack(lease_of(n), "release")
                                                  for n in range(200)), tuple(LEASE_IDS[:20])),
         3500),
    Case("release what is not confirmed",
         lambda: ReleaseUnconfirmed(tuple(lease_of(n) for n in range(200)), (36_000.0,) * 200),
         4000, pages_before_17=5500),
    Case("list policies", lambda: ListPolicies(tuple(lease_of(n) for n in range(200))),
         900),
    # One look into each of some forty-five days for each lease.
    Case("settled", settled, 30_000),
    Case("enqueue one", lambda: EnqueueTasks((spec(),)), 30, by_callers=True),
    Case("enqueue", lambda: EnqueueTasks(tuple(spec() for _ in range(200))),
         3000, by_callers=True),
    Case("enqueue in runs of one",
         lambda: EnqueueTasks(tuple(spec(priority=n % 2) for n in range(200))),
         3000, by_callers=True),
    Case("enqueue one with a key among many without",
         lambda: EnqueueTasks((spec(key="new"), *(spec() for _ in range(199)))),
         3000, by_callers=True),
    Case("enqueue with keys",
         lambda: EnqueueTasks(tuple(spec(key=f"{kind}-{n}1", queue="q1")
                                    for n in range(100) for kind in ("live", "new"))),
         4200, by_callers=True),
    Case("look at keys",
         lambda: Statement("tasks/resolve_keys",
                           {"names": '[{"queue": "q1", "key": "done-7"}]'}),
         40, by_callers=True),
    Case("reap", lambda: ReapLeases(10), 2000,
         first="update wherry.lease set expires_at = now() where lease_id in (select"
               " md5('l' || n)::uuid from generate_series(0, 19) as n)"),
    Case("reap nothing", lambda: ReapLeases(10), 20),
    Case("promote", lambda: PromoteTasks(200), 4000,
         first="update wherry.live set run_after = now() where id between 200001 and 200200"),
    Case("promote nothing", lambda: PromoteTasks(200), 60),
    Case("discard", lambda: DiscardTasks(200), 1300, pages_before_17=1800,
         first="update wherry.live set discard_at = now() where id between 400001 and 400200"),
    # Other cases have left entries in front of these indexes, which they took back.
    Case("look around", lambda: LookAround(), 150),
    Case("park", lambda: ParkTasks("q1", 200), 3300, first=WORKER),
    Case("unpark", lambda: UnparkTasks(200), 4300, first=WORKER),
    Case("unpark nothing", lambda: UnparkTasks(200), 20),
    Case("cancel", lambda: CancelTasks(tuple(range(201, 301)) + tuple(range(600_100, 600_200))),
         1500, pages_before_17=3200),
    Case("reprioritize",
         lambda: ReprioritizeTasks(tuple(range(201, 301)) + tuple(range(600_100, 600_200)), 7),
         2500, pages_before_17=3200),
    Case("reschedule",
         lambda: RescheduleTasks(tuple(range(201, 301)) + tuple(range(600_100, 600_200))),
         2500, pages_before_17=3200),
    Case("requeue", lambda: RequeueTasks(tuple(range(800_101, 800_301))),
         7500, pages_before_17=55_000),
    Case("requeue without key", lambda: RequeueTasks(tuple(range(800_101, 800_301)), True),
         3400, pages_before_17=52_000),
    Case("requeue with other payloads",
         lambda: RequeueTasks(tuple(range(800_101, 800_151)), merge_payload='{"a": 1}'),
         2000, pages_before_17=14_000),
    Case("preview of a requeue", lambda: PreviewRequeue(800_101, '{"a": 1}'),
         130),
    Case("purge", lambda: PurgeTasks(tuple(range(800_101, 800_301))),
         1300, pages_before_17=50_000),
    Case("known ids", lambda: Statement("tasks/list_known_ids",
                                        {"ids": [1, 800_100, 800_200, 999_999_999]}),
         230),
    Case("queues of tasks", lambda: QueuesOf((1, 600_001, 800_200, 999_999_999)),
         160),
    Case("ticks with the states of their tasks",
         lambda: Statement("schedules/list_ticks",
                           {"name": "s", "limit_rows": 100, "before": None}),
         700, pages_before_17=10_500,
         first="insert into wherry.tick"
               " select 's', now() + n * interval '1 s', false, now() + n * interval '1 s', 1,"
               " 'fired', 600000 + n * 1900, now() from generate_series(1, 500) n"),
    Case("schedules with their running tasks",
         lambda: Statement("schedules/read_standing", {"names": ["s"]}),
         100,
         first="insert into wherry.schedule (name, cron, tz, type, queue, priority, max_attempts,"
               " payload, missed, overlap, definition, by_hand, created_at, changed_at, next_at,"
               " running) values ('s', '* * * * *', 'UTC', 't', 'q1', 0, 1, '{}', 'last', 'skip',"
               " 'd', true, now(), now(), now(), array[1, 600001, 999999999]::bigint[])"),
    Case("get a task by its key", lambda: GetTask(queue="q1", key="done-7"), 20),
    Case("list attempts", lambda: Statement("tasks/list_attempts",
                                            {"ids": list(range(800_101, 800_301))}),
         60, pages_before_17=550),
    Case("get a task", lambda: GetTask(800_100), 150),
    Case("read what a copy takes over",
         lambda: Statement("tasks/read_original", {"id": 800_100}), 150),
    Case("list what workers hold", lambda: Statement("workers/list_held", {"most": 200}), 1500),
    Case("list dead tasks", lambda: ListTasks(Filter(states=frozenset({State.DEAD})), 10),
         130),
    Case("list live tasks",
         lambda: ListTasks(Filter(states=frozenset({State.QUEUED, State.LEASED})), 10),
         100),
    Case("list finished tasks",
         lambda: ListTasks(Filter(states=frozenset({State.SUCCEEDED})), 10), 200),
    Case("list the tasks before one",
         lambda: ListTasks(Filter(states=frozenset({State.QUEUED, State.LEASED})), 10,
                           before=200_100),
         100),
    Case("find newer finished tasks",
         lambda: Statement("tasks/find_newer_finished",
                           span_of(Filter(), least=805_000)
                           | {"states": ["succeeded"], "limit_tasks": 10}),
         200),
    Case("group dead tasks", lambda: GroupDeadTasks(Filter(states=FINAL), most=5), 110),
    Case("count live tasks", lambda: CountTasks(Filter(), 300), 4000),
    Case("count finished tasks", lambda: CountTasks(Filter(states=FINAL), 300), 4000),
    Case("forget what was sent again",
         lambda: Statement("tasks/settle_resent",
                           {"ids": list(range(800_101, 800_111)), "token": 0}),
         460, pages_before_17=2600, is_function=True, by_callers=True),
    Case("name the ready queues", lambda: ListReadyQueues(), 120),
    Case("which of these are ready", lambda: ListReadyOf(tuple(f"q{n}" for n in range(50))),
         320),
    Case("tell when tasks may start", lambda: ListStarts(None), 60,
         first="insert into wherry.limited"
               " select 'q' || n, 9, 1, 1, 1, 0, now() from generate_series(0, 4) n"),
    Case("lease from a limited queue",
         lambda: LeaseTasks(queue="q1", worker="w", limit=10), 1500, is_function=True,
         first="insert into wherry.limited values ('q1', 300, null, null, null, 0, now())"),
    Case("count states", lambda: Statement("flow/count_states", {"queues": None, "most": 200}),
         1300),
    Case("list what workers hold", lambda: Statement("workers/list_held", {"most": 200}), 1300),
    Case("list what is due longest",
         lambda: Statement("flow/list_oldest_due", {"queues": [f"q{n}" for n in range(10)]}), 700),
    Case("look for ids that the sequence is behind of", lambda: CatchUpIds(), 600,
         first="select setval('wherry.task_id', (select max(id) from wherry.tasks))",
         is_function=True),
    # Near the end, for what it has put there is in the way of others.
    Case("unpark past what is paused in its queue", lambda: UnparkTasks(200), 4300,
         first=f"{WORKER.replace('strange7', 'big')}; insert into wherry.paused_type values"
               " ('big', 'q1', now()); insert into wherry.live (id, position, created_at,"
               " run_after, max_attempts, state, queue, type, payload)"
               " select 500000 + n, n, now(), now(), 20, 'parked', case when n % 25 = 0 then 'q2'"
               " else 'q1' end, 'big', '{}' from generate_series(1, 5000) as n"),
    Case("tell what nobody knows past what is paused",
         lambda: Statement("doctor/list_parked_types", {"most": 200}), 700,
         first="insert into wherry.paused_type values ('big', '', now()); insert into wherry.live"
               " (id, position, created_at, run_after, max_attempts, state, queue, type, payload)"
               " select 500000 + n, n, now(), now(), 20, 'parked', 'q' || n, 'big', '{}'"
               " from generate_series(1, 2500) as n"),
    Case("count what is set aside by pauses",
         lambda: Statement("doctor/list_type_pauses", {"most": 20}), 250,
         first="insert into wherry.paused_type select 'strange' || n, case when n > 1 then 'q2'"
               " else '' end, now() from generate_series(1, 20) as n"),
    # The last: with another now() the plans of all others are made anew.
    Case("drop past days", lambda: DropPastDays(50), 1500, is_function=True,
         first=f"{TOMORROW}; select wherry.drop_past_days(50) from generate_series(1, 3)"),
]  # fmt: skip


@pytest.mark.parametrize("statistics", STATISTICS)
def test_a_statement_looks_at_its_own_batch_only(
    wherry_server: TemplateServer, statistics: Statistics
) -> None:
    """SCL-05."""
    with ExitStack() as stack:
        dsn = stack.enter_context(wherry_server.database())
        large = Large(dsn, CASES, statistics=statistics, stack=stack)

        complaints = [
            f"{case.name} ({case.statement.name}), {planned} plan: {complaint}"
            for case in CASES
            for planned in case.planned
            for complaint in large.complaints(case, planned)
        ]

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_a_lease_looks_at_its_own_batch_only_where_all_tasks_are_of_one_type(
    wherry_server: TemplateServer, statistics: Statistics
) -> None:
    asked = LeaseTasks(queue="default", worker="w", limit=200, types=("t",))
    leases = [
        Case("lease", lambda: asked, 2600),
        Case("lease past a front", lambda: replace(asked, front=FRONT), 2600),
        Case("lease for pollers", lambda: LeaseForPollers("default", ("t",), (Poller("w", 200),)),
             2600),
    ]  # fmt: skip
    with ExitStack() as stack:
        dsn = stack.enter_context(wherry_server.database())
        large = Large(dsn, leases, statistics=statistics, stack=stack, load=OF_ONE_TYPE)

        complaints = [
            f"{case.name}, {planned} plan: {complaint}"
            for case in leases
            for planned in case.planned
            for complaint in large.complaints(case, planned)
        ]

    assert not complaints, "\n".join(complaints)


def test_every_statement_that_names_an_index_of_a_large_table_is_looked_at() -> None:
    folder = Path(wherry.__file__).parent / "sql"
    families = {path for path in folder.iterdir() if path.is_dir()}
    # Parts are looked at in their statements. The doctor looks for people, and each look ends
    # after three seconds.
    asked_all_day = families - {folder / "parts", folder / "doctor"}
    names = {f"{path.name}/{each.stem}" for path in asked_all_day for each in path.glob("*.sql")}

    looked_at = {case.statement.name for case in CASES}

    assert {name for name in names if indexes_named(name)} - looked_at == set()

"""Every change by an operator leaves exactly one row: who, from where, what, to what, why.

The command line's are in tests/cli/test_audit.py. Which rpcs change something as an operator is
said in `rights.py`, so that a new one is tried here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.security.doors import Calls
from tests.security.places import HUSH, MINE, OTHER, Place, bearer, create, dump, place
from tests.security.rights import NEEDS
from wherry.domain.token import Right

RIGHTS = [str(right) for right in Right]
BY_OPERATORS = [rpc for rpc, need in NEEDS.items() if need.right == "admin" or need.is_audited]
ACTIONS = {
    "CancelTask": "cancel_tasks",
    "CancelTasks": "cancel_tasks",
    "RequeueTask": "requeue_tasks",
    "RequeueTasks": "requeue_tasks",
    "CopyTask": "copy_task",
    "ReprioritizeTasks": "reprioritize_tasks",
    "RescheduleTasks": "reschedule_tasks",
    "PurgeTasks": "purge_tasks",
    "PauseQueue": "pause_queue",
    "ResumeQueue": "resume_queue",
    "SetQueueLimits": "set_queue_limits",
    "PauseType": "pause_type",
    "ResumeType": "resume_type",
    "DirectWorkers": "direct_workers",
    "AddSchedule": "add_schedule",
    "RunSchedule": "run_schedule",
    "PauseSchedule": "pause_schedule",
    "ResumeSchedule": "resume_schedule",
    "DeleteSchedule": "delete_schedule",
}
# By a filter on the whole place: two of its tasks are live, one has ended.
# A worker declares the schedule, which is not paused: it is neither resumed nor deleted.
COUNTS = {
    "CancelTasks": 2,
    "ResumeQueue": 0,
    "ResumeType": 0,
    "DirectWorkers": 0,
    "ResumeSchedule": 0,
    "DeleteSchedule": 0,
}


def rows(sql: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    found = sql.execute("select to_jsonb(a) from wherry.audit a order by id").fetchall()
    return [row for (row,) in found]


def target_of(rpc: str, p: Place) -> dict[str, Any]:
    live = ["queued", "leased"]
    ended = ["succeeded", "failed", "dead", "canceled"]
    match rpc:
        case "CancelTask":
            return {"ids": [p.ready]}
        case "RequeueTask" | "CopyTask":
            return {"ids": [p.ended]}
        case "CancelTasks":
            ids = [p.ready, p.leased]
            return {"ids": ids, "filter": {"queue": p.queue, "state": live}}
        case "RequeueTasks" | "PurgeTasks":
            return {"ids": [p.ended], "filter": {"queue": p.queue, "state": ended}}
        case "ReprioritizeTasks" | "RescheduleTasks":
            asked = {"ids": [p.ready], "filter": {"queue": p.queue, "state": ["queued"]}}
            new = {"priority": 3} if rpc == "ReprioritizeTasks" else {"delay_seconds": 3.0}
            return asked | new
        case "PauseType" | "ResumeType":
            return {"type": "t", "queue": p.queue}
        case "SetQueueLimits":
            return {"queue": p.queue, "max_running": 1000}
        case "AddSchedule":
            return {"schedule": f"by-hand-{p.queue}"}
        case "RunSchedule" | "PauseSchedule" | "ResumeSchedule" | "DeleteSchedule":
            return {"schedule": p.schedule}
        case "DirectWorkers":
            return {"names": ["w"], "directive": "drain"}
        case _:
            return {"queue": p.queue}


async def test_every_change_leaves_one_row(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    sql = connect()
    token = bearer(await create(app, "admin", "read", "enqueue", name="Alma"))
    assert set(ACTIONS) == set(BY_OPERATORS)
    for n, rpc in enumerate(BY_OPERATORS):
        there = await place(app, f"q-{n}")
        before = len(rows(sql))

        said = await call(rpc, NEEDS[rpc].fields(there), token)

        assert said.code == "OK", said
        [row] = rows(sql)[before:]
        assert row["action"] == ACTIONS[rpc]
        assert (row["actor"], row["peer"], row["reason"]) == ("Alma", "127.0.0.1", "why")
        copied = {"stored": int(said.body["id"])} if rpc in ("CopyTask", "RunSchedule") else {}
        assert row["target"] == target_of(rpc, there) | copied, rpc
        assert row["count"] == COUNTS.get(rpc, 1), rpc
        # No payload, key, tag or header of any task.
        assert HUSH not in repr(row)


async def test_nothing_else_leaves_a_row(
    app: wherry.App, doors: list[Calls], connect: Callable[..., Any]
) -> None:
    token = bearer(await create(app, *RIGHTS))
    for call in doors:
        for n, (rpc, need) in enumerate(NEEDS.items()):
            if rpc not in BY_OPERATORS:
                await call(rpc, need.fields(await place(app, f"{call.name}-{n}")), token)

    assert rows(connect()) == []


async def test_what_was_refused_and_what_was_rehearsed_leave_no_row(
    app: wherry.App, doors: list[Calls], connect: Callable[..., Any]
) -> None:
    sql = connect()
    there, other = await place(app, MINE), await place(app, OTHER)
    limited = bearer(await create(app, *RIGHTS, queues=(MINE,)))
    lacking = {
        lack: bearer(await create(app, *(right for right in RIGHTS if right != lack)))
        for lack in ("admin", "enqueue")
    }
    before = dump(sql)
    for call in doors:
        for rpc in BY_OPERATORS:
            fields = dict(NEEDS[rpc].fields(there))
            for shown in ((), ("Bearer x",), (lacking[NEEDS[rpc].right or ""],)):
                assert (await call(rpc, fields, *shown)).code != "OK", rpc
            elsewhere = await call(rpc, NEEDS[rpc].fields(other), limited)
            assert elsewhere.code != "OK", rpc
            # A reason that nobody could store.
            too_long = await call(rpc, fields | {"reason": "x" * 100_000}, limited)
            assert too_long.code in ("INVALID_ARGUMENT", "PERMISSION_DENIED"), (rpc, too_long)
            if "selection" in fields:
                for selection in (fields["selection"], {"ids": [there.ready, other.ready]}):
                    asked = fields | {"selection": selection, "dry_run": True}
                    rehearsed = await call(rpc, asked, limited)
                    assert rehearsed.code == "OK", rehearsed
                asked = fields | {"selection": {"ids": [other.ended]}}
                only_others = await call(rpc, asked, limited)
                assert only_others.code == "OK"
        for rpc in ("CancelTask", "RequeueTask", "CopyTask"):
            missing = await call(rpc, {"id": 9_000_000_000}, limited)
            assert missing.code == "NOT_FOUND"

    assert rows(sql) == []
    assert dump(sql) == before


async def test_a_change_that_cannot_be_written_down_does_not_happen(
    app: wherry.App,
    call: Calls,
    connect: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sql = connect()
    there = await place(app, MINE)
    token = bearer(await create(app, "admin", "read", "enqueue"))
    sql.execute("alter table wherry.audit add constraint full_disk check (false)")
    before = dump(sql)

    for rpc in BY_OPERATORS:
        said = await call(rpc, NEEDS[rpc].fields(there), token)
        assert said.code in ("INTERNAL", "500"), said
        assert "full_disk" not in said.text

    assert dump(sql) == before
    assert HUSH not in caplog.text

"""Callers of one queue, and what is in another: they change and learn nothing there."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

import pytest

import wherry
from tests.facts import await_for
from tests.security.doors import Calls, Said
from tests.security.places import HUSH, MINE, OTHER, bearer, create, dump, place

RIGHTS = ("enqueue", "work", "read", "admin")
NO_TASK = 9_000_000_000


@pytest.fixture
async def me(app: wherry.App) -> str:
    """Somebody who may do everything, in one queue."""
    return bearer(await create(app, *RIGHTS, queues=(MINE,)))


@pytest.fixture
async def all_powerful(app: wherry.App) -> str:
    """Somebody who may do everything."""
    return bearer(await create(app, *RIGHTS))


def ids_of(said: Said, name: str = "tasks") -> list[int]:
    return [int(each["id"]) for each in said.body.get(name, [])]


async def test_nothing_is_leased_if_one_of_the_queues_is_not_allowed(
    app: wherry.App, call: Calls, me: str, connect: Callable[..., Any]
) -> None:
    await place(app, MINE)
    await place(app, OTHER)
    await app.aenqueue("t")
    before = dump(connect())

    for queues in (["*"], [OTHER], [MINE, OTHER], [OTHER, MINE], [MINE, "*"], []):
        said = await call("Lease", {"worker_id": "w", "queues": queues, "max_tasks": 10}, me)

        assert said.code == "PERMISSION_DENIED", queues
    assert dump(connect()) == before


async def test_a_schedule_of_another_queue_is_neither_replaced_nor_kept_alive(
    app: wherry.App, call: Calls, me: str, connect: Callable[..., Any]
) -> None:
    other = await place(app, OTHER)
    ours = {"name": other.schedule, "cron": "* * * * *", "type": "t", "queue": MINE}
    asked = {"worker_id": "w", "instance": str(UUID(int=7)), "schedules": [ours]}
    before = dump(connect())

    said = await call("DeclareSchedules", asked, me)
    added = await call("AddSchedule", {"schedule": ours}, me)

    assert (said.code, said.body["foreign"]) == ("OK", [other.schedule])
    assert (added.code, added.body.get("added", False)) == ("OK", False)
    after = dump(connect())
    # The server knows the worker now, and the audit what was tried.
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} <= {"worker", "audit"}


async def test_of_schedules_those_for_another_queue_are_refused_by_name(
    app: wherry.App, call: Calls, me: str
) -> None:
    def asked(**queues: str) -> dict[str, Any]:
        kind = {"cron": "0 0 29 2 *", "type": "t"}
        schedules = [{**kind, "name": name, "queue": of} for name, of in queues.items()]
        return {"worker_id": "w", "instance": str(UUID(int=7)), "schedules": schedules}

    async def declared() -> Any:
        said = await call("DeclareSchedules", asked(a=MINE, b=OTHER, c=MINE), me)
        assert (said.code, said.body["refused"]) == ("OK", ["b"])
        return not said.body.get("unknown_worker", False)

    await await_for(declared)
    assert {each.name: each.declared_by for each in await app.alist_schedules()} == {"a": 1, "c": 1}

    # Of one that it moved there itself nothing is kept alive.
    moved = await call("DeclareSchedules", asked(a=OTHER), me)

    assert moved.body["refused"] == ["a"]
    assert {each.name: each.declared_by for each in await app.alist_schedules()} == {"a": 0, "c": 1}


async def test_globs_that_match_much_do_not_stand_for_all(app: wherry.App, call: Calls) -> None:
    for glob in ("?", "?*", "[*]", "**?", "*.*", "m*"):
        shown = bearer(await create(app, *RIGHTS, queues=(glob, MINE)))

        asked = [
            await call("Lease", {"worker_id": "w", "queues": ["*"]}, shown),
            await call("ListTasks", {}, shown),
            await call("CancelTasks", {"selection": {"filter": {"type": "t"}}}, shown),
            await call("DirectWorkers", {"names": ["w"], "directive": "DIRECTIVE_STOP"}, shown),
        ]

        assert {said.code for said in asked} == {"PERMISSION_DENIED"}, glob


async def test_a_glob_means_over_the_wire_what_it_means_to_fnmatch(
    app: wherry.App, call: Calls
) -> None:
    queues = ["a", "b", "A", "ab", "a*", "a.b", "[a-c]1", "a1", "c1", "d1", "é", "a/b", "a\\b"]
    globs = ["a*", "[a-c]?", "[!a]", "A", "a.?", "[[]a-c]1", "?", "a/*", "[a-c]1", "é", "a[*]"]
    for queue in queues:
        await app.aenqueue("t", queue=queue)

    for glob in globs:
        shown = bearer(await create(app, "enqueue", "read", queues=(glob,)))
        seen = await call("ListQueues", {}, shown)
        tasks = [{"queue": queue, "type": "t"} for queue in queues]
        stored = await call("EnqueueBatch", {"tasks": tasks}, shown)

        allowed = [queue for queue in queues if fnmatchcase(queue, glob)]
        assert sorted(each["name"] for each in seen.body.get("queues", [])) == sorted(allowed)
        taken = ["task" in result for result in stored.body["results"]]
        assert [queue for queue, yes in zip(queues, taken, strict=True) if yes] == allowed


async def test_anothers_task_cannot_be_told_from_one_that_is_not_there(
    app: wherry.App, call: Calls, me: str, connect: Callable[..., Any]
) -> None:
    other = await place(app, OTHER)
    before = dump(connect())
    for rpc in ("GetTask", "CancelTask", "RequeueTask", "CopyTask"):
        for there in (other.ready, other.leased, other.ended):
            found = await call(rpc, {"id": there}, me)
            missing = await call(rpc, {"id": NO_TASK}, me)

            assert found.code == missing.code == "NOT_FOUND"
            # Behind the first line gRPC's details have the lengths of the ids too.
            texts = [said.text.partition("\n")[0] for said in (found, missing)]
            assert texts[0].replace(str(there), "ID") == texts[1].replace(str(NO_TASK), "ID")

    by_key = [
        await call("GetTask", {"key": {"queue": OTHER, "key": key}}, me)
        for key in (other.key, "nobody has this key")
    ]

    assert by_key[0].code == "PERMISSION_DENIED"
    assert by_key[0].text == by_key[1].text
    assert dump(connect()) == before


async def test_a_copy_goes_only_where_one_may_enqueue(
    app: wherry.App, call: Calls, me: str, connect: Callable[..., Any]
) -> None:
    mine = await place(app, MINE)
    before = dump(connect())

    refused = await call("CopyTask", {"id": mine.ended, "queue": OTHER}, me)

    assert refused.code == "PERMISSION_DENIED"
    assert dump(connect()) == before
    assert (await call("CopyTask", {"id": mine.ended, "queue": MINE}, me)).code == "OK"


async def test_tasks_are_put_only_where_one_may_enqueue(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    mine = await place(app, MINE)
    operator = bearer(await create(app, "admin", "enqueue", queues=(MINE,)))
    admin = bearer(await create(app, "admin", queues=("*",)))
    before = dump(connect())
    fields = {"selection": {"ids": [mine.ended]}, "reason": "why"}

    elsewhere = await call("RequeueTasks", {**fields, "to_queue": OTHER}, operator)
    without = await call("RequeueTasks", {**fields, "to_queue": OTHER}, admin)

    assert elsewhere.code == without.code == "PERMISSION_DENIED"
    assert dump(connect()) == before
    there = await call("RequeueTasks", {**fields, "to_queue": MINE}, operator)
    assert there.body["matched"] == 1


async def test_payloads_are_changed_only_where_one_may_enqueue(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    mine, theirs = await place(app, MINE), await place(app, OTHER)
    both = bearer(await create(app, "admin", "enqueue", queues=(MINE,)))
    admin = bearer(await create(app, "admin", queues=("*",)))
    before = dump(connect())

    def asked(selection: dict[str, Any]) -> dict[str, Any]:
        return {"selection": selection, "merge_payload": '{"a": 1}'}

    refused = [
        await call("RequeueTasks", asked({"ids": [mine.ended]}), admin),
        await call("RequeueTasks", asked({"filter": {"queue": MINE}}), admin),
        await call("RequeueTasks", asked({"filter": {"queue": OTHER}}), both),
    ]
    nothing = await call("RequeueTasks", asked({"ids": [theirs.ended]}), both)

    assert {each.code for each in refused} == {"PERMISSION_DENIED"}
    assert not nothing.body.get("matched")
    assert dump(connect()) == before
    changed = await call("RequeueTasks", asked({"ids": [mine.ended]}), both)
    assert changed.body["matched"] == 1


async def test_what_a_copy_takes_away_takes_the_right_to_purge(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    mine = await place(app, MINE)
    copier = bearer(await create(app, "read", "enqueue", queues=(MINE,)))
    operator = bearer(await create(app, "read", "enqueue", "admin", queues=(MINE,)))
    before = dump(connect())

    refused = await call("CopyTask", {"id": mine.ended, "purge": True}, copier)

    assert refused.code == "PERMISSION_DENIED"
    assert dump(connect()) == before
    assert (await call("CopyTask", {"id": mine.ended, "purge": True}, operator)).code == "OK"
    assert (await call("GetTask", {"id": mine.ended}, operator)).code == "NOT_FOUND"


@pytest.mark.parametrize("rpc", ["CancelTasks", "RequeueTasks", "PurgeTasks"])
async def test_a_bulk_change_by_ids_touches_and_tells_of_ones_own_only(
    app: wherry.App, call: Calls, me: str, rpc: str, connect: Callable[..., Any]
) -> None:
    mine, other = await place(app, MINE), await place(app, OTHER)
    own = mine.ready if rpc == "CancelTasks" else mine.ended
    ids = [own, other.ready, other.ended, other.leased, NO_TASK]

    rehearsed = await call(rpc, {"selection": {"ids": ids}, "dry_run": True}, me)
    done = await call(rpc, {"selection": {"ids": ids}, "reason": "why"}, me)

    assert rehearsed.body["matched"] == done.body["matched"] == 1
    answers = {int(each["id"]): each["answer"].lower() for each in done.body["tasks"]}
    assert list(answers) == ids
    assert len({answers[id] for id in ids[1:]}) == 1
    assert "unknown" in answers[NO_TASK]
    assert "unknown" not in answers[own]
    sql = connect()
    states = sql.execute("select id, state from wherry.tasks where queue = %s", [OTHER]).fetchall()
    assert dict(states) == {other.ready: "queued", other.leased: "leased", other.ended: "succeeded"}
    # The audit names no task of somebody else's.
    [(target,)] = sql.execute("select target::text from wherry.audit where count > 0").fetchall()
    assert str(own) in target
    assert not [id for id in ids[1:] if str(id) in target]


@pytest.mark.parametrize("rpc", ["CancelTasks", "RequeueTasks", "PurgeTasks"])
async def test_a_filter_reaches_no_further_than_the_queue_that_it_has_to_name(
    app: wherry.App, call: Calls, me: str, rpc: str, connect: Callable[..., Any]
) -> None:
    await place(app, MINE)
    await place(app, OTHER)
    tag = f"{HUSH}-tag"
    filters = [{"tag": tag}, {"tag": tag, "queue": OTHER}, {"tag": tag, "queue": "?ther"}]
    before = dump(connect())

    refused = [await call(rpc, {"selection": {"filter": f}}, me) for f in filters]
    refused_dry = [
        await call(rpc, {"selection": {"filter": f}, "dry_run": True}, me) for f in filters
    ]
    unchanged = dump(connect()) == before
    done = await call(rpc, {"selection": {"filter": {"tag": tag, "queue": MINE}}}, me)

    assert {said.code for said in [*refused, *refused_dry]} == {"PERMISSION_DENIED"}
    assert unchanged
    assert done.body["matched"] == (2 if rpc == "CancelTasks" else 1)
    rows = connect().execute("select state from wherry.tasks where queue = %s", [OTHER]).fetchall()
    assert sorted(state for (state,) in rows) == ["leased", "queued", "succeeded"]


async def test_anothers_place_in_a_listing_shows_nothing_of_theirs(
    app: wherry.App, call: Calls, me: str, all_powerful: str
) -> None:
    places = [await place(app, queue) for queue in (MINE, OTHER) * 3]
    mine = {id for p in places if p.queue == MINE for id in (p.ready, p.leased, p.ended)}
    theirs = await call("ListTasks", {"filter": {"queue": OTHER}, "page_size": 2}, all_powerful)
    token = theirs.body["next_page_token"]

    for filter in ({"queue": MINE}, {"queue": MINE, "tag": f"{HUSH}-tag"}):
        mixed = await call("ListTasks", {"filter": filter, "page_token": token}, me)

        assert mixed.code == "OK"
        assert set(ids_of(mixed)) <= mine
    without = await call("ListTasks", {"page_token": token}, me)
    assert without.code == "PERMISSION_DENIED"


async def test_a_batch_over_several_queues_is_answered_item_by_item(
    app: wherry.App, call: Calls, me: str, connect: Callable[..., Any]
) -> None:
    other = await place(app, OTHER)
    sql = connect()
    tasks = [
        {"queue": MINE, "type": "mine"},
        {"queue": OTHER, "type": "intruder"},
        {"queue": OTHER, "type": "intruder", "key": other.key},
        # A bad one of a queue that is not allowed: it is denied, and nothing else is said of it.
        {"queue": OTHER, "type": "", "priority": 999},
        {"queue": MINE, "type": "mine", "key": other.key},
    ]

    said = await call("EnqueueBatch", {"tasks": tasks}, me)
    whole = await call("EnqueueBatch", {"tasks": tasks, "all_or_nothing": True}, me)

    results = said.body["results"]
    assert ["task" in result for result in results] == [True, False, False, False, True]
    # Over HTTP a body that breaks its own schema is refused before anybody is asked.
    reasons = {result["problem"]["reason"] for result in results[1:3]}
    assert reasons == {"PERMISSION_DENIED"}
    # The same key in one's own queue is another key.
    assert results[4]["task"]["created"] is True
    assert whole.code == "PERMISSION_DENIED"
    count = "select count(*) from wherry.tasks where type = %s"
    assert sql.execute(count, ["intruder"]).fetchone() == (0,)
    assert sql.execute(count, ["mine"]).fetchone() == (2,)


async def test_reports_and_beats_over_several_queues_are_answered_item_by_item(
    app: wherry.App, call: Calls, me: str, connect: Callable[..., Any]
) -> None:
    mine, other = await place(app, MINE), await place(app, OTHER)
    leases = [other.lease, mine.lease, other.lease]
    ways: list[dict[str, Any]] = [
        {"complete": {}},
        {"fail": {"retry": False}},
        {"cancel": {}},
        {"snooze": {"delay": "1s"}},
        {"release": {}},
    ]

    beaten = await call("Heartbeat", {"leases": leases}, me)
    told = await call("Report", {"outcomes": [{"lease": other.lease, **w} for w in ways]}, me)
    done = await call("Report", {"outcomes": [{"lease": e, "complete": {}} for e in leases]}, me)

    answers = [beat["answer"].lower().removeprefix("reported_") for beat in beaten.body["beats"]]
    assert answers == ["invalid", "extended", "invalid"]
    reasons = [answer["problem"]["reason"] for answer in told.body["answers"]]
    assert reasons == ["PERMISSION_DENIED"] * 5
    answers = [each["answer"].lower().removeprefix("reported_") for each in done.body["answers"]]
    assert answers == ["invalid", "done", "invalid"]
    states = dict(connect().execute("select id, state from wherry.tasks").fetchall())
    assert states[other.leased] == "leased"
    assert states[mine.leased] == "succeeded"


async def test_nobody_pauses_a_queue_by_a_glob_or_another_spelling(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    shown = bearer(await create(app, "admin", queues=("mine.*",)))
    before = dump(connect())

    for queue in (OTHER, "*", "mine", "MINE.a", " mine.a", "other\nmine.a", "x/mine.a"):
        said = await call("PauseQueue", {"queue": queue}, shown)
        assert said.code in ("PERMISSION_DENIED", "INVALID_ARGUMENT"), queue

    assert dump(connect()) == before


async def test_workers_are_shown_with_no_queue_that_is_not_ones_own(
    app: wherry.App, call: Calls, me: str, all_powerful: str, connect: Callable[..., Any]
) -> None:
    for name, queues in (("both", [MINE, OTHER]), ("theirs", [OTHER])):
        await call("Lease", {"worker_id": name, "queues": queues}, all_powerful)
    sql = connect()
    await await_for(lambda: sql.execute("select from wherry.worker").rowcount == 2)

    seen = await call("ListWorkers", {}, me)

    assert [(each["name"], each["queues"]) for each in seen.body["workers"]] == [("both", [MINE])]
    assert OTHER not in seen.text
    assert "theirs" not in seen.text


async def test_nobody_says_goodbye_for_a_worker_of_another_token(
    app: wherry.App, call: Calls, me: str, all_powerful: str, connect: Callable[..., Any]
) -> None:
    await call("Lease", {"worker_id": "w", "queues": [MINE]}, all_powerful)
    sql = connect()
    await await_for(lambda: sql.execute("select from wherry.worker").rowcount == 1)

    gone = await call("LeaveWorker", {"worker_id": "w"}, me)

    assert gone.code == "OK"
    assert sql.execute("select name from wherry.worker").fetchall() == [("w",)]
    await call("LeaveWorker", {"worker_id": "w"}, all_powerful)
    assert sql.execute("select name from wherry.worker").fetchall() == []

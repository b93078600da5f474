"""What is done to many tasks: to those chosen, and to a whole search, as far as it takes."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import Element, looked
from wherry.server.dashboard.bulks import BULKS
from wherry.server.dashboard.pages import bulk
from wherry.testing import Clock


async def confirm(client: httpx.AsyncClient, question: str, **fields: str) -> httpx.Response:
    """Send the form of a question, with all that it keeps."""
    found = await client.get(question)
    assert found.status_code == 200, found.text
    return await submit(client, looked(found.text), question.partition("?")[0], **fields)


async def submit(
    client: httpx.AsyncClient, page: Element, to: str, **fields: str
) -> httpx.Response:
    [form] = [each for each in page.find("form") if each.attributes.get("action") == to]
    data: dict[str, Any] = {}
    for each in form.find("input"):
        data.setdefault(each.attributes["name"], []).append(each.attributes.get("value", ""))
    for each in form.find("select"):
        [chosen] = each.find("option", selected="")
        data[each.attributes["name"]] = chosen.attributes["value"]
    return await client.post(to, data=data | fields, headers={"sec-fetch-site": "same-origin"})


def states(session: Session) -> dict[str, int]:
    return dict(
        session.rows(
            "select state, count(*)::integer from"
            " (select state from wherry.live union all select state from wherry.finished) s"
            " group by 1"
        )
    )


async def test_a_whole_search_is_canceled(browse: Browse, session: Session) -> None:
    for _ in range(5):
        session.enqueue("send", {}, queue="mail")
    session.enqueue("send", {}, queue="other")
    client = await browse("read", "admin")

    question = looked((await client.get("tasks-cancel?queue=mail")).text)
    went = await confirm(client, "tasks-cancel?queue=mail", reason="ticket 9")
    page = looked((await client.get(went.headers["location"])).text)

    assert question.find("h1")[0].text == "Cancel 5 tasks?"
    assert page.at("said").text.strip() == "5 tasks were canceled."
    assert states(session) == {"canceled": 5, "ready": 1}
    [[actor, action, count, reason]] = session.rows(
        "select actor, action, count, reason from wherry.audit"
    )
    assert (actor, action, count, reason) == ("ada", "cancel_tasks", 5, "ticket 9")
    assert session.value("select target -> 'filter' ->> 'queue' from wherry.audit") == "mail"


async def test_what_comes_after_the_question_is_left_alone(
    browse: Browse, session: Session
) -> None:
    session.enqueue("send", {}, queue="mail")
    client = await browse()
    question = looked((await client.get("tasks-cancel?queue=mail")).text)
    session.rows("select pg_sleep(0)")

    session.rows("update wherry.live set created_at = created_at - interval '1 hour'")
    session.enqueue("send", {}, queue="mail")
    session.rows("update wherry.live set created_at = created_at + interval '1 minute'")
    await submit(client, question, "tasks-cancel")

    assert states(session) == {"canceled": 1, "ready": 1}


async def test_what_was_there_at_the_question_is_told_by_the_databases_clock(
    browse: Browse, session: Session, clock: Clock
) -> None:
    clock.advance(hours=1)
    session.enqueue("send", {}, queue="mail")
    client = await browse()

    await confirm(client, "tasks-cancel?queue=mail")

    assert states(session) == {"canceled": 1}


async def test_a_search_by_state_alone_can_be_changed(browse: Browse, session: Session) -> None:
    session.enqueue("send", {})
    session.complete(session.lease_one())
    client = await browse()

    refused = await confirm(client, "tasks-purge?state=succeeded&state=queued")
    typed = await confirm(client, "tasks-purge?state=succeeded&state=queued", sure="1")

    assert refused.status_code == 400
    assert "type 1 to change them all" in refused.text
    assert typed.status_code == 303
    assert states(session) == {}


async def test_without_a_filter_all_that_are_found_stand_behind_one_more_click(
    browse: Browse, session: Session
) -> None:
    session.enqueue("send", {}, queue="mail")
    client = await browse()

    wide = looked((await client.get("tasks")).text)
    narrow = looked((await client.get("tasks?queue=mail")).text)

    assert wide.at("to-all").find("a", href="tasks-cancel")
    assert not narrow.find("details", id="to-all")
    assert narrow.find("a", href="tasks-cancel?queue=mail")


async def test_a_long_change_goes_on_from_its_address(
    browse: Browse, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PAGE_TASKS", 2)
    monkeypatch.setattr(bulk, "_STEP_SECONDS", 0.0)
    for _ in range(5):
        session.enqueue("send", {}, queue="mail")
    client = await browse()

    went = await confirm(client, "tasks-cancel?queue=mail", reason="ticket 9")
    told: list[str] = []
    while "tasks-going" in went.headers["location"]:
        page = looked((await client.get(went.headers["location"])).text)
        told.append(page.find("h1")[0].text)
        assert page.find("progress")[0].attributes["max"] == "5"
        assert page.find("form", **{"data-go-on": ""})
        went = await submit(client, page, "tasks-cancel")
    page = looked((await client.get(went.headers["location"])).text)

    assert told == ["2 canceled so far", "4 canceled so far"]
    assert page.at("said").text.strip() == "5 tasks were canceled."
    assert states(session) == {"canceled": 5}
    assert session.rows("select count, reason from wherry.audit order by id") == [
        (2, "ticket 9"),
        (2, "ticket 9"),
        (1, "ticket 9"),
    ]


async def test_chosen_tasks_are_changed_and_no_others(browse: Browse, session: Session) -> None:
    made = [session.enqueue("send", {}) for _ in range(3)]
    client = await browse()

    went = await confirm(client, f"tasks-cancel?ids={made[0]}&ids={made[2]}")
    page = looked((await client.get(went.headers["location"])).text)

    assert page.at("said").text.strip() == "2 tasks were canceled."
    assert session.rows("select id from wherry.live") == [(made[1],)]
    assert session.value("select target from wherry.audit") == {"ids": [made[0], made[2]]}


async def test_what_changed_meanwhile_is_told(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})
    client = await browse()
    question = looked((await client.get(f"tasks-cancel?ids={id}")).text)
    session.complete(session.lease_one())

    went = await submit(client, question, "tasks-cancel")
    page = looked((await client.get(went.headers["location"])).text)

    assert "0 tasks were canceled; 1 could not be" in page.at("said").text


async def test_dead_tasks_are_put_back_without_their_keys(browse: Browse, session: Session) -> None:
    session.enqueue("send", {}, key="k", max_attempts=1, queue="mail")
    session.fail(session.lease_one(queue="mail"))
    client = await browse()

    await confirm(client, "tasks-requeue?queue=mail&state=dead", without_key="yes")

    assert states(session) == {"ready": 1}
    assert session.value("select key from wherry.live") is None


async def test_queued_tasks_get_another_priority(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {}, queue="mail")
    client = await browse()

    went = await confirm(client, "tasks-reprioritize?queue=mail", priority="7", reason="first")
    refused = await confirm(client, f"tasks-reprioritize?ids={id}", priority="high")

    assert went.status_code == 303
    assert refused.status_code == 400
    assert session.task(id).priority == 7
    assert session.rows("select action, reason from wherry.audit") == [
        ("reprioritize_tasks", "first")
    ]


@pytest.mark.parametrize("when", ["0s", "0", "2020-01-01T08:00", "2020-01-01T08:00+02:00"])
async def test_a_delayed_task_runs_now(browse: Browse, session: Session, when: str) -> None:
    id = session.enqueue("send", {}, delay=3600)
    client = await browse()

    page = looked((await client.get(f"task?id={id}")).text)
    went = await confirm(client, f"tasks-reschedule?ids={id}", when=when)

    assert page.at("why").find("a", href=f"tasks-reschedule?ids={id}")
    assert went.headers["location"] == f"task?id={id}"
    assert session.value("select state from wherry.live") == "ready"


@pytest.mark.parametrize("when", ["1h", "2126-01-01"])
async def test_a_ready_task_runs_later(browse: Browse, session: Session, when: str) -> None:
    id = session.enqueue("send", {})
    client = await browse()

    await confirm(client, f"tasks-reschedule?ids={id}", when=when)

    assert session.value("select state from wherry.live") == "delayed"


@pytest.mark.parametrize("when", ["", "soon", "-1h", "9" * 30 + "d"])
async def test_a_time_that_is_none_is_refused(browse: Browse, session: Session, when: str) -> None:
    id = session.enqueue("send", {})
    client = await browse()

    found = await confirm(client, f"tasks-reschedule?ids={id}", when=when)

    assert found.status_code == 400
    assert session.value("select state from wherry.live") == "ready"


@pytest.mark.parametrize("path", [each.path for each in BULKS])
async def test_who_may_change_some_queues_changes_no_others(
    browse: Browse, session: Session, path: str
) -> None:
    mine, theirs = (session.enqueue("send", {}, queue=queue) for queue in ("mine", "theirs"))
    client = await browse("read", "admin", queues=("mine",))

    all_asked = await client.get(f"{path}?type=send")
    given = {"priority": "1", "when": "0s"}
    all_done = await send(client, "tasks?queue=mine", at=path, type="send", **given)
    one_done = await send(client, "tasks?queue=mine", at=path, queue="theirs", **given)
    chosen = await send(client, "tasks?queue=mine", at=path, ids=str(theirs), **given)

    assert all_asked.status_code == all_done.status_code == one_done.status_code == 403
    assert chosen.status_code == 303
    assert session.task(mine).state == session.task(theirs).state == "queued"


async def test_a_change_of_everything_is_refused(browse: Browse, session: Session) -> None:
    session.enqueue("send", {})
    client = await browse()

    found = await send(client, "tasks", at="tasks-cancel", state="queued")

    assert found.status_code == 400
    assert states(session) == {"ready": 1}


async def test_a_link_that_somebody_sent_changes_nothing_by_itself(
    browse: Browse, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PAGE_TASKS", 1)
    monkeypatch.setattr(bulk, "_STEP_SECONDS", 0.0)
    for _ in range(3):
        session.enqueue("send", {}, queue="mail")
    client, other = await browse("read", "admin"), await browse("read", "admin")
    own = (await confirm(client, "tasks-cancel?queue=mail")).headers["location"]

    made_up = "tasks-going?do=tasks-cancel&queue=mail&total=900&done=500&after=9"
    shown = [
        looked((await browser.get(address)).text)
        for browser, address in [
            (client, own),
            (other, own),
            (client, made_up),
            (client, own.replace("queue=mail", "queue=other")),
        ]
    ]

    assert [bool(page.find("form", **{"data-go-on": ""})) for page in shown] == [
        *(True, False, False, False)
    ]
    assert states(session) == {"canceled": 1, "ready": 2}


@pytest.mark.parametrize("do", ["", "tasks", "nonsense"])
async def test_a_change_that_is_none_does_not_go_on(browse: Browse, do: str) -> None:
    client = await browse()

    page = looked((await client.get("tasks-going", params={"do": do})).text)

    assert page.find("h1")[0].text == "Nothing is under way"
    assert not page.find("form", **{"data-go-on": ""})


@pytest.mark.parametrize("ids", ["x", "1;2", "", "-1"])
async def test_chosen_tasks_are_named_by_numbers(
    browse: Browse, session: Session, ids: str
) -> None:
    session.enqueue("send", {})
    client = await browse()

    found = await send(client, "tasks", at="tasks-cancel", ids=ids)

    assert found.status_code == 400
    assert re.search("number|narrow", found.text)


async def test_a_number_of_endless_digits_counts_for_nothing(browse: Browse) -> None:
    client = await browse()

    for name in ("done", "left", "total"):
        asked = {"do": "tasks-cancel", "queue": "mail", name: "9" * 5000}
        assert (await client.get("tasks-going", params=asked)).status_code == 200

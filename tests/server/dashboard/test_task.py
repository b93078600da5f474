"""The page of one task: where it stands, every attempt, what it carries, and what can be done."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import Element, looked
from wherry.commands.maintenance import PromoteTasks
from wherry.commands.queues import PauseQueue
from wherry.domain.failure import Failure
from wherry.server.dashboard.hiding import HIDDEN
from wherry.server.dashboard.json_text import parted
from wherry.server.service import Service

# The first beyond 31 bits, and the first that no double holds.
LARGE_IDS = (2147483650, 9007199254740993)


async def page_of(browse: Browse, id: int, *rights: str, **given: Any) -> Element:
    client = await browse(*rights, **given)
    found = await client.get("task", params={"id": id})
    assert found.status_code == 200, found.text
    return looked(found.text)


def make_ids_begin_at(session: Session, id: int) -> None:
    session.rows("select setval('wherry.task_id', %s, false)", id)


async def test_a_waiting_task_says_why_it_does_not_run(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {"to": "ada"}, queue="mail")

    page = await page_of(browse, id)

    assert "No worker is known to be alive." in page.at("why").text
    assert page.at("why").find("a", href="workers")
    assert "Queued" in page.at("facts").text
    assert page.at("payload-text").text == '{\n  "to": "ada"\n}'


async def test_a_paused_queue_can_be_resumed_from_where_it_matters(
    browse: Browse, session: Session, service: Service
) -> None:
    id = session.enqueue("send", {}, queue="a&b=c")
    await service.app.acarry(PauseQueue("a&b=c", "cli:ada", "ticket 4411"), call="pause_queue")

    page = await page_of(browse, id)

    [button] = page.at("why").find("a", cls="button")
    assert button.attributes["href"] == "resume?queue=a%26b%3Dc"
    assert "ticket 4411" in page.at("why").text


async def test_every_attempt_is_in_the_timeline(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {}, max_attempts=2)
    for n in (1, 2):
        lease = session.lease_one(worker=f"w-{n}")
        failure = Failure("MailError", f"the relay said {n}", f"Traceback {n}\n  line")
        session.fail(lease, failure=failure)
        session.call(PromoteTasks())

    page = await page_of(browse, id)

    told = page.at("timeline").text
    assert told.index("Dead") < told.index("Attempt 2 failed") < told.index("Attempt 1 failed")
    assert told.index("Attempt 1 failed") < told.index("Enqueued")
    assert "on w-2" in told
    assert "MailError: the relay said 1" in told
    assert [each.text for each in page.at("timeline").find("pre")] == [
        "Traceback 2\n  line",
        "Traceback 1\n  line",
    ]
    newest, oldest = page.at("timeline").find("details")
    assert "open" in newest.attributes
    assert "open" not in oldest.attributes


async def test_numbers_are_shown_as_they_were_stored(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {}, queue="mail")
    stored = '{"order":9007199254740993,"sum":1.10,"tiny":1e-400,"long":' + "9" * 80 + "}"
    session.rows("update wherry.live set payload = %s where id = %s", stored, id)

    page = await page_of(browse, id)

    shown = page.at("payload-text").text
    assert '"order": 9007199254740993,' in shown
    assert '"sum": 1.10,' in shown
    assert '"tiny": 1e-400,' in shown
    assert f'"long": {"9" * 80}\n' in shown


async def test_a_long_payload_is_shown_in_part_until_asked_for(
    browse: Browse, session: Session
) -> None:
    id = session.enqueue("send", {"text": "x" * 100_000})
    client = await browse()

    page = looked((await client.get("task", params={"id": id})).text)
    [more] = [each for each in page.at("payload").find("a") if "whole" in each.text]
    whole = looked((await client.get(more.attributes["href"])).text)

    assert len(page.at("payload-text").text) < 50_000
    assert "x" * 100_000 in whole.at("payload-text").text


async def test_a_trace_is_named(browse: Browse, session: Session) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    id = session.enqueue("send", {}, headers=headers)

    page = await page_of(browse, id)

    assert trace in page.at("facts").text
    assert "traceparent" in page.at("headers-text").text


@pytest.mark.parametrize("id", LARGE_IDS)
async def test_a_large_number_is_shown_and_acted_on(
    browse: Browse, session: Session, id: int
) -> None:
    make_ids_begin_at(session, id)
    assert session.enqueue("send", {}) == id
    client = await browse()

    page = looked((await client.get("task", params={"id": id})).text)
    await send(client, f"task-cancel?id={id}", id=str(id), reason="too large")

    assert f"Task {id}" in page.find("h1")[0].text
    assert session.value("select state from wherry.finished where id = %s", id) == "canceled"
    assert session.value("select target from wherry.audit") == {"ids": [id]}


@pytest.mark.parametrize("id", ["", "x", "1 or 1=1", "99999999999999999999", "-1", "0", "1.5", "١"])
async def test_what_names_no_task_is_told_so(browse: Browse, id: str) -> None:
    client = await browse()

    found = await client.get("task", params={"id": id})

    assert found.status_code in (400, 404)
    assert "<h1>" in found.text


async def test_a_task_of_somebody_elses_queue_is_not_there(
    browse: Browse, session: Session
) -> None:
    id = session.enqueue("send", {"secret": "of theirs"}, queue="theirs")
    client = await browse("read", "admin", queues=("mine",))

    seen = await client.get("task", params={"id": id})
    asked = await client.get("task-cancel", params={"id": id})
    done = await send(client, "queues", at="task-cancel", id=str(id))

    assert seen.status_code == asked.status_code == done.status_code == 404
    assert "of theirs" not in seen.text
    assert session.value("select state from wherry.live") == "ready"


async def test_a_queued_task_is_canceled(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})
    client = await browse("read", "admin")

    asked = looked((await client.get("task-cancel", params={"id": id})).text)
    went = await send(client, f"task-cancel?id={id}", id=str(id), reason="ticket 7")
    page = looked((await client.get(went.headers["location"])).text)

    assert "does not run" in asked.at("question").text
    assert page.at("said").text.strip() == f"Task {id} is canceled."
    assert session.rows("select actor, action, reason from wherry.audit") == [
        ("ada", "cancel_tasks", "ticket 7")
    ]


async def test_the_worker_of_a_running_task_is_told(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})
    session.lease_one()
    client = await browse()

    await send(client, f"task-cancel?id={id}", id=str(id))
    page = looked((await client.get("task", params={"id": id})).text)

    assert session.value("select cancel_requested_at is not null from wherry.live")
    assert not page.find("a", href=f"task-cancel?id={id}")


async def test_a_finished_task_is_put_back(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})
    session.complete(session.lease_one())
    client = await browse()

    page = looked((await client.get("task", params={"id": id})).text)
    await send(client, f"task-requeue?id={id}", id=str(id))

    assert page.find("a", href=f"task-requeue?id={id}")
    assert session.value("select state from wherry.live where id = %s", id) == "ready"


async def test_a_task_whose_key_is_taken_goes_on_without_it(
    browse: Browse, session: Session
) -> None:
    id = session.enqueue("send", {}, key="k", key_ttl=timedelta(0))
    session.complete(session.lease_one())
    session.enqueue("send", {}, key="k")
    client = await browse()

    refused = await send(client, f"task-requeue?id={id}", id=str(id), without_key="no")
    done = await send(client, f"task-requeue?id={id}", id=str(id), without_key="yes")

    assert refused.status_code == 409
    assert done.status_code == 303
    assert session.value("select key from wherry.live where id = %s", id) is None


async def test_who_may_only_read_finds_no_button(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})

    page = await page_of(browse, id, "read")

    assert not page.find("a", cls="button", **{"data-dialog": ""})


async def test_what_is_hidden_is_not_on_the_page(
    browse: Browse, session: Session, service: Service
) -> None:
    service.settings = replace(service.settings, redact=("payload.**.pin",))
    id = session.enqueue("send", {"card": {"pin": "the secret"}})

    page = await page_of(browse, id)

    assert "the secret" not in page.text
    assert HIDDEN in page.at("payload-text").text


def test_a_text_in_pieces_is_the_same_text() -> None:
    shown = '{\n  "a\\"b": "c: d",\n  "e": [1, true, "f"],\n  "g": ' + HIDDEN + "\n}"

    text = parted(shown, most=1000)

    assert "".join(piece.text for piece in text.pieces) == shown
    assert [piece.text for piece in text.pieces if piece.kind == "key"] == ['"a\\"b"', '"e"', '"g"']

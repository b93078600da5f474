"""Payloads of a group are changed as it is put back, after one was seen before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import Element, looked
from tests.server.dashboard.test_bulk import confirm, submit
from wherry.domain.failure import Failure
from wherry.server.dashboard.pages import bulk
from wherry.server.service import Service

QUESTION = "tasks-requeue?state=dead&queue=mail"
PATCH = '{"region": "eu", "secret": "new", "old": null}'


def die(session: Session, payload: str) -> int:
    """Return a dead task that has this payload."""
    id_ = session.enqueue("send", {}, queue="mail", max_attempts=1)
    failure = Failure("MailError", "no region", "a traceback")
    session.fail(session.lease_one(queue="mail"), failure=failure)
    session.rows("update wherry.finished set payload = %s where id = %s", payload, id_)
    return id_


def payloads(session: Session) -> list[str]:
    return [text for (text,) in session.rows("select payload::text from wherry.live order by id")]


def looks(page: Element) -> list[str]:
    return [each.text for each in page.find("pre", cls="stored")]


async def test_a_payload_is_seen_before_and_after_then_all_are_changed(
    browse: Browse, session: Session, service: Service
) -> None:
    service.settings = replace(service.settings, redact=("payload.secret",))
    for n in range(3):
        die(session, f'{{"n":{n}.10,"old":1,"secret":"mine"}}')
    client = await browse("read", "admin", "enqueue")

    seen = await confirm(client, QUESTION, merge_payload=PATCH, to_queue="aside", reason="t 8")

    page = looked(seen.text)
    before, after = looks(page)
    assert (seen.status_code, payloads(session)) == (200, [])
    assert '"n": 2.10' in before
    assert '"old": 1' in before
    assert '"region": "eu"' in after
    assert '"old"' not in after
    # Neither what is there nor what would be: that is for who may see it elsewhere.
    assert "mine" not in seen.text
    assert '"new"' not in before + after
    # The form has what was said.
    assert page.find("textarea")[0].text.strip() == PATCH
    assert page.find("input", name="to_queue")[0].attributes["value"] == "aside"

    went = await submit(client, page, "tasks-requeue", merge_payload=PATCH)

    assert went.status_code == 303
    assert payloads(session) == [f'{{"n":{n}.10,"secret":"new","region":"eu"}}' for n in range(3)]
    assert session.value("select distinct queue from wherry.live") == "aside"
    assert session.value("select target ->> 'payload' from wherry.audit") == (
        '{"set": ["region", "secret"], "removed": ["old"]}'
    )


async def test_another_patch_than_was_seen_is_shown_first(browse: Browse, session: Session) -> None:
    waits = session.enqueue("send", {}, queue="other")
    id_ = die(session, "{}")
    client = await browse("read", "admin", "enqueue")
    question = f"tasks-requeue?ids={waits}&ids={id_}"
    seen = looked((await confirm(client, question, merge_payload='{"a": 1}')).text)

    other = await submit(client, seen, "tasks-requeue", merge_payload='{"a": 2}')

    assert (other.status_code, session.value("select count(*) from wherry.live")) == (200, 1)
    assert '"a": 2' in looks(looked(other.text))[1]


async def test_a_sample_that_takes_no_patch_is_told_of(browse: Browse, session: Session) -> None:
    good, bad = die(session, '{"n":1}'), die(session, "[1]")
    client = await browse("read", "admin", "enqueue")

    page = looked((await confirm(client, QUESTION, merge_payload=PATCH)).text)
    went = await submit(client, page, "tasks-requeue", merge_payload=PATCH)
    told = looked((await client.get(went.headers["location"])).text)

    assert f"Task {bad}" in page.at("question").text
    assert "no JSON object" in page.at("question").text
    assert "1 task was put back; 1 could not be" in told.at("said").text
    assert session.rows("select id from wherry.live") == [(good,)]


async def test_a_patch_goes_along_from_page_to_page(
    browse: Browse, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_PAGE_TASKS", 2)
    monkeypatch.setattr(bulk, "_STEP_SECONDS", 0.0)
    for _ in range(5):
        die(session, "{}")
    client = await browse("read", "admin", "enqueue")
    seen = looked((await confirm(client, QUESTION, merge_payload='{"a": 1}')).text)

    went = await submit(client, seen, "tasks-requeue", merge_payload='{"a": 1}')
    while "tasks-going" in went.headers["location"]:
        page = looked((await client.get(went.headers["location"])).text)
        went = await submit(client, page, "tasks-requeue")

    assert payloads(session) == ['{"a":1}'] * 5


async def test_who_may_read_alone_changes_no_payload(browse: Browse, session: Session) -> None:
    die(session, "{}")
    client = await browse("read")

    refused = await send(
        client, "tasks", at="tasks-requeue", state="dead", queue="mail", merge_payload=PATCH
    )

    assert (refused.status_code, payloads(session)) == (403, [])


async def test_who_may_not_enqueue_changes_no_payload(browse: Browse, session: Session) -> None:
    die(session, "{}")
    client = await browse("read", "admin")

    seen = looked((await confirm(client, QUESTION, merge_payload=PATCH)).text)
    refused = await submit(client, seen, "tasks-requeue", merge_payload=PATCH)

    assert (refused.status_code, payloads(session)) == (403, [])


@pytest.mark.parametrize("wrong", ["[1]", "{", '{"a": 1e400}', "{" + " " * 2000 + "}"])
async def test_what_is_no_patch_is_refused(browse: Browse, session: Session, wrong: str) -> None:
    die(session, "{}")
    client = await browse()

    answer = await confirm(client, QUESTION, merge_payload=wrong)

    assert answer.status_code == 400
    assert "merge_payload" in answer.text
    assert payloads(session) == []

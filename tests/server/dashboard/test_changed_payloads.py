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
    # What answers a form is not got anew from the address of the form.
    assert "data-still" in page.at("question").attributes
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


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request changes two tasks."""
    monkeypatch.setattr(bulk, "_PAGE_TASKS", 2)
    monkeypatch.setattr(bulk, "_STEP_SECONDS", 0.0)


@pytest.mark.usefixtures("short_steps")
async def test_a_patch_goes_along_from_page_to_page_and_in_no_address(
    browse: Browse, session: Session
) -> None:
    for _ in range(5):
        die(session, "{}")
    client = await browse("read", "admin", "enqueue")
    # In an address these would take more than 8 kB.
    patch = '{"a": "' + "案" * 900 + '"}'
    went = await confirm(client, QUESTION, merge_payload=patch)
    fields = {"merge_payload": patch, "per_second": "50"}
    told: list[str] = []

    while (went := await submit(client, looked(went.text), "tasks-requeue", **fields)).text:
        page, fields = looked(went.text), {}
        told.append(page.find("h1")[0].text)
        assert page.find("form", **{"data-go-on": ""})
        assert "%E6%A1%88" not in str(went.url) + went.text
        # It cannot be got anew.
        assert "data-still" in page.at("going").attributes

    assert told == ["2 put back so far", "4 put back so far"]
    assert went.headers["location"].startswith("tasks?")
    assert "merge_payload" not in went.headers["location"]
    assert payloads(session) == [patch.replace(" ", "")] * 5


@pytest.mark.usefixtures("short_steps")
async def test_a_change_of_payloads_stops_and_goes_on_from_its_page(
    browse: Browse, session: Session
) -> None:
    for _ in range(3):
        die(session, "{}")
    client = await browse("read", "admin", "enqueue")
    seen = looked((await confirm(client, QUESTION, merge_payload=PATCH)).text)
    going = looked((await submit(client, seen, "tasks-requeue", merge_payload=PATCH)).text)

    [stop] = going.find("button", name="stopped")
    answer = await submit(client, going, "tasks-requeue", stopped=stop.attributes["value"])
    stopped = looked(answer.text)
    done = len(payloads(session))
    await submit(client, stopped, "tasks-requeue")

    assert not stopped.find("form", **{"data-go-on": ""})
    assert (done, len(payloads(session))) == (2, 3)


async def test_an_address_that_has_a_patch_does_not_go_on(browse: Browse, session: Session) -> None:
    die(session, "{}")
    client = await browse("read", "admin", "enqueue")
    asked = {"do": "tasks-requeue", "queue": "mail", "state": "dead", "merge_payload": PATCH}

    page = looked((await client.get("tasks-going", params=asked)).text)

    assert page.find("h1")[0].text == "Nothing is under way"
    assert not [
        form for form in page.find("form") if form.attributes.get("action") == "tasks-requeue"
    ]


async def test_who_may_read_alone_changes_no_payload(browse: Browse, session: Session) -> None:
    die(session, "{}")
    client = await browse("read")

    refused = await send(
        client, "tasks", at="tasks-requeue", state="dead", queue="mail", merge_payload=PATCH
    )

    assert (refused.status_code, payloads(session)) == (403, [])


async def test_who_may_not_enqueue_changes_no_payload(browse: Browse, session: Session) -> None:
    """Nor sees first what would become of them, and is refused after that."""
    die(session, '{"there": 1}')
    client = await browse("read", "admin")

    for queue in ("", "aside"):
        refused = await confirm(client, QUESTION, merge_payload=PATCH, to_queue=queue)
        assert (refused.status_code, "there" in refused.text) == (403, False)
        assert "enqueue" in refused.text

    assert payloads(session) == []


@pytest.mark.parametrize("wrong", ["[1]", "{", '{"a": 1e400}', "{" + " " * 20_000 + "}"])
async def test_what_is_no_patch_is_refused(browse: Browse, session: Session, wrong: str) -> None:
    die(session, "{}")
    client = await browse()

    answer = await confirm(client, QUESTION, merge_payload=wrong)

    assert answer.status_code == 400
    assert "merge_payload" in answer.text
    assert payloads(session) == []

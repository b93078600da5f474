"""A task is copied from its page: as it is, or with a payload that somebody has mended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import Element, looked
from wherry.server.dashboard.hiding import HIDDEN
from wherry.server.service import Service

# Digits that no float holds, and a number that a float writes in another way.
STORED = '{"n":9007199254740993,"sum":1.10}'


def died(session: Session, **options: object) -> int:
    id = session.enqueue("send", {"to": "nobody"}, max_attempts=1, **options)
    session.fail(session.lease_one(queue=options.get("queue", "default")))
    return id


def offered(page: Element) -> str:
    """The payload that stands in the form, as a browser shows it."""
    [area] = page.at("question").find("textarea")
    return area.text.removeprefix("\n")


def purge_is_offered(page: Element) -> bool:
    return bool(page.at("question").find("select", name="purge"))


async def test_a_task_is_run_again_with_a_mended_payload(browse: Browse, session: Session) -> None:
    id = died(session, priority=7, tags=["blue"], headers={"h": "v"}, key="k")
    client = await browse()

    page = looked((await client.get("task", params={"id": id})).text)
    question = looked((await client.get("task-edit", params={"id": id})).text)
    # A browser sends lines as networks do.
    edited = offered(question).replace("nobody", "ada").replace("\n", "\r\n")
    went = await send(
        client, f"task-edit?id={id}", id=str(id), payload=edited, queue="other", reason="typo"
    )

    assert page.find("a", href=f"task-edit?id={id}")
    copy = session.task(int(went.headers["location"].partition("=")[2]))
    assert (copy.queue, copy.type, copy.payload) == ("other", "send", {"to": "ada"})
    assert (copy.priority, copy.tags, copy.headers, copy.key) == (7, ("blue",), {"h": "v"}, None)
    assert session.task(id).state == "dead"
    assert session.rows("select action, target, count, reason from wherry.audit") == [
        (
            "copy_task",
            {"ids": [id], "stored": copy.id, "queue": "other", "edited": True},
            1,
            "typo",
        )
    ]
    shown = looked((await client.get("audit")).text)
    assert "Copied 1 task" in shown.text
    assert shown.find("a", href=f"task?id={copy.id}")


@pytest.mark.parametrize("action", ["task-copy", "task-edit"])
async def test_a_payload_that_nobody_edited_is_stored_as_it_was(
    browse: Browse, session: Session, action: str
) -> None:
    id = session.enqueue("send", {"n": 1})
    session.rows("update wherry.live set payload = %s where id = %s", STORED, id)
    client = await browse()
    question = looked((await client.get(action, params={"id": id})).text)
    sent = {"payload": offered(question)} if action == "task-edit" else {}

    await send(client, f"{action}?id={id}", id=str(id), **sent)

    texts = session.rows("select payload::text from wherry.live order by id")
    assert texts == [(STORED,), (STORED,)]


async def test_digits_beside_an_edit_stay_what_they_are(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {"n": 9007199254740993, "to": "nobody"})
    client = await browse()
    question = looked((await client.get("task-edit", params={"id": id})).text)

    edited = offered(question).replace("nobody", "ada")
    await send(client, f"task-edit?id={id}", id=str(id), payload=edited)

    newest = session.value("select max(id) from wherry.live")
    assert session.task(newest).payload == {"n": 9007199254740993, "to": "ada"}


@pytest.mark.parametrize("payload", ["", "{", "[1]", '{"a": NaN}', f'{{"a": {HIDDEN}}}'])
async def test_what_is_no_payload_is_not_stored(
    browse: Browse, session: Session, payload: str
) -> None:
    id = session.enqueue("send", {})
    client = await browse()

    found = await send(client, f"task-edit?id={id}", id=str(id), payload=payload)

    assert found.status_code == 400
    assert session.value("select count(*) from wherry.live") == 1


async def test_a_payload_of_which_something_is_hidden_is_copied_but_not_edited(
    browse: Browse, session: Session, service: Service
) -> None:
    service.settings = replace(service.settings, redact=("payload.pin",))
    id = session.enqueue("send", {"to": "ada", "pin": "the secret"})
    client = await browse()

    asked = await client.get("task-edit", params={"id": id})
    sent = await send(client, f"task?id={id}", at="task-edit", id=str(id), payload='{"to": "ada"}')
    copied = await send(client, f"task-copy?id={id}", id=str(id))

    assert asked.status_code == sent.status_code == 403
    assert "parts of it are hidden on these pages" in asked.text
    assert "the secret" not in asked.text + sent.text
    assert copied.status_code == 303
    whole = '{"to":"ada","pin":"the secret"}'
    assert session.rows("select payload::text from wherry.live") == [(whole,), (whole,)]


async def test_a_payload_that_is_too_long_for_a_form_is_copied_but_not_edited(
    browse: Browse, session: Session
) -> None:
    id = session.enqueue("send", {"text": "x" * 20_000})
    client = await browse()

    asked = await client.get("task-edit", params={"id": id})
    sent = await send(client, f"task-copy?id={id}", at="task-edit", id=str(id), payload="{}")
    copied = await send(client, f"task-copy?id={id}", id=str(id))

    assert asked.status_code == sent.status_code == 400
    assert "wherry tasks copy" in asked.text
    assert copied.status_code == 303
    assert session.value("select count(*) from wherry.live") == 2


async def test_a_question_shows_no_more_than_its_form_can_send(
    browse: Browse, session: Session
) -> None:
    id = session.enqueue("send", {"text": "😀" * 19_900})
    client = await browse()
    question = looked((await client.get("task-edit", params={"id": id})).text)

    edited = offered(question).replace("😀", "😁")
    went = await send(client, f"task-edit?id={id}", id=str(id), payload=edited)

    assert went.status_code == 303
    newest = session.value("select max(id) from wherry.live")
    assert session.task(newest).payload == {"text": "😁" * 19_900}


async def test_a_copy_waits_and_takes_the_place_of_its_original(
    browse: Browse, session: Session
) -> None:
    id = died(session)
    client = await browse()
    question = looked((await client.get("task-copy", params={"id": id})).text)

    wrong = await send(client, f"task-copy?id={id}", id=str(id), delay="soon", purge="yes")
    long = await send(client, f"task-copy?id={id}", id=str(id), delay="9" * 400, purge="yes")
    went = await send(client, f"task-copy?id={id}", id=str(id), delay="2h", purge="yes")

    assert purge_is_offered(question)
    assert wrong.status_code == long.status_code == 400
    [(copy, state)] = session.rows("select id, state from wherry.live")
    assert state == "delayed"
    assert went.headers["location"] == f"task?id={copy}"
    assert session.find(id) is None


async def test_copying_takes_the_right_to_enqueue(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})
    client = await browse("read", "admin")

    page = looked((await client.get("task", params={"id": id})).text)
    asked = await client.get("task-copy", params={"id": id})
    done = await send(client, f"task?id={id}", at="task-copy", id=str(id))

    assert not page.find("a", href=f"task-copy?id={id}")
    assert not page.find("a", href=f"task-edit?id={id}")
    assert asked.status_code == done.status_code == 403
    assert session.value("select count(*) from wherry.live") == 1


async def test_who_may_not_purge_copies_and_takes_nothing_away(
    browse: Browse, session: Session
) -> None:
    id = died(session, queue="mine")
    client = await browse("read", "enqueue", queues=("mine",))

    page = looked((await client.get("task", params={"id": id})).text)
    question = looked((await client.get("task-copy", params={"id": id})).text)
    elsewhere = await send(client, f"task-copy?id={id}", id=str(id), queue="theirs")
    purged = await send(client, f"task-copy?id={id}", id=str(id), purge="yes")
    done = await send(client, f"task-copy?id={id}", id=str(id), purge="no")

    assert not page.find("a", href=f"task-requeue?id={id}")
    assert not purge_is_offered(question)
    assert elsewhere.status_code == purged.status_code == 403
    assert done.status_code == 303
    assert session.rows("select queue from wherry.live") == [("mine",)]
    assert session.task(id).state == "dead"

"""The audit's page: who changed what, when and why, page by page."""

from __future__ import annotations

import pytest

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import Element, looked
from wherry.commands.audit import CHANGES
from wherry.commands.base import name_of
from wherry.server.dashboard.pages.audit import ROWS, WORDS


def note(session: Session, n: int = 1, *, action: str = "cancel_tasks", actor: str = "ada") -> None:
    session.rows(
        "insert into wherry.audit (at, actor, peer, action, target, count, reason)"
        " select now(), %s, '10.0.0.7', %s, '{\"ids\": [7, 9007199254740993]}', 2, 'ticket ' || n"
        "   from generate_series(1, %s) n order by n",
        *(actor, action, n),
    )


def deeds(page: Element) -> list[Element]:
    return page.at("deeds").find("li") if page.find(id="deeds") else []


async def test_what_was_done_is_told_with_who_and_why(browse: Browse, session: Session) -> None:
    id = session.enqueue("send", {})
    client = await browse("read", "admin")
    await send(client, f"task-cancel?id={id}", id=str(id), reason="ticket 7")

    [deed] = deeds(looked((await client.get("audit")).text))

    assert "Canceled 1 task by ada" in " ".join(deed.text.split())
    assert "ticket 7" in deed.text
    assert deed.find("a", href=f"task?id={id}")


async def test_the_audit_goes_on_page_by_page(browse: Browse, session: Session) -> None:
    note(session, ROWS + 3)
    client = await browse()

    first = looked((await client.get("audit")).text)
    [older] = first.find("a", rel="next")
    second = looked((await client.get(older.attributes["href"])).text)

    assert len(deeds(first)) == ROWS
    assert [f"ticket {n}" in deed.text for n, deed in zip((3, 2, 1), deeds(second), strict=True)]
    assert not second.find("a", rel="next")


async def test_the_audit_is_narrowed_by_who_and_what(browse: Browse, session: Session) -> None:
    note(session, actor="ada")
    note(session, actor="grace", action="purge_tasks")
    client = await browse()

    by_actor = looked((await client.get("audit", params={"actor": "grace"})).text)
    by_action = looked((await client.get("audit", params={"action": "cancel_tasks"})).text)
    by_both = looked((await client.get("audit?action=cancel_tasks&actor=grace")).text)

    assert ["grace" in deed.text for deed in deeds(by_actor)] == [True]
    assert ["ada" in deed.text for deed in deeds(by_action)] == [True]
    assert not deeds(by_both)


def test_whatever_is_audited_has_words_of_its_own() -> None:
    assert set(WORDS) == {name_of(kind) for kind in CHANGES}


@pytest.mark.parametrize(
    ("count", "told"), [(1, "Paused a type by ada"), (0, "Paused a type that was so before by ada")]
)
async def test_a_type_that_was_paused_is_told_as_a_queue_is(
    browse: Browse, session: Session, count: int, told: str
) -> None:
    session.rows(
        "insert into wherry.audit (at, actor, action, target, count)"
        " values (now(), 'ada', 'pause_type', '{\"type\": \"send\"}', %s)",
        count,
    )
    client = await browse()

    [deed] = deeds(looked((await client.get("audit")).text))

    assert told in " ".join(deed.text.split())


async def test_an_action_that_is_not_known_yet_is_shown(browse: Browse, session: Session) -> None:
    note(session, action="do_something_new")
    client = await browse()

    [deed] = deeds(looked((await client.get("audit")).text))

    assert "do_something_new" not in WORDS
    assert "Do something new: 2" in deed.text


async def test_an_address_that_names_no_row_begins_at_the_newest(
    browse: Browse, session: Session
) -> None:
    note(session)
    client = await browse()

    for after in ("x", "-1", "0", "9" * 30):
        assert len(deeds(looked((await client.get("audit", params={"after": after})).text))) == 1


async def test_only_who_may_read_all_queues_reads_the_audit(browse: Browse) -> None:
    client = await browse("read", "admin", queues=("mail",))

    found = await client.get("audit")

    assert found.status_code == 403


@pytest.mark.parametrize("name", ["action", "actor"])
async def test_what_no_row_can_hold_is_refused(browse: Browse, name: str) -> None:
    found = await (await browse()).get("audit", params={name: "\0"})

    assert found.status_code == 400

"""The list of tasks: what is searched for, page by page, in time, and with whose rights."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse
from tests.server.dashboard.looked import Element, looked
from wherry.domain.failure import describe
from wherry.server.dashboard.hiding import HIDDEN, Rules
from wherry.server.dashboard.json_text import brief_json
from wherry.server.dashboard.pages import tasks
from wherry.server.dashboard.wanted import payload_text
from wherry.server.service import Service


async def list_of(browse: Browse, **asked: Any) -> Element:
    client = await browse()
    found = await client.get("tasks", params=asked)
    assert found.status_code == 200, found.text
    return looked(found.text)


def ids(page: Element) -> list[int]:
    return [int(each.text) for each in page.find("a", cls="row-link")]


def fill(session: Session) -> dict[str, int]:
    """Store tasks that differ in what one can search for."""
    made = {
        "old": session.enqueue("send", {"order": 1}, queue="mail"),
        "key": session.enqueue("send", {"order": 9007199254740993}, queue="mail", key="k-1"),
        "tag": session.enqueue("pack", {"at": {"city": "Oslo"}}, tags=["blue", "big"]),
    }
    session.rows(
        "update wherry.live set created_at = now() - interval '2 days' where id = %s", made["old"]
    )
    made["dead"] = session.enqueue("pack", {}, max_attempts=1, queue="packing")
    session.fail(session.lease_one(queue="packing", worker="w-7"))
    made["done"] = session.enqueue("pack", {}, queue="packing")
    session.complete(session.lease_one(queue="packing", worker="w-8"))
    return made


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "old key tag dead done"),
        ({"state": ["dead", "succeeded"]}, "dead done"),
        ({"state": "queued"}, "old key tag"),
        ({"queue": "mail"}, "old key"),
        ({"type": "pack", "queue": "packing"}, "dead done"),
        ({"tag": "blue"}, "tag"),
        ({"key": "k-1"}, "key"),
        ({"worker": "w-8"}, "done"),
        ({"error": "NO GOOD"}, "dead"),
        ({"payload": "order=9007199254740993"}, "key"),
        ({"payload": "order=9007199254740992"}, ""),
        ({"payload": 'at.city="Oslo"'}, "tag"),
        ({"payload": "at.city=Oslo"}, "tag"),
        ({"payload": '{"at": {"city": "Oslo"}}'}, "tag"),
        ({"q": "no good"}, "dead"),
        ({"q": "order=1"}, "old"),
        ({"queue": "", "type": " "}, "old key tag dead done"),
    ],
    ids=str,
)
async def test_tasks_are_found_by_what_the_address_says(
    browse: Browse, session: Session, asked: dict[str, Any], found: str
) -> None:
    made = fill(session)

    page = await list_of(browse, **asked)

    assert {name for name, id in made.items() if id in ids(page)} == {*found.split()}
    assert len(ids(page)) == len(found.split())


async def test_a_huge_error_is_found_and_listed(browse: Browse, session: Session) -> None:
    """PAY-11: the dashboard's part."""
    session.enqueue("send", {}, max_attempts=1)
    words = " ".join(f"word{n}" for n in range(1_000_000))
    lease = session.lease_one()
    session.fail(lease, failure=describe(ValueError(words)))

    for asked in ({"error": "word999999"}, {"q": "word999999"}, {"state": "dead"}):
        assert ids(await list_of(browse, **asked)) == [lease.id]
    client = await browse()
    one = await client.get("task", params={"id": lease.id})
    groups = await client.get("dead")

    assert (one.status_code, groups.status_code) == (200, 200)
    assert "cut here" in one.text


async def test_tasks_are_found_by_number_and_by_time(browse: Browse, session: Session) -> None:
    made = fill(session)
    yesterday = (datetime.now(UTC) - timedelta(days=1)).replace(tzinfo=None)
    moment = yesterday.isoformat(timespec="minutes")

    by_id = await list_of(browse, id=made["tag"])
    by_hash = await list_of(browse, q=f"#{made['tag']}")
    before = await list_of(browse, created_before=moment)
    ended = await list_of(browse, finished_after=f"{moment}+00:00")

    assert ids(by_id) == ids(by_hash) == [made["tag"]]
    assert ids(before) == [made["old"]]
    assert ids(ended) == [made["done"], made["dead"]]


async def test_what_narrows_is_told_and_can_be_taken_away(browse: Browse, session: Session) -> None:
    fill(session)
    client = await browse()

    page = looked((await client.get("tasks?state=dead&queue=mail")).text)
    chips = page.at("chips").find("li", cls="chip")
    without = chips[0].find("a")[0].attributes["href"]
    again = looked((await client.get(without)).text)

    assert [" ".join(chip.text.split()) for chip in chips] == ["State Dead", "Queue mail"]
    assert without == "tasks?queue=mail"
    assert len(ids(again)) == 2


async def test_the_list_goes_to_and_fro_page_by_page(browse: Browse, session: Session) -> None:
    made = [session.enqueue("send", {}, queue="mail") for _ in range(tasks.ROWS + 5)][::-1]
    client = await browse()

    first = looked((await client.get("tasks?queue=mail")).text)
    [older] = first.find("a", rel="next")
    second = looked((await client.get(older.attributes["href"])).text)
    [newer] = second.find("a", rel="prev")
    back = looked((await client.get(newer.attributes["href"])).text)

    assert ids(first) == ids(back) == made[: tasks.ROWS]
    assert ids(second) == made[tasks.ROWS :]
    assert "queue=mail" in newer.attributes["href"]


async def test_a_count_stops_where_it_was_told_to(
    browse: Browse, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(session)
    monkeypatch.setattr(tasks, "MOST_COUNTED", 3)

    page = await list_of(browse)

    assert page.at("tasks-count").text == "3+ tasks"


async def test_a_search_that_takes_too_long_says_so(
    browse: Browse, session: Session, service: Service
) -> None:
    fill(session)
    service.settings = replace(service.settings, search_timeout=timedelta(milliseconds=200))
    session.begin()
    session.rows("lock table wherry.finished in access exclusive mode")
    client = await browse()

    found = await client.get("tasks?state=dead")

    session.rollback()
    assert found.status_code == 200
    page = looked(found.text)
    assert "took longer than 200 ms" in page.at("too-slow").text
    # The live view lets it rest.
    assert "data-still" in page.at("too-slow").attributes


@pytest.mark.parametrize(
    "asked",
    [
        {"state": "asleep"},
        {"payload": "[1]"},
        {"payload": "order"},
        {"payload": '{"a": NaN}'},
        {"created_after": "yesterday"},
        {"id": "seven"},
        {"queue": "x" * 300},
    ],
    ids=str,
)
async def test_what_cannot_be_searched_for_is_told_beside_the_form(
    browse: Browse, session: Session, asked: dict[str, str]
) -> None:
    client = await browse()

    found = await client.get("tasks", params=asked)

    assert found.status_code == 400
    page = looked(found.text)
    assert page.at("trouble").text.strip()
    assert page.find("form", cls="finder")


@pytest.mark.parametrize("asked", [{"after": "x"}, {"before": "-1"}, {"after": "9" * 40}])
async def test_a_place_that_is_none_begins_somewhere(
    browse: Browse, session: Session, asked: dict[str, str]
) -> None:
    fill(session)

    assert len(ids(await list_of(browse, **asked))) == 5


async def test_who_may_read_some_queues_chooses_one(browse: Browse, session: Session) -> None:
    fill(session)
    client = await browse("read", queues=("mail",))

    asked = looked((await client.get("tasks")).text)
    mine = looked((await client.get("tasks?queue=mail")).text)
    theirs = await client.get("tasks?queue=packing")

    assert not ids(asked)
    assert [each.attributes["value"] for each in asked.at("known-queue").find("option")] in (
        [],
        ["mail"],
    )
    assert len(ids(mine)) == 2
    assert theirs.status_code == 403


async def test_who_may_only_read_can_choose_nothing(browse: Browse, session: Session) -> None:
    fill(session)
    client = await browse("read")

    page = looked((await client.get("tasks")).text)

    assert len(ids(page)) == 5
    assert not page.find("input", name="ids")
    assert not page.find("a", **{"data-dialog": ""})


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("order=42", '{"order": 42}'),
        ("order = 42", '{"order": 42}'),
        ('order="42"', '{"order": "42"}'),
        ("n=9007199254740993", '{"n": 9007199254740993}'),
        ("n=1.10", '{"n": 1.10}'),
        ("a.b=true", '{"a": {"b": true}}'),
        ("name=it's", '{"name": "it\'s"}'),
        ('{"x":1}', '{"x":1}'),
    ],
)
def test_a_field_is_said_briefly(said: str, meant: str) -> None:
    assert payload_text(said) == meant


async def test_nothing_is_newer_than_the_last_number_there_can_be(
    browse: Browse, session: Session
) -> None:
    fill(session)

    found = await (await browse()).get("tasks", params={"before": 2**63 - 1})

    assert found.status_code == 200
    assert not ids(looked(found.text))


@pytest.mark.parametrize("name", ["q", "payload"])
async def test_a_field_of_endless_depth_cannot_be_asked_for(browse: Browse, name: str) -> None:
    found = await (await browse()).get("tasks", params={name: f"a={'[' * 15_000}"})

    assert found.status_code == 400
    assert looked(found.text).at("trouble").text.strip()


@pytest.mark.parametrize(
    ("stored", "rule", "brief"),
    [
        ('{"a":1,"b":[1.10,"\\u00fc",null]}', "payload.x", '{"a": 1, "b": [1.10, "ü", null]}'),
        ('{"a":{"b":[1,{"c":2}]},"d":3}', "payload.a", f'{{"a": {HIDDEN}, "d": 3}}'),
        ('{"a":[{"b":"secret"},2]}', "payload.a.*.b", f'{{"a": [{{"b": {HIDDEN}}}, 2]}}'),
        ('{"a":"\\ud800"}', "payload.x", '{"a": "\\ud800"}'),
    ],
)
def test_a_task_says_briefly_what_it_carries(stored: str, rule: str, brief: str) -> None:
    assert brief_json(stored, of="payload", rules=Rules.of([rule]), most=100) == brief


def test_what_a_list_shows_no_more_of_is_not_looked_at() -> None:
    looked_at: list[tuple[str, ...]] = []

    class Watched(Rules):
        def hide(self, path: tuple[str, ...]) -> bool:
            looked_at.append(path)
            return False

    brief = brief_json(f"[{'1,' * 100_000}1]", of="payload", rules=Watched(), most=160)

    assert len(brief) == 160
    assert brief.endswith("…")
    assert len(looked_at) < 200

"""Long lists come a page at a time, each page with the way to its neighbours."""

from __future__ import annotations

from uuid import uuid4

import wherry
from tests.pg.schedules import declare, schedule
from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse
from tests.server.dashboard.looked import Element, looked
from wherry.commands.workers import BeatWorker, BeatWorkers


def names(page: Element) -> list[str]:
    return [row.text for row in page.find("a", cls="row-link")]


async def test_queues_are_turned_page_by_page(browse: Browse, app: wherry.App) -> None:
    await app.aenqueue_many([{"type": "t", "queue": f"q{n:03}"} for n in range(250)])
    client = await browse()

    first = looked((await client.get("queues?q=q&range=6h&odd=%3Cb%3E")).text)
    [later] = first.find("a", rel="next")
    second = looked((await client.get(later.attributes["href"] or "")).text)
    last = looked((await client.get("queues?page=99")).text)

    assert names(first) == [f"q{n:03}" for n in range(100)]
    assert first.at("queues-count").text == "250 queues, 250 with “q”"
    assert later.attributes["href"] == "queues?q=q&range=6h&odd=%3Cb%3E&page=2"
    assert names(second) == [f"q{n:03}" for n in range(100, 200)]
    assert second.at("turn").text.startswith("101 to 200 of 250")
    [earlier] = second.find("a", rel="prev")
    assert earlier.attributes["href"] == "queues?q=q&range=6h&odd=%3Cb%3E"
    assert names(last) == [f"q{n:03}" for n in range(200, 250)]
    assert not last.find("a", rel="next")
    assert last.find("a", href="queues")


async def test_what_fits_on_one_page_has_no_others(browse: Browse, app: wherry.App) -> None:
    await app.aenqueue_many([{"type": "t", "queue": f"q{n:03}"} for n in range(100)])
    client = await browse()

    page = looked((await client.get("queues?page=-3")).text)

    assert len(names(page)) == 100
    assert not page.find("nav", cls="turn")


async def test_schedules_and_workers_are_turned_too(
    browse: Browse, session: Session, app: wherry.App
) -> None:
    declare(session, *(schedule(f"s{n:03}") for n in range(101)))
    await app.acarry(
        BeatWorkers(
            tuple(
                BeatWorker(
                    instance=str(uuid4()),
                    name=f"w{n:03}",
                    host="h",
                    pid=n,
                    queues=tuple(f"q{each}" for each in range(50)),
                    types=None,
                )
                for n in range(101)
            )
        )
    )
    client = await browse()

    schedules = looked((await client.get("schedules?page=2")).text)
    workers = looked((await client.get("workers?page=2")).text)

    assert names(schedules) == ["s100"]
    assert schedules.at("schedules-count").text == "101 schedules"
    assert "w100" in names(workers)[-1]
    assert len(workers.find("article")) < 10
    assert "q19 and 30 more" in " ".join(workers.text.split())


async def test_of_many_paused_types_those_with_most_tasks_are_shown(
    browse: Browse, app: wherry.App
) -> None:
    for n in range(8):
        await app.apause_type(f"t{n:02}")
    client = await browse()

    page = looked((await client.get("queues")).text)
    one = looked((await client.get("queues?q=t07")).text)

    assert len(page.at("paused-types").find("tr")) == 1 + 5
    assert "and 3 other types with fewer tasks" in page.at("paused-types").text
    assert "t07" in one.at("paused-types").text

"""Dead tasks in groups of one cause, and what is done with a whole group."""

from __future__ import annotations

from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse
from tests.server.dashboard.looked import Element, looked
from tests.server.dashboard.test_bulk import confirm, states
from wherry.domain.failure import Failure


def die(session: Session, n: int, error: str, *, type: str = "send", queue: str = "mail") -> None:
    for k in range(n):
        session.enqueue(type, {}, queue=queue, max_attempts=1)
        failure = Failure("MailError", f"{error} {k}", "a traceback")
        session.fail(session.lease_one(queue=queue), failure=failure)


def groups(page: Element) -> list[Element]:
    return page.find("li", cls="group")


def number_of(group: Element) -> str:
    return group.find("a", cls="group-number")[0].text


async def test_dead_tasks_stand_in_groups_of_one_cause(browse: Browse, session: Session) -> None:
    die(session, 3, "no relay for customer")
    die(session, 1, "the disk is full", queue="other")
    client = await browse()

    page = looked((await client.get("dead")).text)
    first, second = groups(page)
    listed = looked((await client.get(first.find("a")[0].attributes["href"])).text)

    assert number_of(first) == "3"
    assert "MailError: no relay for customer" in first.text
    assert "other" in second.text
    assert len(listed.find("a", cls="row-link")) == 3
    assert first.find("svg", cls="spark-bars")[0].attributes["aria-label"].startswith("How many")
    assert page.at("dead-count").text == "4 dead and failed tasks in 2 groups of one cause"


async def test_groups_are_those_of_one_queue(browse: Browse, session: Session) -> None:
    die(session, 2, "no relay")
    die(session, 1, "no relay", queue="other")
    client = await browse()

    page = looked((await client.get("dead?queue=other")).text)

    assert [number_of(group) for group in groups(page)] == ["1"]


async def test_a_group_is_put_into_another_queue(browse: Browse, session: Session) -> None:
    die(session, 3, "no relay for customer")
    client = await browse("read", "admin", "enqueue")
    [group] = groups(looked((await client.get("dead")).text))
    [requeue, _] = group.find("a", cls="button")

    went = await confirm(client, requeue.attributes["href"], to_queue="aside", reason="ticket 8")

    assert went.status_code == 303
    assert session.rows("select queue, count(*) from wherry.live group by 1") == [("aside", 3)]
    assert session.value("select target ->> 'to_queue' from wherry.audit") == "aside"


async def test_a_group_is_put_back_at_a_rate(browse: Browse, session: Session) -> None:
    die(session, 3, "no relay for customer")
    die(session, 1, "the disk is full")
    client = await browse()
    page = looked((await client.get("dead")).text)
    [requeue] = [
        each for each in groups(page)[0].find("a") if each.text.strip().endswith("Requeue")
    ]

    question = requeue.attributes["href"]
    went = await confirm(client, question, per_second="0.2", reason="the relay is back")
    told = looked((await client.get(went.headers["location"])).text)

    assert "3 tasks were put back" in told.at("said").text
    assert states(session) == {"ready": 1, "delayed": 2, "dead": 1}
    waits = session.rows(
        "select round(extract(epoch from run_after - wherry.now()) / 5)::integer"
        "  from wherry.live where state = 'delayed' order by 1"
    )
    assert waits == [(1,), (2,)]


async def test_what_dies_after_the_moment_of_the_question_is_not_purged(
    browse: Browse, session: Session
) -> None:
    die(session, 2, "no relay")
    session.rows("update wherry.finished set finished_at = now() - interval '2 hours' where id = 1")
    client = await browse()
    moment = session.value("select to_char(now() - interval '1 hour', 'YYYY-MM-DD\"T\"HH24:MI:SS')")

    question = "tasks-purge?state=dead&queue=mail"
    asked = looked((await client.get(question)).text)
    await confirm(client, question, finished_before=f"{moment}+00:00")

    assert asked.find("input", name="finished_before")[0].attributes["value"]
    assert session.rows("select id from wherry.finished") == [(2,)]


async def test_who_may_read_some_queues_sees_their_groups_only(
    browse: Browse, session: Session
) -> None:
    die(session, 1, "no relay")
    die(session, 1, "the disk is full", queue="theirs")
    client = await browse("read", queues=("mail",))

    asked = looked((await client.get("dead")).text)
    mine = looked((await client.get("dead?queue=mail")).text)
    theirs = await client.get("dead?queue=theirs")

    assert not groups(asked)
    assert "the disk is full" not in asked.text
    assert len(groups(mine)) == 1
    assert not mine.find("a", **{"data-dialog": ""})
    assert theirs.status_code == 403


async def test_where_nothing_is_dead_that_is_said(browse: Browse, session: Session) -> None:
    session.enqueue("send", {})
    client = await browse()

    page = looked((await client.get("dead")).text)

    assert "Nothing is dead" in page.text

"""Types are paused and resumed in the dashboard, seen where one looks, and by those who may."""

from __future__ import annotations

import pytest

import wherry
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import looked


async def paused(app: wherry.App) -> list[tuple[str, str | None, str | None, str | None]]:
    found = await app.alist_paused_types()
    return [(each.type, each.queue, each.paused_by, each.reason) for each in found]


async def test_a_type_is_paused_shown_and_resumed(browse: Browse, app: wherry.App) -> None:
    client = await browse("read", "admin")

    asked = await send(
        client, "pause-type?type=send&queue=mail", type="send", queue="mail", reason="a flood"
    )

    assert asked.status_code == 303
    assert await paused(app) == [("send", "mail", "ada", "a flood")]
    queues = looked((await client.get("queues")).text)
    queue = looked((await client.get("queue?name=mail")).text)
    other = looked((await client.get("queue?name=other")).text)
    for page in (queues, queue):
        assert "a flood" in page.at("paused-types").text.lower()
        [resume] = page.at("paused-types").find("a", cls="button")
        assert resume.attributes["href"] == "resume-type?type=send&queue=mail"
    assert "Paused" in queue.at("types").text
    assert not other.find(id="paused-types")
    question = looked((await client.get("resume-type?type=send&queue=mail")).text)
    assert "Becausea flood" in question.at("question").text
    await send(client, "resume-type?type=send&queue=mail", type="send", queue="mail")
    assert await paused(app) == []
    audit = (await client.get("audit")).text
    assert "Paused a type" in audit
    assert "Resumed a type" in audit


async def test_a_type_is_paused_in_all_queues(browse: Browse, app: wherry.App) -> None:
    client = await browse()

    form = looked((await client.get("pause-type?type=send&queue=mail")).text)
    went = await send(client, "pause-type", type="send", queue="")
    again = await send(client, "pause-type", type="send", queue="")

    assert [each.attributes["value"] for each in form.find("option")] == ["mail", ""]
    assert (went.headers["location"], again.status_code) == ("queues", 303)
    assert await paused(app) == [("send", None, "anonymous", None)]
    assert "All queues" in looked((await client.get("queues")).text).at("paused-types").text
    await send(client, "resume-type?type=send", type="send", queue="")
    assert await paused(app) == []


async def test_who_may_change_one_queue_pauses_there_only(browse: Browse, app: wherry.App) -> None:
    client = await browse("read", "admin", queues=("mail",))
    await app.apause_type("everywhere")
    await app.apause_type("theirs", queue="other")

    form = looked((await client.get("pause-type?type=send&queue=mail")).text)
    here = await send(client, "pause-type?type=send&queue=mail", type="send", queue="mail")
    everywhere = await send(client, "queues", at="pause-type", type="send", queue="")
    theirs = await send(client, "queues", at="resume-type", type="theirs", queue="other")

    assert [each.attributes["value"] for each in form.find("option")] == ["mail"]
    assert [each.status_code for each in (here, everywhere, theirs)] == [303, 403, 403]
    assert [each[:2] for each in await paused(app)] == [
        ("everywhere", None),
        ("send", "mail"),
        ("theirs", "other"),
    ]
    seen = looked((await client.get("queues")).text).at("paused-types")
    assert "everywhere" in seen.text
    assert "theirs" not in seen.text
    assert [each.text for each in seen.find("a", cls="button")] == ["Resume"]


async def test_who_only_reads_sees_the_pause_and_no_button(browse: Browse, app: wherry.App) -> None:
    client = await browse("read")
    await app.aenqueue("send", queue="mail")
    await app.apause_type("send", queue="mail", reason="a flood")

    for page in ("queues", "queue?name=mail"):
        found = (await client.get(page)).text
        assert "flood" in found
        assert "-type" not in found.replace("paused-types", "")
    for action in ("pause-type", "resume-type"):
        done = await send(client, "queues", at=action, type="send", queue="mail")
        assert done.status_code == 403
    assert await paused(app) == [("send", "mail", None, "a flood")]


@pytest.mark.parametrize(("queue", "asked"), [(None, ""), ("mail", "&queue=mail")])
async def test_a_task_leads_to_the_way_to_resume_its_type(
    browse: Browse, app: wherry.App, queue: str | None, asked: str
) -> None:
    client = await browse()
    task = await app.aenqueue("send", queue="mail")
    await app.apause_type("send", queue=queue)

    page = looked((await client.get("task", params={"id": task.id})).text)

    [button] = page.at("why-type_paused").find("a", cls="button")
    assert button.attributes["href"] == f"resume-type?type=send{asked}"
    assert (await client.get(button.attributes["href"])).status_code == 200


@pytest.mark.parametrize("wrong", [{"type": ""}, {"type": "a\x00"}, {"type": "t", "queue": "*"}])
async def test_what_names_no_type_is_refused(
    browse: Browse, app: wherry.App, wrong: dict[str, str]
) -> None:
    client = await browse()

    found = await send(client, "pause-type", **wrong)

    assert found.status_code == 400
    assert await paused(app) == []


async def test_what_still_holds_is_told(browse: Browse, app: wherry.App) -> None:
    client = await browse("read", "admin")
    await app.aenqueue("send", queue="mail")
    await app.apause_type("send")
    await app.apause_type("send", queue="mail")

    await send(client, "resume-type?type=send", type="send", queue="")

    assert "It is still paused in mail." in (await client.get("queues")).text


async def test_a_type_that_nobody_knows_is_paused_and_that_is_told(
    browse: Browse, app: wherry.App
) -> None:
    client = await browse("read", "admin")
    await app.aenqueue("send", queue="mail")

    await send(client, "pause-type", type="sned", queue="")
    unknown = (await client.get("queues")).text
    await send(client, "pause-type", type="send", queue="")
    known = (await client.get("queues")).text

    assert len(await paused(app)) == 2
    assert "No task of it is here now" in unknown
    assert "No task of it is here now" not in known

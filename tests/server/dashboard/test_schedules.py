"""Schedules: listed with their times, their history, and what can be done about them by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.pg.schedules import declare, schedule, seen, settle
from tests.pg.support import Session
from tests.server.dashboard.conftest import Browse, send
from tests.server.dashboard.looked import Element, looked
from tests.server.dashboard.test_bulk import confirm
from wherry.commands.workers import LeaveWorker
from wherry.server.dashboard.pages.schedules import row_of
from wherry.testing import Clock


def names(page: Element) -> list[str]:
    return [row.text for row in page.find("a", cls="row-link")]


async def test_schedules_are_listed_with_when_they_come(browse: Browse, session: Session) -> None:
    declare(
        session,
        schedule("nightly", "30 4 * * *", tz="Europe/Berlin", queue="mail"),
        schedule("hourly", "0 * * * *"),
    )
    client = await browse()

    page = looked((await client.get("schedules")).text)
    one = looked((await client.get("schedules?q=NIGHT")).text)
    detail = looked((await client.get("schedule?name=nightly")).text)

    assert names(page) == ["hourly", "nightly"]
    assert page.at("schedules-count").text == "2 schedules"
    assert names(one) == ["nightly"]
    assert "30 4 * * *" in one.text
    assert "04:30" in one.text
    times = detail.find("ol", cls="times")[0].find("time")
    assert [time.text[-5:] for time in times] == ["04:30"] * 5
    assert "Europe/Berlin" in detail.at("facts").text


async def test_what_became_of_its_times_leads_to_the_tasks(
    browse: Browse, session: Session, clock: Clock
) -> None:
    declare(session, schedule("s"))
    clock.advance(minutes=3)
    settle(session)
    task_id = seen(session).last_task_id
    client = await browse()

    page = looked((await client.get("schedule?name=s")).text)

    history = page.at("history")
    assert history.find("a", href=f"task?id={task_id}")
    assert "Fired" in history.text
    assert "Missed" in history.text
    assert "Queued" in history.text


async def test_a_schedule_is_run_paused_and_resumed_by_hand(
    browse: Browse, session: Session
) -> None:
    declare(session, schedule("s", queue="mail"))
    client = await browse("read", "admin")

    ran = await confirm(client, "run-schedule?name=s", reason="ticket 1")
    paused = await confirm(client, "pause-schedule?name=s", reason="ticket 2")
    at_rest = looked((await client.get("schedule?name=s")).text)
    again = await confirm(client, "pause-schedule?name=s")
    resumed = await confirm(client, "resume-schedule?name=s", reason="ticket 3")

    assert [each.status_code for each in (ran, paused, again, resumed)] == [303] * 4
    assert "ticket 2" in at_rest.at("schedule-state").text
    assert session.rows("select queue, type from wherry.live") == [("mail", "t")]
    assert seen(session).paused_at is None
    assert session.rows("select action, count, reason from wherry.audit order by id") == [
        ("run_schedule", 1, "ticket 1"),
        ("pause_schedule", 1, "ticket 2"),
        ("pause_schedule", 0, None),
        ("resume_schedule", 1, "ticket 3"),
    ]
    deeds = looked((await client.get("audit")).text)
    assert "Paused a schedule that was so before" in deeds.text
    assert deeds.find("a", href="schedule?name=s")


async def test_only_what_no_worker_declares_is_deleted(browse: Browse, session: Session) -> None:
    declare(session, schedule("s"))
    client = await browse()

    kept = await confirm(client, "delete-schedule?name=s")
    declared = looked((await client.get(kept.headers["location"])).text)
    session.call(LeaveWorker("00000000-0000-0000-0000-000000000001"))
    # What was read before is shared for two seconds.
    gone = await confirm(client, "delete-schedule?name=s")

    assert "A live worker declares s" in declared.at("said").text
    assert not declared.find("a", href="delete-schedule?name=s")
    assert gone.headers["location"].startswith("schedules")
    assert session.value("select count(*) from wherry.schedule") == 0


async def test_who_may_only_look_has_no_button_and_no_route(
    browse: Browse, session: Session
) -> None:
    declare(session, schedule("s", queue="mail"), schedule("other", queue="other"))
    client = await browse("read", queues=("mail",))

    page = looked((await client.get("schedules")).text)
    detail = looked((await client.get("schedule?name=s")).text)
    hidden = await client.get("schedule?name=other")

    assert names(page) == ["s"]
    for each in (page, detail):
        assert not [a for a in each.find("a") if "-schedule?" in a.attributes.get("href", "")]
    assert hidden.status_code == 404
    for path in ("run-schedule", "pause-schedule", "resume-schedule", "delete-schedule"):
        assert (await client.get(f"{path}?name=s")).status_code == 403
        refused = await send(client, "schedules", at=path, name="s")
        assert refused.status_code == 403
    assert session.value("select count(*) from wherry.live") == 0
    assert seen(session).paused_at is None


async def test_a_schedule_that_is_not_there_is_said_to_be_so(browse: Browse) -> None:
    client = await browse()

    empty = await client.get("schedules")
    missing = await client.get("schedule?name=nobody")
    unnamed = await client.get("schedule")

    assert "There are no schedules" in empty.text
    assert missing.status_code == 404
    assert "a schedule called &#39;nobody&#39; is not in the database" in missing.text
    assert unnamed.status_code == 400


@pytest.mark.parametrize(
    ("late_minutes", "state"),
    [(-5, "good"), (0.5, "good"), (5, "warn")],
)
def test_a_schedule_is_late_as_the_doctor_says(
    session: Session, late_minutes: float, state: str
) -> None:
    declare(session, schedule("s"))
    found = seen(session)
    assert found.next_at is not None

    now = found.next_at + timedelta(minutes=late_minutes)

    assert row_of(found, now).state == state
    assert row_of(found, datetime(2000, 1, 1, tzinfo=UTC)).state == "good"

"""What is wrong is said, the worst first, once for each queue; what is well is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import wherry
from tests.server.dashboard.conftest import Browse
from tests.server.dashboard.looked import looked
from wherry.doctor.finding import Diagnosis, Finding, Verdict
from wherry.domain.cron import Missed, Overlap
from wherry.domain.flow import Histogram, Line, LinePoint, Lines, StateCount
from wherry.domain.schedule import ScheduleSeen
from wherry.domain.task import PausedType, QueueDepth
from wherry.domain.worker import Directive, WorkerSeen
from wherry.server.dashboard.pauses import TypePauses
from wherry.server.dashboard.problems import Trouble, troubles
from wherry.server.dashboard.rounds import Round

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING_PAUSED = TypePauses()
MAIL = QueueDepth("mail", 10, 0, 0, 2, 3.0)
WORKER = WorkerSeen(
    *("00000000-0000-0000-0000-000000000001", "w-1", "h", 1, None, None, NOW, NOW, True),
    Directive.NONE,
)


def found(
    *queues: QueueDepth,
    workers: tuple[WorkerSeen, ...] = (WORKER,),
    schedules: tuple[ScheduleSeen, ...] = (),
    pauses: TypePauses = NOTHING_PAUSED,
    lines: dict[str, Line] | None = None,
    findings: tuple[Finding, ...] | None = None,
) -> list[Trouble]:
    round = None
    if findings is not None:
        diagnosis = Diagnosis(
            server="s",
            database="d",
            role="r",
            schema="wherry",
            wherry_version="0",
            findings=findings,
        )
        round = Round(diagnosis, NOW)
    return troubles(
        queues=queues,
        workers=workers,
        schedules=schedules,
        pauses=pauses,
        lines=Lines(lines or {}, 60),
        round=round,
        now=NOW,
        pages=frozenset({"queue", "queues", "database", "dead", "schedules"}),
    )


def line(came: int, went: int) -> Line:
    points = tuple(LinePoint(NOW + timedelta(minutes=n), came, went, 0) for n in range(20))
    return Line(points, Histogram(), Histogram())


def test_where_all_is_well_nothing_is_said() -> None:
    assert found(MAIL, lines={"mail": line(50, 50)}, findings=()) == []


def test_a_queue_that_is_far_behind_comes_first() -> None:
    late = replace(MAIL, queue="late", oldest_due_seconds=400.0)
    lost = replace(MAIL, queue="lost", oldest_due_seconds=4000.0)

    said = found(late, MAIL, lost)

    assert [(trouble.kind, trouble.name) for trouble in said] == [
        ("bad", "lost is behind"),
        ("warn", "late is behind"),
    ]
    assert said[0].asked == (("name", "lost"),)


def test_a_queue_that_is_behind_and_grows_is_one_trouble() -> None:
    late = replace(MAIL, ready=900, oldest_due_seconds=400.0)

    [trouble] = found(late, lines={"mail": line(60, 20)})

    assert trouble.name == "mail is behind, and growing"
    assert "600 came and 200 ended" in trouble.seen


def test_a_queue_that_grows_is_told_before_it_is_late() -> None:
    [trouble] = found(replace(MAIL, ready=900), lines={"mail": line(60, 20)})

    assert (trouble.kind, trouble.name) == ("warn", "mail is growing")


def test_a_paused_queue_is_not_called_late() -> None:
    paused = replace(
        MAIL,
        oldest_due_seconds=9000.0,
        paused_at=NOW - timedelta(hours=1),
        paused_by="ada",
        pause_reason="a flood",
    )

    [trouble] = found(paused)

    assert trouble.name == "mail is paused"
    assert trouble.seen == "10 tasks ready; paused 1h ago by ada: a flood"


def test_a_paused_type_is_told_while_tasks_wait_for_it() -> None:
    pauses = TypePauses(
        (
            PausedType("send", None, NOW - timedelta(hours=1), "ada", "a flood"),
            PausedType("send", "bulk", NOW - timedelta(hours=1), None, None),
            PausedType("idle", None, NOW, "ada", None),
        ),
        (
            StateCount("mail", "send", 5, 0, 3),
            StateCount("bulk", "send", 1, 0, 1),
            StateCount("mail", "idle", 4, 4, 0, leased=2),
        ),
    )

    everywhere, bulk = found(MAIL, pauses=pauses)

    assert (everywhere.name, everywhere.page) == ("send is paused in all queues", "queues")
    assert everywhere.seen == "6 tasks of this type wait; paused 1h ago by ada: a flood"
    assert (bulk.name, bulk.page, bulk.asked) == (
        *("send is paused in bulk", "queue"),
        (("name", "bulk"),),
    )
    assert bulk.seen == "1 task of this type waits; paused 1h ago."


def test_ready_tasks_without_a_worker_are_a_problem() -> None:
    [trouble] = found(MAIL, workers=())

    assert (trouble.kind, trouble.page) == ("bad", "workers")


def test_a_worker_that_fell_silent_is_named() -> None:
    gone = replace(WORKER, name="w-2", alive=False)

    [trouble] = found(MAIL, workers=(WORKER, gone))

    assert trouble.kind == "warn"
    assert "w-2" in trouble.seen


def test_a_listener_that_is_down_is_told_as_the_doctor_does() -> None:
    deaf = replace(WORKER, deaf_since=NOW - timedelta(minutes=3))
    finding = Finding("listeners", Verdict.WARNING, "judged from fresher numbers")

    [trouble] = found(MAIL, workers=(deaf,), findings=(finding,))

    assert (trouble.kind, trouble.name, trouble.page) == ("warn", "Listener down", "workers")
    assert trouble.seen.startswith("1 worker hears no notification, for 3 min by now: w-1;")


def test_a_late_schedule_is_told_as_the_doctor_does() -> None:
    seen = ScheduleSeen(
        name="nightly",
        cron="0 3 * * *",
        tz="UTC",
        type="t",
        queue="mail",
        priority=0,
        max_attempts=20,
        timeout_seconds=None,
        ttl_seconds=None,
        tags=(),
        headers_text="{}",
        retry_text=None,
        payload_text="{}",
        missed=Missed.LAST,
        overlap=Overlap.ALLOW,
        by_hand=False,
        declared_by=1,
        created_at=NOW,
        changed_at=NOW,
        next_at=NOW - timedelta(minutes=3),
        last_at=None,
        last_fired_at=None,
        last_task_id=None,
        fired=0,
        missed_ticks=0,
        overlapped=0,
        paused_ticks=0,
        by_hand_runs=0,
        trouble=None,
        paused_at=None,
        paused_by=None,
        pause_reason=None,
    )

    [late] = found(MAIL, schedules=(seen,))
    [untold] = found(MAIL, schedules=(replace(seen, trouble="no such zone"),))
    [left] = found(MAIL, schedules=(replace(seen, next_at=None, declared_by=0),))

    assert (late.kind, late.name, late.page) == ("bad", "Schedules do not come", "schedules")
    assert "'nightly' has been due for 3 min" in late.seen
    assert (untold.kind, untold.name) == ("bad", "Schedules do not come")
    assert "no such zone" in untold.seen
    assert (left.kind, left.name) == ("warn", "Nobody declares a schedule")
    assert found(MAIL, schedules=(replace(seen, next_at=NOW),)) == []


def test_what_the_doctor_found_is_said_but_not_twice() -> None:
    findings = (
        Finding("due tasks", Verdict.PROBLEM, "judged from fresher numbers"),
        Finding("dead tasks", Verdict.WARNING, "12 tasks ended badly", "see why"),
        Finding("snapshots", Verdict.PROBLEM, "pid 7 holds one"),
        Finding("locks", Verdict.UNKNOWN, "may not look"),
        Finding("server", Verdict.OK, "fine"),
    )

    said = found(MAIL, findings=findings)

    assert [(trouble.name, trouble.page) for trouble in said] == [
        ("Snapshots", "database"),
        ("Dead tasks", "dead"),
    ]
    assert said[1].seen == "12 tasks ended badly."


def test_many_of_one_sort_hide_no_other() -> None:
    late = [replace(MAIL, queue=f"q{n:03}", oldest_due_seconds=7200.0 - n) for n in range(300)]
    held = [
        replace(MAIL, queue=f"p{n}", paused_at=NOW - timedelta(days=9), oldest_due_seconds=None)
        for n in range(5)
    ]

    said = found(*late, *held, workers=())

    names = [trouble.name for trouble in said]
    assert names[:4] == [*(f"q{n:03} is behind" for n in range(3)), "297 more queues are behind"]
    assert "Nobody serves a queue" in names
    assert "2 more queues are paused" in names
    assert sum(trouble.things for trouble in said) == 300 + 5 + 1
    assert next(trouble for trouble in said if trouble.things == 297).page == "queues"


async def test_the_overview_counts_all_that_is_wrong(browse: Browse, app: wherry.App) -> None:
    """Also what it has no room for."""
    await app.aenqueue_many([{"type": "t", "queue": f"q{n}"} for n in range(20)])
    for n in range(20):
        await app.apause_queue(f"q{n}")
        await app.apause_type(f"t{n}", queue=f"q{n}")
    client = await browse()

    page = looked((await client.get("")).text)

    assert "20 warnings" in page.at("verdict").text
    assert "17 more queues are paused" in page.at("troubles").text


def test_the_last_of_a_sort_is_told_by_its_name() -> None:
    late = [replace(MAIL, queue=f"q{n}", oldest_due_seconds=7200.0) for n in range(4)]

    assert [trouble.name for trouble in found(*late)] == [f"q{n} is behind" for n in range(4)]

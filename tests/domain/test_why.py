"""What the reasons say, where no database is needed to know it; and that each is documented."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from wherry.domain.limits import QueueLimits
from wherry.domain.why import Code, why
from wherry.domain.why_facts import Crew, Facts, LastAttempt, Room

NOW = datetime(2030, 1, 1, tzinfo=UTC)
READY = Facts(
    id=7,
    queue="mail",
    type="shop.send",
    state="ready",
    priority=0,
    attempts=0,
    max_attempts=20,
    snoozes=0,
    run_after=NOW,
    started_at=None,
    finished_at=None,
    discard_at=None,
    cancel_requested_at=None,
    reason=None,
    error=None,
    holder=None,
    lease_expires_at=None,
    now=NOW,
    paused_at=None,
    paused_by=None,
    pause_reason=None,
    type_pauses=(),
    room=None,
    last=None,
    crew=Crew(alive=1, serve=1, fit=1, drain=0),
    ahead=0,
)


def codes(facts: Facts) -> list[str]:
    return [reason.code for reason in why(facts).reasons]


def test_every_reason_stands_in_the_reference_and_no_other() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "why.md"
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page.read_text(), re.MULTILINE)

    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(Code)


def test_what_held_it_longest_ago_is_not_all_there_is() -> None:
    held = replace(READY, state="delayed", run_after=NOW + timedelta(hours=1), paused_at=NOW)

    assert codes(held) == ["delayed", "queue_paused"]


def test_a_retry_that_was_rescheduled_by_hand_is_told_as_a_delay() -> None:
    last = LastAttempt(1, "failed", "E", "w", retry_at=NOW + timedelta(minutes=5))
    held = replace(READY, state="delayed", run_after=NOW + timedelta(hours=1), last=last)

    assert codes(held) == ["delayed"]
    assert codes(replace(held, run_after=last.retry_at or NOW)) == ["waits_for_retry"]


def test_a_full_queue_says_who_holds_it_and_when_the_next_may_start() -> None:
    limits = QueueLimits(2, 100, 60.0, 2)
    held = replace(READY, room=Room(limits, 2, ("w1", "w2"), 1.5))

    limit, rate = why(held).reasons

    assert (limit.code, limit.text) == (
        "limit_reached",
        "the queue mail has 2 of 2 tasks running that it may, held by w1, w2",
    )
    assert (rate.code, rate.at) == ("rate_reached", NOW + timedelta(seconds=1.5))
    assert "100 in 60 s" in rate.text
    assert codes(replace(held, room=Room(limits, 1, ("w1",), -3.0))) == ["next"]


@pytest.mark.parametrize(("n", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th")])
def test_how_often_it_was_snoozed_is_said_as_people_do(n: int, said: str) -> None:
    held = replace(READY, state="delayed", run_after=NOW + timedelta(hours=1), snoozes=n)

    assert f"for the {said} time" in why(held).reasons[0].text


@pytest.mark.parametrize(
    ("crew", "said"),
    [
        (Crew(1, 0, 0, 0), "the only worker alive does not serve the queue mail"),
        (Crew(2, 0, 0, 0), "none of the 2 workers alive serves the queue mail"),
        (Crew(2, 1, 0, 0), "the only worker of the queue mail does not know the type t"),
        (Crew(2, 2, 0, 0), "none of the 2 workers of the queue mail knows the type t"),
        (Crew(2, 1, 1, 1), "the only worker that could take it was told to drain or to stop"),
        (Crew(2, 2, 2, 2), "each of the 2 workers that could take it was told to drain or to stop"),
    ],
)
def test_one_worker_is_spoken_of_as_one(crew: Crew, said: str) -> None:
    held = replace(READY, type="t", crew=crew)

    assert said in [reason.text for reason in why(held).reasons]


def test_a_task_of_one_attempt_is_not_held_by_its_last() -> None:
    assert codes(replace(READY, max_attempts=1)) == ["next"]
    assert codes(replace(READY, max_attempts=2, attempts=1)) == ["next", "last_attempt"]


def test_a_long_error_is_cut() -> None:
    ended = replace(READY, state="dead", finished_at=NOW, error="x" * 10_000)

    assert len(why(ended).reasons[0].text) < 500


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("succeeded", "it succeeded on w-1 5.0 s ago, at attempt 2"),
        ("failed", "it failed for good on w-1 5.0 s ago."),
        ("dead", "it died on w-1 5.0 s ago, after 2 of 2 attempts."),
        ("canceled", "it was canceled on w-1 5.0 s ago"),
    ],
)
def test_how_it_ended_is_said_with_where_and_when(state: str, said: str) -> None:
    at = NOW - timedelta(seconds=5)
    ended = replace(READY, state=state, finished_at=at, holder="w-1", attempts=2, max_attempts=2)

    assert why(ended).reasons[0].text == said


@pytest.mark.parametrize("queue", ["a; reboot #", "$(reboot)", "--dsn=elsewhere", "it's two words"])
def test_an_advice_that_is_pasted_into_a_shell_names_the_queue_and_does_no_more(queue: str) -> None:
    [paused, *_] = why(replace(READY, queue=queue, paused_at=NOW)).reasons
    [unserved, *_] = why(replace(READY, queue=queue, crew=Crew(1, 0, 0, 0))).reasons

    resume = shlex.split(paused.advice.partition(": ")[2])
    start = shlex.split(unserved.advice.partition(": ")[2].partition("; who serves")[0])

    assert [word for word in resume if word != "--"] == ["wherry", "queues", "resume", queue]
    assert ("--" in resume) == queue.startswith("-")
    assert start == ["wherry", "worker", "APP", f"--queue={queue}"]

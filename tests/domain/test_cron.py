"""When a schedule's times are, and what is decided about those that are due."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from time import thread_time
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.domain.cron import (
    MOST_MADE_UP,
    Cron,
    Decision,
    Missed,
    TickOutcome,
    check_missed,
    check_overlap,
    decide,
    read_cron,
    without_overlaps,
)
from wherry.errors import InvalidOption

T = TypeVar("T")
MINUTE = timedelta(minutes=1)
# What CRON-09 allows; the slowest takes 0.01 s here.
TOO_LONG_SECONDS = 0.1


def at(text: str) -> datetime:
    """Return an instant in UTC, such as `2026-03-29 01:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def quickest(ask: Callable[[], T]) -> tuple[T, float]:
    """Return an answer, and the least of this thread's time that it took in five tries.

    What others do on the machine, and what a first try has to load, is no matter of ours.
    """

    def tried() -> tuple[T, float]:
        began = thread_time()
        answer = ask()
        return answer, thread_time() - began

    return min((tried() for _ in range(5)), key=lambda answered: answered[1])


def times(expression: str, tz: str, *, since: str, n: int) -> str:
    """Return the first times after an instant, in UTC, with the day where it is another one."""
    told: list[str] = []
    day = None
    for time in islice(read_cron(expression, tz).after(at(since)), n):
        told.append(time.strftime("%H:%M" if time.day == day else "%d %H:%M"))
        day = time.day
    return ", ".join(told)


# Berlin skips 02:00 to 03:00 at 01:00 UTC on 29 March, and repeats it at 01:00 UTC on 25 October;
# New York skips it at 07:00 UTC on 8 March, and repeats 01:00 to 02:00 at 06:00 UTC on 1 November.
SPRING = [
    ("0 * * * *", "Europe/Berlin", "2026-03-28 23:30", "29 00:00, 01:00, 02:00"),
    ("30 1 * * *", "Europe/Berlin", "2026-03-28 12:00", "29 00:30, 23:30"),
    ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "29 01:00, 30 00:30"),
    ("0 12 * * *", "Europe/Berlin", "2026-03-28 12:00", "29 10:00, 30 10:00"),
    ("*/30 * * * *", "Europe/Berlin", "2026-03-29 00:15", "29 00:30, 01:00, 01:30"),
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "30 00:00, 00:30"),
    ("0,30 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00", "29 01:00, 01:30, 30 00:00"),
    ("0 * * * *", "America/New_York", "2026-03-08 05:30", "08 06:00, 07:00, 08:00"),
    ("30 2 * * *", "America/New_York", "2026-03-07 12:00", "08 07:00, 09 06:30"),
    ("30 1 * * *", "America/New_York", "2026-03-07 12:00", "08 06:30, 09 05:30"),
    ("0 0 * * *", "America/Havana", "2026-03-07 12:00", "08 05:00, 09 04:00"),
]
AUTUMN = [
    ("0 * * * *", "Europe/Berlin", "2026-10-24 23:30", "25 00:00, 01:00, 02:00"),
    ("30 1 * * *", "Europe/Berlin", "2026-10-24 12:00", "24 23:30, 26 00:30"),
    ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "25 00:30, 26 01:30"),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", "26 01:30, 27 01:30"),
    ("0 12 * * *", "Europe/Berlin", "2026-10-24 12:00", "25 11:00, 26 11:00"),
    ("*/30 * * * *", "Europe/Berlin", "2026-10-25 00:15", "25 00:30, 01:00, 01:30"),
    ("30 1 * * *", "America/New_York", "2026-10-31 12:00", "01 05:30, 02 06:30"),
    ("0 * * * *", "America/New_York", "2026-11-01 04:30", "01 05:00, 06:00, 07:00"),
]


@pytest.mark.parametrize(("expression", "tz", "since", "wanted"), SPRING + AUTUMN)
def test_when_clocks_change_times_are_as_documented(
    expression: str, tz: str, since: str, wanted: str
) -> None:
    """CRON-02, S3: once a local day, every real hour, and at the jump what is skipped."""
    assert times(expression, tz, since=since, n=wanted.count(",") + 1) == wanted


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana")
EXPRESSIONS = (
    "* * * * *", "*/7 * * * *", "30 2 * * *", "0,30 1-3 * * *", "0 */5 * * SUN", "15 0 L * *",
    "30 1 * * MON#2", "0 0 1 1 *", "*/15 2 * * *", "0 30 2 * * *", "59 23 31 12 *",
)  # fmt: skip
INSTANTS = st.integers(0, 5 * 365 * 86_400).map(
    lambda n: at("2024-01-01 00:00") + timedelta(seconds=n)
)


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), INSTANTS)
def test_no_time_comes_twice_and_none_before_the_one_asked_for(
    expression: str, tz: str, since: datetime
) -> None:
    found = list(islice(read_cron(expression, tz).after(since), 20))

    assert len(found) == 20
    assert [since, *found] == sorted({since, *found})
    assert {time.utcoffset() for time in found} == {timedelta()}


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), INSTANTS, st.integers(1, 19))
def test_who_starts_anew_at_a_time_finds_those_that_follow_it(
    expression: str, tz: str, since: datetime, n: int
) -> None:
    """Each step of a scheduler does: the times must not depend on where it began."""
    cron = read_cron(expression, tz)
    found = list(islice(cron.after(since), 20))

    assert list(islice(cron.after(found[n - 1]), 20 - n)) == found[n:]


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("0 0 30 2 *", "days"),
        ("0 0 31 4,6,9,11 *", "days"),
        ("61 * * * *", "minutes"),
        ("* 24 * * *", "hours"),
        ("0 0 0 * *", "days"),
        ("* * * 13 *", "months"),
        ("* * * * 8", "days of the week"),
        ("60 * * * * *", "seconds"),
        ("*/0 * * * *", "minutes"),
        ("5-1 * * * *", "minutes"),
        ("* * * *", "minute hour day month weekday"),
        ("@daily", "minute hour day month weekday"),
        ("", "empty"),
        ("٣ * * * *", "minutes"),
        ("* " * 200, "limit"),
        ("0 0 */31 * MON#5", "is there such a day"),
    ],
)
def test_what_never_comes_or_is_no_expression_is_refused_at_once(
    expression: str, says: str
) -> None:
    """CRON-09: at once, and it is said which field is wrong."""

    def refuse() -> InvalidOption:
        with pytest.raises(InvalidOption) as refused:
            read_cron(expression).next_after(at("2026-01-01 00:00"))
        return refused.value

    refused, seconds = quickest(refuse)

    assert seconds < TOO_LONG_SECONDS
    assert refused.option == "cron"
    assert says in str(refused)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("0 0 29 2 1", "02-02 00:00"),
        ("*/5 * * * 1", "01-05 00:00"),
        ("0 0 29 2 *", "02-29 00:00"),
        ("0 0 * 2 MON#5", "02-29 00:00"),
        ("*/5 0 * 2 MON#5", "02-29 00:00"),
        ("0 0 LW * *", "01-30 00:00"),
        ("0 0 * * 5L", "01-30 00:00"),
    ],
)
@pytest.mark.parametrize("tz", ["UTC", "Europe/London"])
def test_what_comes_rarely_is_found_quickly(expression: str, wanted: str, tz: str) -> None:
    """CRON-09."""
    cron = read_cron(expression, tz)

    found, seconds = quickest(lambda: cron.next_after(at("2026-01-01 00:00")))

    assert seconds < TOO_LONG_SECONDS
    assert found.strftime("%m-%d %H:%M") == wanted


@pytest.mark.parametrize(
    ("tz", "says"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("Mars/Olympus", "no time zone of this name"),
        ("../../etc/passwd", "no time zone of this name"),
        ("Europe", "no time zone of this name"),
        ("localtime", "next machine"),
        ("posix/Europe/Berlin", "next machine"),
        ("", "empty"),
        (7, "must be a string"),
    ],
)
def test_an_unknown_zone_is_refused(tz: object, says: str) -> None:
    """CRON-06."""
    with pytest.raises(InvalidOption, match=says) as refused:
        read_cron("* * * * *", tz)

    assert refused.value.option == "tz"


def test_words_that_are_none_are_refused() -> None:
    assert check_missed("all") is Missed.ALL
    for bad in ("ALL", "", None, 1):
        with pytest.raises(InvalidOption, match="last, all, skip"):
            check_missed(bad)
        with pytest.raises(InvalidOption, match="allow, skip"):
            check_overlap(bad)


def test_an_expression_is_kept_as_one_text_however_it_was_spaced() -> None:
    assert read_cron("  0   3 * *\tmon ") == Cron("0 3 * * mon", "UTC")


@dataclass(frozen=True, slots=True)
class Found(Cron):
    """A schedule whose *times* were found before: who looks at them a thousand times is quicker."""

    times: tuple[datetime, ...]

    def after(self, instant: datetime) -> Iterator[datetime]:
        return islice(self.times, bisect_right(self.times, instant), None)


def settled(
    cron: Cron, first: datetime, nows: list[datetime], **said: Any
) -> tuple[list[Decision], datetime]:
    """Decide at each of *nows*, until nothing is due; return all decisions, and the next time."""
    decisions: list[Decision] = []
    next_at = first
    for now in nows:
        while True:
            decisions.append(decide(cron, next_at=next_at, now=now, **said))
            next_at = decisions[-1].next_at
            if not decisions[-1].more:
                break
    return decisions, next_at


@given(
    st.sampled_from(["* * * * *", "*/7 3-5 * * *", "30 2 * * *", "0 * * * *", "*/20 * * * * *"]),
    st.sampled_from(ZONES),
    INSTANTS,
    st.lists(st.floats(0, 12_000), min_size=1, max_size=6),
    st.sampled_from(Missed),
    st.one_of(st.none(), st.floats(0, 12_000)),
    st.sampled_from([1000, 150, 101]),
)
def test_each_planned_time_is_fired_or_told_to_have_passed_once(
    expression: str,
    tz: str,
    since: datetime,
    pauses: list[float],
    missed: Missed,
    paused: float | None,
    look_at: int,
) -> None:
    """CRON-04, CRON-17, S2: fired + missed (+ paused) is planned, whatever downtimes there are."""
    cron = read_cron(expression, tz)
    nows = [since + timedelta(seconds=sum(pauses[: n + 1])) for n in range(len(pauses))]
    resumed_at = None if paused is None else since + timedelta(seconds=paused)
    planned: list[datetime] = []
    times = cron.after(since)
    while (following := next(times)) <= nows[-1]:
        planned.append(following)
    found = Found(expression, tz, (*planned, following))

    decisions, next_at = settled(
        found, found.times[0], nows, missed=missed, resumed_at=resumed_at, look_at=look_at
    )

    assert next_at == following
    fired = [time for each in decisions for time in each.fire]
    passed = [span for each in decisions for span in each.passed]
    assert len(fired) + sum(span.n for span in passed) == len(planned)
    assert fired == sorted(set(fired) & set(planned))
    for span in passed:
        inside = [time for time in planned if span.first <= time <= span.last]
        assert len(inside) == span.n
        assert set(fired).isdisjoint(inside)
        in_pause = resumed_at is not None and span.first <= resumed_at
        assert (span.outcome is TickOutcome.PAUSED) is in_pause


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize("look_at", [150, 1000])
def test_how_many_are_looked_at_in_a_step_makes_no_difference(missed: Missed, look_at: int) -> None:
    cron = read_cron("* * * * *")
    first = at("2026-01-01 00:00")
    now = first + 1234 * MINUTE

    decisions, next_at = settled(cron, first, [now], missed=missed, look_at=look_at)

    fired = [time for each in decisions for time in each.fire]
    wanted = {Missed.LAST: 1, Missed.SKIP: 1, Missed.ALL: MOST_MADE_UP}[missed]
    assert fired == [now - n * MINUTE for n in reversed(range(wanted))]
    assert next_at == now + MINUTE


def test_who_wakes_too_early_does_nothing_yet() -> None:
    """CRON-07."""
    cron = read_cron("* * * * *")
    due = at("2026-01-01 00:01")

    early = decide(cron, next_at=due, now=due - timedelta(milliseconds=5), missed=Missed.LAST)
    right = decide(cron, next_at=early.next_at, now=due, missed=Missed.LAST)

    assert (early.fire, early.next_at) == ((), due)
    assert (right.fire, right.next_at) == ((due,), due + MINUTE)


def test_of_times_that_may_not_overlap_the_first_brings_a_task_if_none_runs() -> None:
    due = [at("2026-01-01 00:01"), at("2026-01-01 00:02"), at("2026-01-01 00:03")]

    fired, [span] = without_overlaps(due, running=False)
    none, [all_] = without_overlaps(due, running=True)

    assert (fired, span.n, span.first, span.last) == (due[:1], 2, due[1], due[2])
    assert (none, all_.n, all_.outcome) == ([], 3, TickOutcome.OVERLAPPED)
    assert without_overlaps([], running=True) == ([], [])


def test_the_package_of_zones_is_there_for_systems_that_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CRON-06: slim images."""
    monkeypatch.setattr("zoneinfo.TZPATH", ())

    summer = at("2026-07-01 12:00").astimezone(ZoneInfo.no_cache("Europe/Berlin"))
    assert summer.utcoffset() == timedelta(hours=2)

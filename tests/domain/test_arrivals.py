"""Who waits is notified while tasks come seldom, and looks by itself while they come often."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.worker.fake import make_lease
from wherry.domain.arrivals import Arrivals
from wherry.domain.lease import Lease, Times

STATEMENT = 0.001


def made() -> Arrivals:
    return Arrivals(0.0, jitter=lambda: 1.0)


def notified(arrivals: Arrivals, *, at: float = 0.0) -> Arrivals:
    arrivals.asked(at)
    return arrivals


def waited_for(seconds: float) -> list[Lease]:
    now = datetime.now(UTC)
    made_at = now - timedelta(seconds=seconds)
    return [make_lease(times=Times(made_at, made_at, now))]


def came(seconds: float, n: int, *, commit: float = 0.0) -> list[Lease]:
    """Return *n* that came one after the other for so long, each visible once it was committed."""
    return [each for left in range(n, 0, -1) for each in waited_for(commit + seconds * left / n)]


def hear(arrivals: Arrivals, gaps: Iterator[float], *, since: float = 0.0, n: int) -> float:
    """Hear of *n* tasks, each taken at once, until it should not be notified; returns when."""
    now = since
    for _ in range(n):
        now += next(gaps)
        arrivals.heard(now)
        arrivals.looked(now + STATEMENT, waited_for(0.002))
        if not arrivals.should_be_notified(now + STATEMENT):
            break
    return now


def steadily(seconds: float) -> Iterator[float]:
    while True:
        yield seconds


def by_chance(seconds: float) -> Iterator[float]:
    source = random.Random(7)
    while True:
        yield source.expovariate(1 / seconds)


def stopped(*, at: float = 0.0) -> tuple[Arrivals, float]:
    """Return one that has just found out that tasks come often."""
    arrivals = notified(made(), at=at)
    now = hear(arrivals, steadily(0.001), since=at, n=100)
    arrivals.asks_no_more(now)
    return arrivals, now


def test_who_knows_nothing_yet_asks_at_once() -> None:
    assert made().should_be_notified(0.0)


@pytest.mark.parametrize("gaps", [steadily(0.02), by_chance(0.02), steadily(3.0)])
def test_tasks_that_come_seldom_notify_for_ever(gaps: Iterator[float]) -> None:
    arrivals = notified(made())

    now = hear(arrivals, gaps, n=2000)

    assert arrivals.should_be_notified(now)


def test_few_notifications_are_enough_to_tell_that_tasks_come_often() -> None:
    arrivals = notified(made())

    now = hear(arrivals, steadily(0.001), n=100)

    assert now < 0.02
    assert not arrivals.should_be_notified(now)


def test_commits_that_stand_in_line_on_a_slow_disk_are_told_from_tasks_that_come_seldom() -> None:
    """Sixteen commits of 12 ms each, one after the other, are as far apart as a slow clock's."""
    arrivals = notified(made())
    now = 0.0
    for _ in range(8):
        now += 0.012
        arrivals.heard(now)
        arrivals.looked(now, waited_for(16 * 0.012))

    assert not arrivals.should_be_notified(now)


def test_tasks_of_long_transactions_that_come_seldom_go_on_notifying() -> None:
    arrivals = notified(made())
    now = 0.0
    for _ in range(1000):
        now += 0.02
        arrivals.heard(now)
        arrivals.looked(now, waited_for(0.012))

    assert arrivals.should_be_notified(now)


def test_who_found_that_tasks_come_often_asks_again_after_a_hold_and_a_quiet_moment() -> None:
    arrivals, now = stopped()

    assert not arrivals.should_be_notified(now + 0.2)
    # The hold is over, but there was a task a moment ago.
    arrivals.looked(now + 0.3, waited_for(0.001))
    assert not arrivals.should_be_notified(now + 0.301)
    assert arrivals.should_be_notified(now + 0.32)


def test_who_takes_many_tasks_does_not_take_a_moment_without_any_for_quiet() -> None:
    """Others look as well, and whoever comes right after one of them finds nothing."""
    arrivals, now = stopped()
    for _ in range(40):
        now += 0.05
        arrivals.looked(now, waited_for(0.001) * 12)
        arrivals.looked(now + 0.02, ())
        assert not arrivals.should_be_notified(now + 0.04)

    assert not arrivals.should_be_notified(now + 0.2)
    assert arrivals.should_be_notified(now + 1.0)


def test_who_asked_in_vain_asks_ever_more_seldom() -> None:
    """Others take all the tasks: nothing is ever found here, and it is never quiet."""
    arrivals, now = stopped()
    asked = []
    for _ in range(8):
        while not arrivals.should_be_notified(now):
            now += 0.001
        asked.append(now)
        arrivals.asked(now)
        heard = 0
        while arrivals.should_be_notified(now):
            now += 0.001
            arrivals.heard(now)
            heard += 1
        assert heard <= 8
        arrivals.asks_no_more(now)

    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses[0] < 0.6
    assert pauses[-1] == pytest.approx(4.0, abs=0.1)


def test_others_who_ask_in_vain_do_it_for_all() -> None:
    arrivals, now = stopped()
    # The first hold is over, and it would ask.
    now += 0.3
    assert arrivals.should_be_notified(now)
    for n in range(20):
        arrivals.heard(now + n * 0.001)
    now += 0.02

    assert not arrivals.should_be_notified(now + 0.9)
    assert arrivals.should_be_notified(now + 1.1)


def test_once_it_is_quiet_it_is_notified_as_before() -> None:
    arrivals, now = stopped()
    now += 2.0
    assert arrivals.should_be_notified(now)
    arrivals.asked(now)

    now = hear(arrivals, steadily(0.02), since=now, n=3)
    arrivals.asks_no_more(now)

    # It had enough to do for a moment; that is no reason to look by itself.
    assert arrivals.should_be_notified(now)


def test_looks_become_seldom_while_there_is_nothing_and_soon_when_tasks_waited() -> None:
    arrivals, now = stopped()
    pauses = []
    for _ in range(10):
        pauses.append(arrivals.pause)
        arrivals.looked(now, ())
    assert pauses[0] == 0.002
    assert pauses == sorted(pauses)
    assert arrivals.pause == pauses[-1] == 0.025

    for _ in range(10):
        arrivals.looked(now, came(0.01, 2))
    assert arrivals.pause == 0.002

    # One that finds many can wait for them; a few should not have to.
    for _ in range(20):
        arrivals.looked(now, came(0.007, 20))
    assert arrivals.pause == 0.1
    for _ in range(20):
        arrivals.looked(now, came(0.03, 2))
    assert arrivals.pause == 0.002

    # Many look, so each task is taken soon.
    for _ in range(20):
        arrivals.looked(now, waited_for(0.001))
    assert arrivals.pause == 0.1


@pytest.mark.parametrize("news", [waited_for(0.06), waited_for(0.06) * 20])
def test_who_shares_with_others_looks_sooner_once_tasks_have_waited_for_long(
    news: list[Lease],
) -> None:
    """The others may be gone, or have enough to do."""
    arrivals, now = stopped()
    for _ in range(30):
        arrivals.looked(now, waited_for(0.001))

    arrivals.looked(now, news)

    assert arrivals.pause <= 0.025


def test_who_shares_with_others_looks_sooner_when_there_is_nothing() -> None:
    arrivals, now = stopped()
    for _ in range(30):
        arrivals.looked(now, waited_for(0.001))
    for _ in range(4):
        arrivals.looked(now, ())

    assert arrivals.pause == 0.025


@pytest.mark.parametrize(("commit", "most"), [(0.0, 400), (0.008, 500)])
@pytest.mark.parametrize("many", [1, 8])
def test_however_many_share_a_stream_they_look_about_as_often_as_one(
    many: int, commit: float, most: int
) -> None:
    """Five tasks come each ms, for two seconds; how long commits take is no reason to look."""
    chance = random.Random(11)
    sharing = [stopped()[0] for _ in range(many)]
    looks = [(chance.uniform(0.1, 0.11), n) for n in range(many)]
    looked_at, looked, waited = 0.09, 0, []
    while (now := min(looks)[0]) < 2.1:
        _, n = min(looks)
        oldest = now - looked_at
        sharing[n].looked(now, came(oldest, int(oldest * 5000), commit=commit))
        looks[n] = (now + sharing[n].pause * chance.uniform(0.8, 1.0), n)
        looked_at, looked = now, looked + 1
        waited.append(oldest)

    assert looked < most
    assert sorted(waited)[looked // 2] < 0.012


def test_while_tasks_come_often_who_keeps_up_lets_them_gather() -> None:
    arrivals, now = stopped()
    for _ in range(10):
        arrivals.looked(now, waited_for(0.01) * 40)

    assert arrivals.gathers(now) == pytest.approx(arrivals.pause)
    assert arrivals.gathers(now + 0.001) == pytest.approx(arrivals.pause - 0.001)
    assert arrivals.gathers(now + 1.0) == 0.0


def test_who_has_no_reason_to_wait_looks_again_at_once() -> None:
    fresh = made()
    fresh.looked(0.0, waited_for(0.01) * 100)
    assert fresh.gathers(0.0) == 0.0

    few, now = stopped()
    few.looked(now, waited_for(0.01) * 40)
    few.looked(now + 1.5, waited_for(0.01))
    assert few.gathers(now + 1.5) == 0.0

    full, now = stopped()
    full.looked(now, waited_for(0.01) * 500)
    assert full.gathers(now) == 0.0

    told, now = stopped()
    told.looked(now, waited_for(0.01) * 120)
    assert told.gathers(now) > 0.0
    told.asked(now)
    assert told.gathers(now) == 0.0


def test_a_moment_that_python_cannot_read_is_no_matter() -> None:
    arrivals, now = stopped()

    arrivals.looked(now, [make_lease(times="8000000000000000" * 3)])

    assert not arrivals.should_be_notified(now + 0.01)

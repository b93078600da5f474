"""Where a worker looks next: at the front, unless it goes on where a full lease has ended."""

from __future__ import annotations

from tests.worker.fake import make_lease
from wherry.domain.cursor import Cursor
from wherry.domain.front import Front, Horizon, Stretch

FRONT = Front((Stretch(100, -100, 10),))


def leased(cursor: Cursor, *positions: int, wanted: int, at: float, took: float = 0.001) -> None:
    """Lease tasks of priority 0 at these positions."""
    cursor.leased(
        [make_lease(position=position) for position in positions],
        wanted=wanted,
        began_at=at - took,
        now=at,
    )


def starts(cursor: Cursor, at: float) -> int | None:
    """Return from where on it looks for tasks of priority 0; None: from the beginning."""
    front = cursor.looks_from(at)
    if front is None:
        return None
    return next(each.start for each in front.stretches if each.low <= 0 <= each.high)


def test_whoever_knows_nothing_begins_at_the_beginning() -> None:
    cursor = Cursor()

    assert starts(cursor, 0.0) is None
    leased(cursor, 12, wanted=2, at=0.0)
    assert starts(cursor, 0.1) is None


def test_after_a_full_lease_it_goes_on_where_that_one_ended() -> None:
    cursor = Cursor(FRONT)
    assert starts(cursor, 0.0) == 10
    leased(cursor, 11, 12, wanted=2, at=0.0)

    assert starts(cursor, 0.1) == 13
    leased(cursor, 15, 17, wanted=2, at=0.1)
    assert starts(cursor, 0.2) == 18


def test_after_a_lease_that_was_not_full_it_begins_at_the_front() -> None:
    cursor = Cursor(FRONT)
    starts(cursor, 0.0)
    leased(cursor, 11, 12, wanted=2, at=0.0)
    starts(cursor, 0.1)
    leased(cursor, 13, wanted=2, at=0.1)

    assert starts(cursor, 0.2) == 10


def test_it_begins_at_the_front_once_a_second_however_full_its_leases_are() -> None:
    cursor = Cursor(FRONT)
    begun = []
    for tenth in range(35):
        if starts(cursor, tenth / 10) == 10:
            begun.append(tenth)
        leased(cursor, 100 + tenth, wanted=1, at=tenth / 10)

    assert begun == [0, 10, 20, 30]


def test_what_it_finds_at_the_front_after_all_is_followed_from_there() -> None:
    """There may be more of what a transaction has committed late than one lease takes."""
    cursor = Cursor(FRONT)
    starts(cursor, 0.0)
    leased(cursor, 500, wanted=1, at=0.0)
    assert starts(cursor, 1.1) == 10

    leased(cursor, 20, wanted=1, at=1.1)

    assert starts(cursor, 1.2) == 21


def test_a_long_lease_alone_keeps_nobody_from_the_front() -> None:
    """The machine may be slow."""
    cursor = Cursor(FRONT)
    starts(cursor, 0.0)
    leased(cursor, 50, wanted=2, at=1.0, took=1.0)

    assert starts(cursor, 1.0) == 10


def test_beginning_at_a_front_that_cannot_be_moved_takes_a_small_part_of_the_time() -> None:
    cursor = Cursor(FRONT)
    for _ in range(2):
        cursor.found(FRONT, Horizon(5, ("1/7",)), began_at=0.0, now=0.0)
    starts(cursor, 0.0)
    leased(cursor, 50, wanted=2, at=1.0, took=1.0)

    assert starts(cursor, 20.0) == 51
    leased(cursor, wanted=2, at=20.0)
    assert starts(cursor, 20.9) == 51
    leased(cursor, wanted=2, at=20.9)
    assert starts(cursor, 21.1) == 10
    leased(cursor, wanted=2, at=23.1, took=2.0)
    assert starts(cursor, 53.0) == 51
    assert starts(cursor, 53.2) == 10
    cursor.found(FRONT, Horizon(6, ()), began_at=53.3, now=53.3)
    leased(cursor, wanted=2, at=53.3, took=2.0)
    assert starts(cursor, 53.4) == 10


def test_each_priority_is_followed_by_itself() -> None:
    cursor = Cursor(FRONT)
    cursor.looks_from(0.0)
    leases = [make_lease(priority=9, position=70), make_lease(priority=0, position=20)]
    cursor.leased(leases, wanted=2, began_at=0.0, now=0.0)

    front = cursor.looks_from(0.1)

    assert front is not None
    assert front.stretches == (
        Stretch(100, 10, 10),
        Stretch(9, 9, 71),
        Stretch(8, 1, 10),
        Stretch(0, 0, 21),
        Stretch(-1, -100, 10),
    )
    assert cursor.priorities == (0, 9)


def test_a_front_is_wanted_after_many_tasks_or_a_long_lease_but_not_by_the_idle() -> None:
    cursor = Cursor()
    for tenth in range(100):
        starts(cursor, tenth / 10)
        leased(cursor, wanted=9, at=tenth / 10)
        assert not cursor.wants_front(tenth / 10)

    leased(cursor, *range(1000), wanted=2000, at=10.0)
    assert cursor.wants_front(10.0)
    cursor.found(FRONT, Horizon(5, ()), began_at=10.0, now=10.0)
    leased(cursor, wanted=9, at=10.5, took=0.3)
    assert not cursor.wants_front(10.5)
    assert cursor.wants_front(11.1)


def test_a_front_that_took_long_to_move_is_not_moved_soon_again() -> None:
    cursor = Cursor()
    cursor.found(FRONT, Horizon(5, ()), began_at=0.0, now=1.0)
    leased(cursor, *range(1000), wanted=2000, at=1.5)

    assert not cursor.wants_front(20.9)
    assert cursor.wants_front(21.1)

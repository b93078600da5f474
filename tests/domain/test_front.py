"""Fronts hold every priority, never go back, and never pass what may still become ready."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.domain.front import Front, Stretch

ALL = -(2**63)
PRIORITIES = st.integers(-100, 100)
POSITIONS = st.integers(0, 1000)
ENDS = st.dictionaries(PRIORITIES, POSITIONS, max_size=5)


def start_of(front: Front, priority: int) -> int:
    """Return where a priority begins; every one has one stretch, and they are in order."""
    lows = [stretch.low for stretch in front.stretches]
    highs = [stretch.high for stretch in front.stretches]
    assert highs == [100, *(low - 1 for low in lows[:-1])]
    assert lows[-1] == -100
    assert all(map(int.__le__, lows, highs))
    [start] = [each.start for each in front.stretches if each.low <= priority <= each.high]
    return start


def test_a_front_that_nobody_has_moved_begins_at_the_beginning() -> None:
    assert Front().stretches == (Stretch(100, -100, ALL),)


@settings(deadline=None)
@given(ENDS, ENDS, PRIORITIES)
def test_past_is_after_each_end_and_nowhere_else(
    some: dict[int, int], more: dict[int, int], priority: int
) -> None:
    front = Front().past(some).past(more)

    ends = [ends[priority] + 1 for ends in (some, more) if priority in ends]
    assert start_of(front, priority) == max(ends, default=ALL)


@settings(deadline=None)
@given(
    st.dictionaries(st.tuples(PRIORITIES, POSITIONS), st.booleans(), max_size=20),
    st.lists(st.tuples(POSITIONS, st.lists(PRIORITIES, max_size=3)), min_size=1, max_size=4),
)
def test_a_front_that_is_moved_again_and_again_passes_no_ready_task(
    tasks: dict[tuple[int, int], bool], moves: list[tuple[int, list[int]]]
) -> None:
    front = Front()
    for safe, lanes in moves:
        before, front = front, front.with_lanes(lanes)
        # Tasks at or above the horizon may not have been there at the look.
        ready = sorted(
            (-priority, at) for (priority, at), is_seen in tasks.items() if at < safe or is_seen
        )
        firsts: dict[int, tuple[int, int]] = {}
        for number, stretch in enumerate(front.stretches):
            inside = [
                (-p, at)
                for p, at in ready
                if stretch.low <= -p <= stretch.high and at >= stretch.start
            ]
            if inside:
                firsts[number] = inside[0]

        front = front.moved(firsts, safe=safe)

        for edge in (each.high for each in (*before.stretches, *front.stretches)):
            assert start_of(front, edge) >= start_of(before, edge)
    passed = [each for each in tasks if each[1] < start_of(front, each[0])]
    assert passed == []


def test_where_nothing_is_ready_the_front_is_the_horizon() -> None:
    assert Front().moved({}, safe=70).stretches == (Stretch(100, -100, 70),)


def test_a_priority_that_has_a_ready_task_gets_a_stretch_of_its_own() -> None:
    moved = Front().moved({0: (5, 40)}, safe=70)

    assert moved.stretches == (
        Stretch(100, 6, 70),
        Stretch(5, 5, 40),
        # Not looked at yet.
        Stretch(4, -100, ALL),
    )
    assert moved.moved({1: (5, 90)}, safe=80).stretches == (
        Stretch(100, 6, 80),
        Stretch(5, 5, 80),
        Stretch(4, -100, 80),
    )

"""What a server makes of the sums of all tasks: bounded labels, and numbers that end alarms."""

from __future__ import annotations

from wherry.commands.schedules import TicksCounted
from wherry.domain.flow import COUNTED, OTHER, Histogram, StateCount, States, Total, Totals
from wherry.domain.limits import LimitSeen, LimitsSeen
from wherry.server.metrics import fleet_readings, limit_readings, schedule_readings
from wherry.telemetry.readings import Buckets, Reading


def total(queue: str, type: str, n: int) -> Total:
    ran = Histogram((n, *Histogram().counts[1:]), 0.5 * n)
    return Total(queue, type, dict.fromkeys(COUNTED, n), Histogram(), ran)


def found(readings: list[Reading], name: str) -> dict[tuple[str, ...], float | Buckets]:
    return {labels: value for named, labels, value in readings if named == name}


def test_what_is_beyond_the_limit_is_shown_together() -> None:
    totals = Totals(
        (total("z", "first", 1), total("b", "t", 2), total("c", "t", 4), total("", "", 8)), 1.0
    )
    counts = (StateCount("z", "first", queued=5, delayed=2), StateCount("c", "t", dead=3))
    states = States(counts, {"z": 9.0, "c": 70.0}, False, 1.5)

    told = fleet_readings(totals, states, pairs_shown=2)

    assert found(told, "wherry_tasks_enqueued_total") == {
        ("z", "first"): 1,
        ("b", "t"): 2,
        (OTHER, OTHER): 12,
    }
    runs = found(told, "wherry_task_run_seconds")[OTHER, OTHER]
    assert isinstance(runs, Buckets)
    assert (runs.counts[0], runs.sum) == (12, 6.0)
    of_states = found(told, "wherry_tasks")
    assert of_states["z", "first", "ready"] == 3
    assert of_states["z", "first", "delayed"] == 2
    assert of_states[OTHER, OTHER, "dead"] == 3
    assert found(told, "wherry_tally_age_seconds") == {(): 1.5}
    # Nothing is due in b: that is told, or an alarm would never end.
    assert found(told, "wherry_oldest_due_seconds") == {("z",): 9.0, ("b",): 0.0, (OTHER,): 70.0}


def test_no_more_series_than_a_few_for_each_of_so_many_pairs() -> None:
    totals = Totals(tuple(total(f"q{n}", f"t{n}", 1) for n in range(1000)), 1.0)
    counts = tuple(StateCount(f"q{n}", f"t{n}", queued=1) for n in range(1000))
    due = {f"q{n}": 1.0 for n in range(500)}

    told = fleet_readings(totals, States(counts, due, False, 1.0))

    assert len(told) <= 201 * (10 + 2 + 8 + 1) + 1
    queues = {labels[0] for _, labels, _ in told if labels}
    assert len(queues) == 201


def test_ticks_of_schedules_beyond_the_limit_are_shown_together() -> None:
    counts = {f"s{n}": {"fired": n, "missed": 1} for n in range(5)}

    told = schedule_readings(TicksCounted(counts, 2.5), shown=3)

    assert found(told, "wherry_schedule_ticks_total") == {
        ("s0", "fired"): 0, ("s0", "missed"): 1,
        ("s1", "fired"): 1, ("s1", "missed"): 1,
        ("s2", "fired"): 2, ("s2", "missed"): 1,
        (OTHER, "fired"): 7, (OTHER, "missed"): 2,
    }  # fmt: skip
    assert found(told, "wherry_schedules_late_seconds") == {(): 2.5}


def test_a_limit_holds_a_queue_up_only_while_it_is_reached_and_tasks_wait() -> None:
    limits = LimitsSeen(
        (
            LimitSeen("both", 5, 0.5, False),
            LimitSeen("free", None, 2.0, True),
            LimitSeen("full", 5, None, None),
            LimitSeen("room", 5, 2.0, True),
            LimitSeen("unused", 5, None, None),
        ),
        900,
    )
    counts = (
        StateCount("both", "a", queued=3, leased=2),
        StateCount("both", "b", queued=0, leased=4),
        StateCount("free", "a", queued=3, delayed=2, parked=1),
        StateCount("full", "a", leased=5),
        StateCount("room", "a", queued=1, leased=4),
    )

    told = limit_readings(limits, States(counts, {}, False, 1.0))

    assert found(told, "wherry_limited_queues") == {(): 900}
    assert found(told, "wherry_queue_running_limit") == {
        ("both",): 5, ("full",): 5, ("room",): 5, ("unused",): 5
    }  # fmt: skip
    assert found(told, "wherry_queue_limited_running") == {
        ("both",): 6, ("full",): 5, ("room",): 4, ("unused",): 0
    }  # fmt: skip
    assert found(told, "wherry_queue_starts_per_second_limit") == {
        ("both",): 0.5, ("free",): 2.0, ("room",): 2.0
    }  # fmt: skip
    assert found(told, "wherry_queue_held_up") == {
        ("both", "running"): 1.0, ("both", "rate"): 0.0,
        ("free", "rate"): 0.0,
        ("full", "running"): 0.0,
        ("room", "running"): 0.0, ("room", "rate"): 1.0,
        ("unused", "running"): 0.0,
    }  # fmt: skip


def test_of_a_queue_that_is_not_counted_apart_only_its_limits_are_told() -> None:
    limits = LimitsSeen((LimitSeen("counted", 5, 2.0, True), LimitSeen("many", 5, 2.0, True)), 2)
    counts = (StateCount("", "", queued=9, leased=9), StateCount("counted", "a", queued=1))

    told = limit_readings(limits, States(counts, {}, False, 1.0))

    assert {labels for _, labels, _ in told if labels[:1] == ("many",)} == {("many",)}
    assert found(told, "wherry_queue_limited_running") == {("counted",): 0}
    assert found(told, "wherry_queue_held_up") == {
        ("counted", "running"): 0.0, ("counted", "rate"): 1.0
    }  # fmt: skip

"""Numbers of several processes add up, as their families say, and survive the way there."""

from __future__ import annotations

import threading

import pytest

from wherry.telemetry.families import FAMILIES
from wherry.telemetry.meters import Meters
from wherry.telemetry.readings import (
    Buckets,
    Counted,
    Reading,
    added_up,
    from_json,
    steadily,
    to_json,
)


def test_counters_and_histograms_add_up_and_of_ages_the_oldest_counts() -> None:
    one = [
        Reading("wherry_worker_outcomes_total", ("done",), 3),
        Reading("wherry_worker_report_lag_seconds", (), 0.5),
        Reading("wherry_lease_batch_tasks", (), Buckets((1, 2), 10.0)),
    ]
    other = [
        Reading("wherry_worker_outcomes_total", ("done",), 4),
        Reading("wherry_worker_outcomes_total", ("dead",), 1),
        Reading("wherry_worker_report_lag_seconds", (), 2.5),
        Reading("wherry_lease_batch_tasks", (), Buckets((0, 5), 7.0)),
    ]

    assert set(added_up([*one, *other])) == {
        Reading("wherry_worker_outcomes_total", ("done",), 7),
        Reading("wherry_worker_outcomes_total", ("dead",), 1),
        Reading("wherry_worker_report_lag_seconds", (), 2.5),
        Reading("wherry_lease_batch_tasks", (), Buckets((1, 7), 17.0)),
    }


def test_readings_survive_the_way_to_another_process() -> None:
    readings = [
        Reading("wherry_command_seconds", ("lease_tasks",), Buckets((1, 2, 3), 0.25)),
        Reading("wherry_worker_slots", (), 20.0),
    ]

    assert from_json(to_json(readings)) == readings


@pytest.mark.parametrize("line", ["", "[[", "[1]", '[["a", [], [1]]]', '[["a", [], "b"]]', "3"])
def test_a_line_that_is_cut_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no readings"):
        from_json(line)


def test_a_value_falls_into_the_first_bucket_that_has_room_for_it() -> None:
    counted = Counted((1.0, 2.0))

    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        counted.add(value)

    assert counted.read() == Buckets((2, 2, 1), 7.5)


def test_what_only_grows_is_kept_when_who_counted_it_is_gone() -> None:
    meters = Meters()

    def read() -> list[Reading]:
        return [
            Reading("wherry_worker_outcomes_total", ("done",), 2),
            Reading("wherry_worker_slots", (), 20),
        ]

    for _ in range(2):
        with meters.asking(read):
            assert Reading("wherry_worker_slots", (), 20) in meters.read()

    assert Reading("wherry_worker_outcomes_total", ("done",), 4) in meters.read()
    assert "wherry_worker_slots" not in {name for name, _, _ in meters.read()}


def test_a_collection_that_changes_meanwhile_is_read_all_the_same() -> None:
    numbers = {n: n for n in range(1000)}
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            numbers[5000] = 1
            del numbers[5000]

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(200):
            assert len(steadily(lambda: dict(numbers.items()))) >= 1000
    finally:
        over.set()
        changing.join()


def test_names_say_what_they_are() -> None:
    for family in FAMILIES.values():
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family.help
        assert not family.help.endswith(".")

"""What goes through a server is counted at both of its ends, and a server's end is waited for."""

from __future__ import annotations

import pytest

from bench import server_idle, server_latency, server_rates
from wherry.bench.errors import BenchmarkFailed
from wherry.bench.place import Place
from wherry.bench.server_process import WAYS, Served


@pytest.fixture
def place(place: Place) -> Place:
    place.renew()
    return place


@pytest.mark.parametrize("way", WAYS)
def test_tasks_that_were_enqueued_either_way_are_counted_in_the_database(
    place: Place, way: str
) -> None:
    with Served(place.dsn) as served:
        figures = server_rates.enqueue_run(place, served, way=way, kind="batch", seconds=0.3)

    assert figures["tasks/s"] > 0
    assert figures["client us"] > 0


def test_tasks_that_were_leased_through_a_server_are_each_completed_once(place: Place) -> None:
    with Served(place.dsn) as served:
        figures = server_rates.lease_run(place, served, way="gRPC", tasks=500)

    assert place.finished() == {"succeeded": 500}
    assert figures["server us"] >= 0


def test_a_remote_worker_is_timed_from_the_call_over_http_to_its_handler(place: Place) -> None:
    figures = server_latency.one_run(place, way="HTTP", working="gRPC", rate=50, seconds=0.4)

    assert place.finished() == {"succeeded": 20}
    assert figures["call p50"] > 0
    assert 0 < figures["start p50"] < 60_000


def test_idle_polls_take_nothing_and_calls_beside_them_are_timed_apart(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_idle, "SETTLING_SECONDS", 0.5)

    figures = server_idle.one_run(place, polls=5, queues=2, beating=True, seconds=0.5, calls=40)

    assert place.finished() == {"succeeded": 40}
    assert figures["complete p50"] > 0
    assert figures["alone p50"] > 0


def test_a_server_that_cannot_start_stops_the_benchmark_with_its_own_words(place: Place) -> None:
    with (
        pytest.raises(BenchmarkFailed, match=r"(?s)did not start.*wherry_nowhere"),
        Served(place.dsn, schema="wherry_nowhere"),
    ):
        pass

"""`wherry worker --metrics`: one process serves its numbers, a supervisor those of all."""

from __future__ import annotations

import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Running
from tests.facts import await_for, wait_for
from tests.telemetry.scraping import Scraped, scrape
from wherry import App
from wherry.cli.metrics import Told, trouble_in
from wherry.telemetry.families import PROCESS, SUPERVISOR, WORKER
from wherry.telemetry.readings import Reading

Start = Callable[..., Running]
Cli = Callable[..., Answer]

SHOP = """
import prometheus_client, wherry

app = wherry.App()
sold = prometheus_client.Counter("shop_sold", "Things that were sold")

@app.task
def sell() -> None:
    sold.inc()

@app.task
def die() -> None:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(SHOP)
    return "shop:app"


def address_of(worker: Running) -> str:
    """Wait until it serves, and return where."""
    worker.says("serving metrics on ")
    found = re.search(r"serving metrics on (http://\S+)/metrics", worker.err)
    assert found
    return found[1]


def status(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def done(scraped: Scraped) -> float:
    return scraped.of("wherry_worker_outcomes_total", outcome="done")


def test_a_worker_serves_its_numbers_and_those_of_its_handlers(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    for _ in range(3):
        app.enqueue("shop.sell")

    worker = started("worker", shop, "--dsn", dsn, "--metrics", "127.0.0.1:0")
    url = address_of(worker)
    wait_for(lambda: done(scrape(f"{url}/metrics")) == 3, what="three tasks are done")

    told = scrape(f"{url}/metrics")
    assert told.of("wherry_worker_slots") == 20
    assert "shop_sold_total 3.0" in told.text
    assert "process_resident_memory_bytes" in told.text
    assert status(f"{url}/healthz") == (200, "ok\n")
    assert status(f"{url}/tasks")[0] == 404
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def test_processes_add_up_and_the_counters_of_a_dead_one_stay(
    started: Start, app: App, dsn: str, shop: str
) -> None:
    many = 40
    worker = started(
        *("worker", shop, "--dsn", dsn, "--metrics", "127.0.0.1:0"),
        *("--processes", "2", "--concurrency", "3"),
    )
    url = f"{address_of(worker)}/metrics"
    wait_for(lambda: scrape(url).of("wherry_worker_slots") == 6, what="both tell of their slots")
    for _ in range(many):
        app.enqueue("shop.sell")
    wait_for(lambda: done(scrape(url)) == many, what="both have told of what they did")

    app.enqueue("shop.die", max_attempts=1)
    wait_for(
        lambda: scrape(url).of("wherry_supervisor_starts_total") == 3, what="one is started anew"
    )

    assert done(scrape(url)) == many
    wait_for(lambda: scrape(url).of("wherry_worker_slots") == 6, what="the new one tells, too")
    told = scrape(url)
    assert {family.name for family in (*PROCESS, *WORKER, *SUPERVISOR)} - set(told.families) <= {
        # None of these has happened; the App's own pool was not needed.
        *("wherry_command_errors_total", "wherry_pool_waiting"),
        *("wherry_pool_connections", "wherry_pool_connections_most"),
    }
    assert told.of("wherry_worker_processes") == 2
    assert scrape(url).of("wherry_supervisor_workers_wanted") == 2
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def test_an_address_that_is_taken_is_named(started: Start, dsn: str, shop: str) -> None:
    first = started("worker", shop, "--dsn", dsn, "--metrics", "127.0.0.1:0")
    taken = address_of(first).removeprefix("http://")

    second = started("worker", shop, "--dsn", dsn, "--metrics", taken)

    assert second.end() == 2
    assert f"metrics cannot be served at {taken}" in second.err


def test_an_address_that_is_none_is_refused(cli: Cli, shop: str) -> None:
    answer = cli("worker", shop, "--metrics", "9100")

    assert answer.code == 2
    assert "'9100' is no address to listen on" in answer.err


def test_what_is_missing_is_named(started: Start, dsn: str, shop: str, tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not here')\n")
    (tmp_path / "shop.py").write_text(
        "import wherry\napp = wherry.App()\n@app.task\ndef f() -> None: ...\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])

    worker = started("worker", shop, "--dsn", dsn, "--metrics", "127.0.0.1:0", PYTHONPATH=path)

    assert worker.end() == 2
    assert "pip install 'wherry[metrics]'" in worker.err


@pytest.mark.parametrize(("seconds", "is_ill"), [(0.0, False), (59.0, False), (61.0, True)])
def test_a_loop_that_has_stood_still_for_a_minute_is_told_to_whoever_watches(
    seconds: float, is_ill: bool
) -> None:
    readings = [
        Reading("wherry_worker_slots", (), 100.0),
        Reading("wherry_worker_loop_blocked_seconds", (), seconds),
    ]

    assert bool(trouble_in(readings)) == is_ill


async def test_a_supervisor_without_any_worker_is_told_too() -> None:
    told = Told(wanted=2)
    assert told.trouble() is None

    async with told.by_one() as fd:
        assert told.trouble() is None
        os.close(fd)

    assert told.trouble() == "no worker runs"


async def test_a_line_that_a_killed_worker_left_unfinished_is_passed_over() -> None:
    told = Told(wanted=1)

    async with told.by_one() as fd:
        os.write(fd, b'[["wherry_worker_slots", [], 20.0]]\n')
        await await_for(lambda: Reading("wherry_worker_slots", (), 20.0) in told.read())
        os.write(fd, b'[["wherry_worker_outcomes_total", ["done"], 7.0]]\n[["wherry_wor')
        os.close(fd)

    assert Reading("wherry_worker_outcomes_total", ("done",), 7.0) in told.read()
    assert "wherry_worker_slots" not in {name for name, _, _ in told.read()}

"""How long the server takes for each page, the first time and then: run by hand, on any machine.

`.venv/bin/python -m tests.browser.measured [FINISHED QUEUED DEAD]` fills a database like that of
the shop, and with so many tasks more (1,000,000, 200,000 and 5,000 if nothing is said), starts a
fresh server for each page, and prints milliseconds: the first answer that the server ever gave,
and the median of those that it did not have ready. What docs/guides/dashboard.md says is from here.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import httpx
import psycopg

from tests.browser import addresses
from tests.browser.filled import fill
from tests.security.process import ANYWHERE, started
from wherry.testing.postgres import TemplateServer

_AGAIN = 5
# Answers are kept for two seconds at least, and for twenty times as long as they took.
_KEPT_SECONDS = 2.1

_LIVE = """
insert into wherry.live (id, position, token, created_at, run_after, attempts, max_attempts,
       priority, state, queue, type, payload)
select nextval('wherry.task_id'), nextval('wherry.position'), 0, wherry.now(), wherry.now(), 0, 20,
       0, 'ready', 'bulk-' || n %% 40, 'bulk_' || n %% 100, json_build_object('order', n)
  from generate_series(1, %s) as n
"""
_FINISHED = """
insert into wherry.finished (id, token, created_at, run_after, leased_at, finished_at, keep_until,
       attempts, max_attempts, priority, state, queue, type, worker, payload, result, last_error)
select nextval('wherry.task_id'), 1, at, at, at, at, at + interval '7 days', 1, 20, 0, %s,
       'bulk-' || n %% 40, 'bulk_' || n %% 100, 'w', json_build_object('order', n), null,
       case when %s = 'dead' then 'ValueError: no order ' || n end
  from generate_series(1, %s) as n
 cross join lateral (select wherry.now() - n %% 86400 * interval '1 second') as t (at)
"""


def fill_more(dsn: str, *, finished: int, queued: int, dead: int) -> None:
    """Add so many tasks, and let the sums be made anew."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_LIVE, [queued])
        connection.execute(_FINISHED, ["succeeded", "succeeded", finished])
        connection.execute(_FINISHED, ["dead", "dead", dead])
        connection.execute("select wherry.recount()")
        connection.execute("vacuum analyze")


def measure(dsn: str, folder: Path, path: str, dead_id: int) -> tuple[float, float]:
    """Return milliseconds: of the first answer of a fresh server, and of a later one."""
    folder.mkdir()
    with started(folder, *ANYWHERE, dsn=dsn) as served:
        served.up()
        address = f"{served.http}/dashboard/" + path.removeprefix(".").format(id=dead_id)
        with httpx.Client(timeout=30, trust_env=False) as client:
            took: list[float] = []
            for _ in range(1 + _AGAIN):
                began = monotonic()
                answer = client.get(address)
                took.append((monotonic() - began) * 1000)
                assert answer.status_code == 200, answer.text
                sleep(max(_KEPT_SECONDS, took[-1] / 1000 * 20))
    return took[0], statistics.median(took[1:])


def main(finished: int = 1_000_000, queued: int = 200_000, dead: int = 5_000) -> None:
    """Fill, and measure each page."""
    with TemplateServer() as server, server.database() as dsn, TemporaryDirectory() as folder:
        fill(dsn)
        if finished:
            fill_more(dsn, finished=finished, queued=queued, dead=dead)
        with psycopg.connect(dsn) as connection:
            [id] = connection.execute(
                "select max(id) from wherry.finished where state = 'dead'"
            ).fetchone() or (0,)
        print(f"{'page':<28}{'first':>8}{'later':>8}  (ms)")
        for n, (name, path) in enumerate(addresses.PAGES.items()):
            first, later = measure(dsn, Path(folder) / str(n), path, id)
            print(f"{name or 'overview':<28}{first:>8.0f}{later:>8.0f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))

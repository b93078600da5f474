"""What is printed and kept: a table a measure, medians, and what share of each peer we do."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from wherry.bench.chart import Bars, draw
from wherry.bench.sheet import Sheet

OURS = "wherry"
PREDICTIONS = {
    "drain": "tuned 2 to 2.3 times the best peer, defaults as fast as tuned; two processes 1.2",
    "enqueue": "one by one half of pgqueuer's, bulk 1.2 times the best peer",
    "latency": "p50 0.8 and p99 1.0 of the best peer on PostgreSQL, with a transaction alike",
    "seed": "0.98 of the ideal",
    "idle": "2 queries a second",
    "held": "the last 10 s 0.8 of the first with a snapshot, 0.9 without",
}
# The column that tells of each measure, and whether less is better.
TELLING = {
    "drain": (("tasks/s", False),),
    "enqueue": (("tasks/s", False),),
    "latency": (("p50", True), ("p99", True)),
    "seed": (("of ideal", False),),
    "idle": (("queries/s", True),),
    "held": (("last/first", False), ("last/s", False)),
}
_SPENT = (("client us", "client's CPU, us a task"), ("server us", "server's CPU, us a task"))
_RATE = ("tasks/s", "tasks a second")
CHARTS = {
    "drain": Bars((_RATE, *_SPENT)),
    "enqueue": Bars((_RATE, *_SPENT)),
    "latency": Bars((("p50", "p50, ms"), ("p99", "p99, ms"))),
    "seed": Bars((("of ideal", "part of what is possible"),)),
    "idle": Bars((("queries/s", "statements a second"), ("memory MB", "memory, MB"))),
    "held": Bars((("first/s", "first 10 s, tasks a second"), ("last/s", "last 10 s"))),
}
DIGITS = {
    "client us": 1,
    "server us": 1,
    "p50": 2,
    "p95": 2,
    "p99": 2,
    "of ideal": 3,
    "queries/s": 2,
    "worker CPU %": 2,
    "server CPU %": 2,
    "last/first": 2,
    "server us first": 1,
    "server us last": 1,
}


class Sheets:
    """The sheets of one call, made as figures come."""

    def __init__(self, versions: dict[str, str], connection: psycopg.Connection[Any]) -> None:
        self.versions = versions
        self._machine = _machine(connection)
        self._sheets: dict[str, Sheet] = {}
        told = ", ".join(f"{name} {version}" for name, version in versions.items())
        print(f"versions: {told}", flush=True)

    def add(self, measure: str, kind: str, peer: str, figures: dict[str, float]) -> None:
        """Add one run."""
        if measure not in self._sheets:
            self._sheets[measure] = Sheet(
                f"peers {measure}",
                prediction=PREDICTIONS[measure],
                machine={**self._machine, "load": round(os.getloadavg()[0], 2)},
                digits=DIGITS,
            )
        self._sheets[measure].add(f"{kind}: {peer}", **figures)

    def show(self, absent: Mapping[str, str]) -> None:
        """Print all tables, with the ratios below, and what was not run and why."""
        for measure, sheet in self._sheets.items():
            for kind in dict.fromkeys(name.split(": ")[0] for name in sheet.variants):
                for column, less in TELLING[measure]:
                    self._compare(sheet, kind, column, less=less)
            sheet.show()
        for name, why in absent.items():
            print(f"not run: {name}: {why}")

    def write(self, path: Path, absent: Mapping[str, str]) -> None:
        """Write all of it as JSON."""
        whole = {
            "benchmark": "peers",
            "versions": self.versions,
            "measures": {measure: sheet.whole() for measure, sheet in self._sheets.items()},
            "not run": dict(absent),
        }
        path.write_text(json.dumps(whole, indent=1) + "\n")

    def draw(self, folder: Path) -> None:
        """Draw each table as a picture."""
        folder.mkdir(parents=True, exist_ok=True)
        for measure, sheet in self._sheets.items():
            draw(sheet, CHARTS[measure], folder / f"{measure}.png")

    def _compare(self, sheet: Sheet, kind: str, column: str, *, less: bool) -> None:
        ours = f"{kind}: {OURS}"
        others = [v for v in sheet.variants if v.startswith(f"{kind}: ") and v != ours]
        others = [v for v in others if sheet.median(v, column) > 0]
        if ours not in sheet.variants or not others:
            return
        others.sort(key=lambda v: sheet.median(v, column), reverse=not less)
        shares = {v.split(": ")[1]: sheet.ratio(ours, v, column) for v in others}
        sheet.ratios |= {f"{ours} / {peer}, {column}": share for peer, share in shares.items()}
        listed = ", ".join(f"{peer} {share:.2f}" for peer, share in shares.items())
        sheet.say(f"{kind}, {column}: {OURS} is, of each, best first: {listed}")


def _machine(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    row = connection.execute(
        "select current_setting('server_version'), current_setting('fsync'),"
        " current_setting('synchronous_commit'), current_setting('shared_buffers'),"
        " current_setting('max_wal_size')"
    ).fetchone()
    assert row is not None
    names = ("postgresql", "fsync", "synchronous_commit", "shared_buffers", "max_wal_size")
    return {**dict(zip(names, row, strict=True)), "cores": len(os.sched_getaffinity(0))}

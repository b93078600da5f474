"""Benchmarks: they predict first, and take the database and the side effects as the truth.

Each measurement is a module with `PREDICTION`, `OPTIONS` and `measure`; `place` is where it is
taken and `claims` what keeps somebody's data out of it, `children` are the processes that take
part, `marks` what handlers leave behind, `sheet` what is printed and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Benchmark(NamedTuple):
    """What one is for, and how many runs it takes a median of unless it is told."""

    text: str
    runs: int
    module: str


# Their modules are imported when they are asked for: they need the driver, and some need more.
BENCHMARKS: Mapping[str, Benchmark] = {
    name: Benchmark(text, runs, f"wherry.bench.{name}")
    for name, (text, runs) in {
        "limit": ("What the server can do at all, on one connection: the anchors.", 3),
        "enqueue": ("One by one, in batches, in a transaction, by 1, 8 and 16 committers.", 3),
        "drain": ("Workers finish what is there: 1, 2 and 4 processes.", 3),
        "latency": ("From the enqueue to the handler, at steady rates.", 1),
        "seed": ("20 slots, 50 to 200 ms: below, at and beyond what they can do.", 1),
        "backlog": ("Leasing beside millions of others.", 3),
        "horizon": ("Full speed while another session holds a snapshot.", 1),
        "payload": ("Bytes of WAL for each byte of payload.", 1),
        "idle": ("Statements of a worker with nothing to do.", 1),
        "memory": ("How large a worker is after its first tasks, and after a million.", 1),
    }.items()
}

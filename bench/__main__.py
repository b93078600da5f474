"""`python -m bench NAME`: runs one benchmark against $WHERRY_DSN, or an embedded PostgreSQL."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

from bench.place import found

# What each is for, and how many runs it takes a median of unless it is told.
BENCHMARKS = {
    "limit": ("what the server can do at all, on one connection: the anchors", 3),
    "enqueue": ("one by one, in batches, in a transaction, by 1, 8 and 16 committers", 3),
    "drain": ("workers finish what is there: 1, 2 and 4 processes", 3),
    "latency": ("from the enqueue to the handler, at steady rates", 1),
    "seed": ("20 slots, 50 to 200 ms: ideal rate, the edge, and a burst", 1),
    "backlog": ("leasing beside millions of others", 3),
    "horizon": ("full speed while another session holds a snapshot", 1),
    "payload": ("bytes of WAL for each byte of payload", 1),
    "idle": ("statements of a worker with nothing to do", 1),
    "server": ("through the server's doors, beside the database itself", 3),
}


def main(arguments: list[str]) -> int:
    """Run the benchmark that is named; return the exit code."""
    given, module = _asked(arguments)
    with found() as place:
        sheet = module.measure(place, given)
        sheet.show()
        if given.json is not None:
            sheet.write(given.json)
    return 0


def _asked(arguments: list[str]) -> tuple[argparse.Namespace, ModuleType]:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    # Only the one that is named is imported: some of them need what others do not.
    chosen = next((a for a in arguments if a in BENCHMARKS), None)
    module = importlib.import_module(f"bench.{chosen}") if chosen else None
    for name, (text, runs) in BENCHMARKS.items():
        each = names.add_parser(name, help=text, description=text)
        each.add_argument("--runs", type=int, default=runs, help="how many; medians are shown")
        each.add_argument("--json", type=Path, help="write all figures to this file")
        if module is not None and name == chosen:
            module.options(each)
    given = parser.parse_args(arguments)
    return given, module or importlib.import_module(f"bench.{given.name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

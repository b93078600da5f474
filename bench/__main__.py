"""`python -m bench NAME`: `wherry bench` with the measurements that only we need beside its own."""

from __future__ import annotations

import sys

from bench.peers.verb import peers
from wherry.bench import BENCHMARKS, Benchmark
from wherry.cli.asked import Asked
from wherry.cli.bench import bench_of
from wherry.cli.entry import Door

OURS = {
    "server": Benchmark(
        "Through the server's doors, beside the database itself.", 3, "bench.server"
    ),
}
ALL = {**BENCHMARKS, **OURS}


def main(arguments: list[str]) -> None:
    """Run the benchmark that is named, and exit."""
    group = bench_of(ALL)
    group.add_command(peers)
    door = Door(commands=[group], help=__doc__)
    door.main(["bench", *arguments], prog_name="./run", obj=Asked(owns_process=True))


if __name__ == "__main__":
    main(sys.argv[1:])

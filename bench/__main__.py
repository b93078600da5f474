"""`python -m bench NAME`: runs one benchmark against $WHERRY_DSN, or an embedded PostgreSQL."""

from __future__ import annotations

import os
import sys

from bench import latency, seed
from wherry.config import DSN_VARIABLE

BENCHMARKS = {"seed": seed.run, "latency": latency.run}


def main(arguments: list[str]) -> int:
    """Run the benchmark that is named; return the exit code."""
    if len(arguments) != 1 or arguments[0] not in BENCHMARKS:
        print(f"usage: ./run bench {' | '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    os.environ.setdefault(DSN_VARIABLE, "embedded:")
    BENCHMARKS[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

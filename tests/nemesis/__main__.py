"""`python -m tests.nemesis`, or `./run torture`: one run, or one of each mutant."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from types import FrameType

from tests.nemesis import coverage, matrix, mutants
from tests.nemesis.failover import fail_over
from tests.nemesis.run import Figures, torture

MUTANT_SECONDS = 20.0
TRIES = 3
# The evidence of a run, but for the bulk's, is judged in memory, so a long form is many runs.
LONG_SECONDS = 100.0


def stop(number: int, _frame: FrameType | None) -> None:
    """Leave no server and no process behind, as at any other end."""
    # `timeout` tells everybody of its group, and whoever else told us may do so again.
    signal.signal(number, signal.SIG_IGN)
    print("NOT CLEAN: stopped before the end", flush=True)
    sys.exit(128 + number)


def main(arguments: list[str]) -> int:
    """Run what is asked for; the exit code is 0 only if nothing was found, or every mutant was."""
    signal.signal(signal.SIGTERM, stop)
    parser = argparse.ArgumentParser(prog="./run torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=75.0, help="how long faults go on")
    parser.add_argument(
        "--minutes",
        type=float,
        default=None,
        help="the long form, with a bulk: run after run, for so long",
    )
    parser.add_argument("--seeds", type=int, default=1, help="so many runs of --seconds each")
    parser.add_argument(
        "--failover", type=int, metavar="N", help="lose the primary so often, to its standby"
    )
    parser.add_argument(
        "--matrix",
        type=int,
        nargs="?",
        const=5,
        metavar="N",
        help="measure each kind of crash N times (5), and write docs/explain/crash-matrix.md",
    )
    parser.add_argument(
        "--only", metavar="TEXT", help="of the matrix only crashes with this in their name; no page"
    )
    parser.add_argument("--bulk", action="store_true", help="pour in tasks by the hundred as well")
    parser.add_argument("--seed", type=int, default=None, help="repeat the plan of a former run")
    parser.add_argument(
        "--mutants", nargs="*", metavar="NAME", help="put in known bugs: all, or those named"
    )
    asked = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if asked.seed is None else asked.seed
    if asked.mutants is not None:
        unknown = set(asked.mutants) - set(mutants.NAMES)
        if unknown:
            parser.error(f"no mutant {sorted(unknown)[0]!r}; there are {', '.join(mutants.NAMES)}")
        return 0 if are_caught(asked.mutants or mutants.NAMES, seed) else 1
    if asked.failover is not None:
        verdict = fail_over(asked.failover, seed=seed)
        print(verdict)
        return 0 if verdict.is_clean else 1
    if asked.matrix is not None:
        page, clean = matrix.measure(asked.matrix, only=asked.only)
        if clean and asked.only is None:
            matrix.PAGE.write_text(page)
        return 0 if clean else 1
    runs, seconds = asked.seeds, asked.seconds
    if asked.minutes is not None:
        runs = max(1, round(asked.minutes * 60 / LONG_SECONDS))
        seconds = asked.minutes * 60 / runs
    print(f"torture: {runs} times {seconds:g} s from seed {seed} on", flush=True)
    with_bulk = asked.bulk or asked.minutes is not None
    return 0 if are_clean(runs, seconds=seconds, seed=seed, with_bulk=with_bulk) else 1


def are_clean(runs: int, *, seconds: float, seed: int, with_bulk: bool) -> bool:
    """Run so often, with one seed after the other, and tell the sum of them.

    What is aimed at has to happen once in all of them; the last one goes on until it has.
    """
    figures, seen, dirty = Figures(), Counter[str](), []

    def owing(own: Counter[str]) -> list[str]:
        # What the bulk has met is counted once only, in the end.
        return coverage.missed(seen + own, seconds=seconds * runs)

    for number in range(runs):
        verdict = torture(
            seconds=seconds,
            seed=seed + number,
            with_bulk=with_bulk,
            owing=owing if number == runs - 1 else None,
        )
        figures += verdict.figures
        seen += verdict.seen
        print(f"seed {verdict.seed}: {verdict.figures}", flush=True)
        if verdict.broken:
            dirty.append(verdict.seed)
            print(verdict, flush=True)
    missed = coverage.missed(seen, seconds=seconds * runs, bulk=with_bulk)
    print("\n".join(f"  {times:>8} {event}" for event, times in sorted(seen.items())))
    print("".join(f"NEVER HAPPENED: {event}\n" for event in missed), end="")
    print(figures)
    print(f"NOT CLEAN with seeds {dirty}" if dirty else "NOT CLEAN" if missed else "clean")
    return not (dirty or missed)


def are_caught(names: Sequence[str], seed: int) -> bool:
    """Run each mutant until a promise is broken, at most three times; print the table of them."""
    print("| known bug | noticed in run | promises broken |\n|---|---|---|", flush=True)
    escaped = 0
    for name in names:
        for number in range(TRIES):
            verdict = torture(
                seconds=MUTANT_SECONDS, seed=seed + number, mutant=name, owing=coverage.untried
            )
            if verdict.broken:
                found = ", ".join(f"{what} ({len(c)})" for what, c in verdict.broken.items())
                print(f"| `{name}` | {number + 1} | {found} |", flush=True)
                # Apart from the table: whether it is the bug that was noticed, or something else.
                for what, complaints in verdict.broken.items():
                    print(f"{what}: {complaints[0][:1000]}", file=sys.stderr, flush=True)
                break
        else:
            escaped += 1
            print(f"| `{name}` | NONE of {TRIES}, from seed {seed} on | |", flush=True)
    print(f"{len(names) - escaped} of {len(names)} noticed, with seeds from {seed} on", flush=True)
    return not escaped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

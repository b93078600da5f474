"""`python -m tests.nemesis`, or `./run torture`: one run, or one of each mutant."""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.nemesis import mutants
from tests.nemesis.run import Figures, torture

MUTANT_SECONDS = 20.0
TRIES = 3
# The evidence of a run is judged in memory, so a long form is many runs.
LONG_SECONDS = 100.0


def main(arguments: list[str]) -> int:
    """Run what is asked for; the exit code is 0 only if nothing was found, or every mutant was."""
    parser = argparse.ArgumentParser(prog="./run torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=75.0, help="how long faults go on")
    parser.add_argument(
        "--minutes", type=float, default=None, help="the long form: run after run, for so long"
    )
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
        escaped = [name for name in asked.mutants or mutants.NAMES if not is_caught(name, seed)]
        return 1 if escaped else 0
    if asked.minutes is not None:
        return 0 if is_clean_for(asked.minutes * 60, seed) else 1
    print(f"torture: seed {seed}, {asked.seconds:g} s", flush=True)
    verdict = torture(seconds=asked.seconds, seed=seed)
    print(verdict)
    print("clean" if verdict.is_clean else "NOT CLEAN")
    return 0 if verdict.is_clean else 1


def is_clean_for(seconds: float, seed: int) -> bool:
    """Run with one seed after the other until faults have gone on for *seconds*; tell the sum."""
    runs = max(1, round(seconds / LONG_SECONDS))
    figures, dirty = Figures(), []
    for number in range(runs):
        verdict = torture(seconds=seconds / runs, seed=seed + number)
        figures += verdict.figures
        print(f"seed {verdict.seed}: {verdict.figures}", flush=True)
        if not verdict.is_clean:
            dirty.append(verdict.seed)
            print(verdict, flush=True)
    print(figures)
    print(f"NOT CLEAN with seeds {dirty}" if dirty else "clean")
    return not dirty


def is_caught(name: str, seed: int) -> bool:
    """Run a mutant until a promise is broken, at most three times."""
    for number in range(TRIES):
        verdict = torture(seconds=MUTANT_SECONDS, seed=seed + number, mutant=name)
        if verdict.broken:
            found = ", ".join(f"{what} ({len(c)})" for what, c in verdict.broken.items())
            print(f"{name:40} caught with seed {verdict.seed}: {found}", flush=True)
            return True
    print(f"{name:40} ESCAPED with seeds {seed} to {seed + TRIES - 1}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

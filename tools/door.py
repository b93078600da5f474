"""What each verb of `./run` does.

A verb that hands over to one program is replaced by it, so that signals and exit codes are that
program's own. `demo` keeps the caller's folder, since its argument may be a path relative to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tools import venvs

ROOT = venvs.ROOT
HELP = """\
usage: ./run VERB [ARGUMENTS]

Every verb first makes what it needs, in .venv beside this script: a minute or so once,
then a tenth of a second.

  setup          make .venv, and no more
  demo [FOLDER]  put real files through a queue, kill a worker in mid-run, and count
                 (./run demo --help tells the rest)
  test [ARGS]    run the suite in random order on every core; ARGS go to pytest, for
                 example: ./run test tests/domain -k retry
                 --randomly-seed=SEED repeats an order that failed
  test --matrix [ARGS]
                 run it on every CPython and every PostgreSQL on this machine,
                 and say what was not run and why
  browser [ARGS] run what is tested in a real Chromium: the dashboard; ARGS go to pytest
                 --screenshots docs/images also writes the pictures of the documents
  check [NAMES]  run the checks: {checks}
  check --fix    format, sort imports and write the generated files first
  bench NAME     `wherry bench`, and what only we measure: predict, run and measure, on an
                 embedded PostgreSQL unless a database is named (bench/RESULTS.md has figures)
  proto [--check | --contract | --release]
                 write the wire code from proto/, or see that it is current; see that the
                 contract breaks no client of the released one; make it the released one
  torture [--seconds N [--seeds N] | --minutes N] [--bulk] [--seed S]
                 shoot processes and PostgreSQL while tasks run, then check every promise;
                 a run that failed is repeated with its seed; --minutes and --bulk pour in
                 tasks by the hundred as well
  torture --failover N
                 lose the primary N times, and let its synchronous standby take over
  torture --matrix [N]
                 measure each kind of crash N times, and write docs/explain/crash-matrix.md
  torture --mutants [NAME ...]
                 put known bugs into the product, and see that each is noticed

Settings, from the environment:
  WHERRY_PG_BIN  the folder of the PostgreSQL binaries to use instead of the embedded ones
"""


def main(arguments: list[str]) -> int:
    """Run one verb and return its exit code; a verb that hands over does not return."""
    verb, *rest = arguments or ["--help"]
    if verb in ("-h", "--help", "help"):
        from tools import check

        print(HELP.format(checks=", ".join(check.NAMES)), end="")
        return 0
    act = VERBS.get(verb)
    if act is None:
        print(f"run: no verb {verb!r}; the verbs: {', '.join(VERBS)}", file=sys.stderr)
        return 2
    try:
        return act(venvs.ensure(ROOT / ".venv"), rest)
    except venvs.SetupFailed as failed:
        print(f"run: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def pytest_command(python: Path, arguments: list[str]) -> list[str]:
    """Return the call of pytest for *arguments*, on every core unless they say otherwise.

    There is one process more than cores: a third of the suite's time goes into waiting, for leases
    to run out, for processes to start and for PostgreSQL.
    """
    command = [str(python), "-m", "pytest"]
    said = any(
        given.startswith(("-n", "--pdb", "--numprocesses", "-pno:xdist")) for given in arguments
    )
    if not said and "no:xdist" not in arguments:
        # xdist's "auto" counts physical cores, which may be one where two processes run well.
        command += ["-n", str(min(len(os.sched_getaffinity(0)) + 1, 8))]
    return command + arguments


def _become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)


def _setup(_python: Path, arguments: list[str]) -> int:
    if arguments:
        print(f"run: setup takes no arguments, but got: {' '.join(arguments)}", file=sys.stderr)
        return 2
    return 0


def _demo(python: Path, arguments: list[str]) -> int:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{before}" if before else str(ROOT)
    # -P: a folder named `examples` where the caller stands is not ours.
    return _become([str(python), "-P", "-m", "examples.demo", *arguments])


def _test(python: Path, arguments: list[str]) -> int:
    if "--matrix" in arguments:
        from tools import matrix

        return matrix.main(python, [given for given in arguments if given != "--matrix"])
    os.chdir(ROOT)
    return _become(pytest_command(python, arguments))


def _browser(python: Path, arguments: list[str]) -> int:
    from tools import browser

    return browser.main(python, arguments)


def _check(python: Path, arguments: list[str]) -> int:
    from tools import check

    return check.main(python, arguments)


def _bench(python: Path, arguments: list[str]) -> int:
    os.chdir(ROOT)
    return _become([str(python), "-m", "bench", *arguments])


def _proto(_python: Path, arguments: list[str]) -> int:
    from tools import proto

    return proto.main(arguments)


def _torture(python: Path, arguments: list[str]) -> int:
    os.chdir(ROOT)
    return _become([str(python), "-m", "tests.nemesis", *arguments])


VERBS: dict[str, Callable[[Path, list[str]], int]] = {
    "setup": _setup,
    "demo": _demo,
    "test": _test,
    "browser": _browser,
    "check": _check,
    "bench": _bench,
    "proto": _proto,
    "torture": _torture,
}

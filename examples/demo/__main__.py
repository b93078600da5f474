"""`./run demo [FOLDER]`: real files through a queue, and a worker killed in the middle of it.

The exit code is 0 if every promise held, 1 if one did not or the demo could not be run, 2 for
arguments that make no sense, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from rich.console import Console

import wherry
from examples.demo import report, tables
from examples.demo.load import FEWEST_FILES, PARTS, TooFewFiles, files_in, load
from examples.demo.show import Show
from examples.demo.tasks import app
from examples.demo.watch import watch
from examples.demo.workers import WorkerEnded, Workers
from wherry import embedded

TROUBLES = (WorkerEnded, tables.AnotherDemo, wherry.WherryError, psycopg.Error)


def main(arguments: list[str]) -> int:
    """Run the demo and return its exit code."""
    folder, at_most = parsed(arguments)
    # Whoever stops it politely has everything stopped and put in order, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        files = files_in(folder, at_most=at_most)
        return run(folder, files, Console(highlight=False))
    except TooFewFiles as too_few:
        print(f"demo: {too_few}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: stopped; nothing of it is left running", file=sys.stderr)
        return 130
    except TROUBLES as trouble:
        print(f"demo: {trouble}", file=sys.stderr)
        return 1


def parsed(arguments: list[str]) -> tuple[Path, int]:
    """Return the folder and the most files to take from it."""
    parser = argparse.ArgumentParser(
        prog="./run demo",
        description="Hash, compress and count the files of a folder: a document and a task each,"
        " two worker processes, one of them killed in the middle. At the end the database is asked"
        " whether anything was lost or done twice.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(sysconfig.get_paths()["stdlib"]),
        help=f"{FEWEST_FILES} files or more (default: Python's standard library, %(default)s)",
    )
    parser.add_argument(
        "--files",
        type=int,
        default=2500,
        metavar="N",
        help="take at most so many files (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is not a folder")
    if given.files < FEWEST_FILES:
        parser.error(f"--files {given.files}: at least {FEWEST_FILES}")
    return given.folder.resolve(), given.files


def run(folder: Path, files: list[Path], console: Console) -> int:
    """Put the files through the queue and print what came of it; return the exit code."""
    # The server is ours as long as we hold it, and stops with the last one who does.
    with embedded.acquire() as server, app, tables.fresh(server.dsn) as conn:
        console.print(
            f"{len(files):,} files of {folder}, PostgreSQL {server.version} (embedded)",
            markup=False,
            soft_wrap=True,
        )
        app.migrate()
        stop_loading = threading.Event()
        with (
            Show(console, files=len(files)) as show,
            Workers() as workers,
            ThreadPoolExecutor(PARTS) as loaders,
        ):
            loading = [
                loaders.submit(load, files, part=part, dsn=server.dsn, stop=stop_loading)
                for part in range(PARTS)
            ]
            try:
                watch(conn, loading=loading, files=len(files), workers=workers, show=show)
            finally:
                stop_loading.set()
        held = report.print_report(conn, console)
        dead = report.dead_task(conn)
    if dead is not None:
        print("\nLook at the dead task, and put it back into its queue:")
        for verb in ("show", "requeue"):
            print(f"  {program()} dead {verb} {dead} --dsn embedded: --schema {app.schema}")
    return 0 if held else 1


def program() -> str:
    """Return how to call `wherry` from where the caller stands."""
    path = Path(sys.executable).with_name("wherry")
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

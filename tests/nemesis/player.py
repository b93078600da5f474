"""What processes that act on their own have in common: their luck, and how they are told to end.

A file in the run's folder says that the run is coming to its end: a producer then ends, and whoever
settles tasks by hand settles them properly from then on, until SIGTERM. A file, since it also tells
who is started after that.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from tests.nemesis import history, mutants

SEED_VARIABLE = "NEMESIS_SEED"
ENDING = "ending"
HOUR_SECONDS = 3600.0

leaving = threading.Event()


def is_ending() -> bool:
    """Tell whether the run is coming to its end."""
    return Path(os.environ[history.FOLDER_VARIABLE], ENDING).exists()


def hold_lifeline() -> None:
    """End this process when the one that started it is gone, however that ended."""

    def wait() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


class Complaints(logging.Handler):
    """Notes what is logged as an error, or with a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            history.mine().note("logged", text=self.format(record))


def note_complaints() -> None:
    """Log as ever, and note in the history what is logged as an error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger().addHandler(Complaints())


def move_clock(seconds: float) -> None:
    """Let `time.time` be wrong in this process; the history keeps the right one."""
    right = time.time

    def wrong() -> float:
        return right() + seconds

    mock.patch("time.time", wrong).start()


def play(part: Callable[[random.Random], object], *, threads: int) -> None:
    """Act *part* in so many threads, each with its own seeded luck, and end the process."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: leaving.set())
    hold_lifeline()
    history.mine().note("began to act")
    mutants.apply()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")

    def act(number: int) -> None:
        try:
            part(random.Random(f"{os.environ[SEED_VARIABLE]}/{number}"))
        except BaseException:
            history.mine().note("failed", text=traceback.format_exc())
            raise

    acting = [threading.Thread(target=act, args=(number,)) for number in range(threads)]
    for thread in acting:
        thread.start()
    for thread in acting:
        # A join without a limit would keep the signal from being heard.
        while thread.is_alive():
            thread.join(0.1)
    sys.stderr.flush()
    # What is left in a pool does not matter.
    os._exit(0)

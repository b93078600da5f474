"""A server process: `python -m tests.nemesis.serving NAME`. It is the product's own server.

Like a worker it only notes what is logged as an error. It is started again at the same port, where
those that have lost it look for it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from dataclasses import replace
from datetime import timedelta

import wherry
from tests.nemesis import history, mutants
from tests.nemesis.doors import PORT_VARIABLE, database
from tests.nemesis.player import HOUR_SECONDS, hold_lifeline, move_clock, note_complaints
from tests.nemesis.tasks import REAP_SECONDS, UNREACHABLE
from wherry.config import ServerSettings
from wherry.server.run import serve


def main() -> int:
    """Be one server."""
    hold_lifeline()
    history.mine().note("began to serve")
    mutants.apply()
    note_complaints()
    move_clock(HOUR_SECONDS)
    settings = replace(
        ServerSettings(),
        grpc_address=f"127.0.0.1:{os.environ[PORT_VARIABLE]}",
        http_address=None,
        look_every=timedelta(seconds=REAP_SECONDS),
    )
    try:
        asyncio.run(serve(wherry.App(database()), settings, signals=True))
    except wherry.Unavailable as error:
        # Started while the database was down, like a worker.
        print(error, file=sys.stderr)
        return UNREACHABLE
    except Exception:
        history.mine().note("failed", text=traceback.format_exc())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

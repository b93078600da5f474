"""A process that enqueues tasks by the hundred: `python -m tests.nemesis.pourer`.

It goes on as long as not too many of them wait, so that the drainers set the pace.
"""

from __future__ import annotations

import itertools
import random
import traceback

import wherry
from tests.nemesis import history, tally
from tests.nemesis.bulk import QUEUE, app, drop
from tests.nemesis.player import is_ending, leaving, play

BATCH = 500
MOST_WAITING = 6000


def pour(_luck: random.Random) -> None:
    """Enqueue batch after batch until the run ends."""
    who = history.mine().name
    for first in itertools.count(step=BATCH):
        while is_full():
            leaving.wait(0.05)
        if is_ending():
            return
        names = [f"{who}-{n}" for n in range(first, first + BATCH)]
        tally.note("asked", [(first, BATCH)])
        try:
            answers = app.enqueue_many([
                {"type": drop.name, "queue": QUEUE, "payload": {"n": name}} for name in names
            ])  # fmt: skip
        except wherry.Unavailable:
            # Nobody knows: it may be there.
            leaving.wait(0.2)
        except Exception:
            history.mine().note("failed", text=traceback.format_exc())
        else:
            tally.note("told", [(a.id, name) for a, name in zip(answers, names, strict=True)])


def is_full() -> bool:
    """Tell whether enough are waiting, or it cannot be said; not when the run is ending."""
    if is_ending():
        return False
    try:
        return app.count_tasks(queue=QUEUE, state="queued", most=MOST_WAITING, timeout=5.0).capped
    except (wherry.Unavailable, wherry.TimedOut):
        return True


if __name__ == "__main__":
    play(pour, threads=1)

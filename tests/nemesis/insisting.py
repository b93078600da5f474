"""What is done about an event that a run has not met when its plan is over.

Most need time only, since everybody goes on acting; a few need a fault, which is then made again.
So it takes neither kind dice nor a quiet machine to meet them all, just a little longer.
"""

from __future__ import annotations

from collections.abc import Iterable

# Longer than any run ever took; a run that misses an event then cannot meet it.
INSIST_SECONDS = 60.0
# From one look at the evidence, which takes a while, to the next one.
LOOK_SECONDS = 5.0

_LEADS_TO = {
    "beat: lost": "pause the hand",
    "enqueue: unknown or killed": "kill a producer",
    "far: enqueue unknown": "lose a door's replies",
    "lease: lost and reaped": "pause a worker",
    "refused: canceling statement due to lock timeout": "lock a table",
    "report: lost": "pause a worker",
    "step: dead by lost workers": "kill a worker",
    "transfer: rolled back or lost": "kill a worker",
}


def faults_for(missing: Iterable[str]) -> list[str]:
    """Return the kinds of faults that lead to what is missing, each once."""
    return sorted({_LEADS_TO[event] for event in missing if event in _LEADS_TO})

"""Judges a run: every promise is a function from the evidence to its complaints.

The names are those of the invariants the product is built to keep (W durability, K keys, L leases,
C outcomes, S schedules, O liveness). A promise that needs a moment of grace says how long and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.nemesis import (
    promised_enqueues,
    promised_leases,
    promised_outcomes,
    promised_peace,
    promised_schedules,
)
from tests.nemesis.evidence import Evidence

Promise = Callable[[Evidence], Iterable[str]]

PROMISES: dict[str, Promise] = {
    **promised_enqueues.PROMISES,
    **promised_leases.PROMISES,
    **promised_outcomes.PROMISES,
    **promised_schedules.PROMISES,
    **promised_peace.PROMISES,
}


def check(evidence: Evidence) -> dict[str, list[str]]:
    """Return the complaints about each promise that was broken."""
    found = {name: list(promise(evidence)) for name, promise in PROMISES.items()}
    return {name: complaints for name, complaints in found.items() if complaints}

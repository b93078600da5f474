"""How pages say which task is meant, and what state it is in."""

from __future__ import annotations

import re
from typing import Final

from wherry.domain.state import State
from wherry.errors import InvalidOption
from wherry.server.dashboard.asking import Visit

# How a state is shown: its kind, which says colour and icon (task_parts.html), and its word.
STATES: Final = {
    State.QUEUED: ("clock", "Queued"),
    State.LEASED: ("busy", "Running"),
    State.SUCCEEDED: ("good", "Succeeded"),
    State.FAILED: ("bad", "Failed"),
    State.DEAD: ("dead", "Dead"),
    State.CANCELED: ("idle", "Canceled"),
}
_ID: Final = re.compile(r"\s*#?([0-9]{1,19})\s*", re.ASCII)


def task_id(text: str) -> int | None:
    """Return the task that a text names by its number, or None."""
    found = _ID.fullmatch(text)
    return None if found is None else int(found[1])


def asked_id(visit: Visit) -> int:
    """Return the task that the form or the address names. Raises InvalidOption."""
    given = visit.form.get("id") or visit.query.get("id", "")
    id = task_id(given)
    if id is None:
        raise InvalidOption("id", given, "name the task by its number: ?id=NUMBER")
    return id

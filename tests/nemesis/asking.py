"""How those who enqueue name what they ask for, so that it can be found again."""

from __future__ import annotations

import itertools
from typing import Any

from tests.nemesis import history

Ask = dict[str, Any]

_nonces = itertools.count(1)


def nonce() -> str:
    """Return a name that no other task has."""
    return f"{history.mine().name}-{next(_nonces)}"


def ask_for(type: str, *, queue: str = "mixed", key: str | None = None, **payload: Any) -> Ask:
    """Return a task to ask for, with a nonce of its own in its payload."""
    asked: Ask = {
        "type": f"tests.nemesis.tasks.{type}",
        "queue": queue,
        "payload": {"nonce": nonce(), **payload},
    }
    if key is not None:
        asked["key"] = key
    return asked

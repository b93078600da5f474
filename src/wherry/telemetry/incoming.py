"""The trace that a request to a server belongs to, as its caller told it.

A server keeps it with the tasks that are enqueued by the request, whether it traces anything itself
or not. Whoever runs the tasks finds it in their headers.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_STATE: Final = re.compile(r"[ -~]{1,512}")

_told: ContextVar[dict[str, str] | None] = ContextVar("wherry_incoming_trace", default=None)


def told() -> dict[str, str] | None:
    """Return the headers of the trace that the present request belongs to, if it is of any."""
    return _told.get()


def tell(parent: str | None, state: str | None) -> None:
    """Say what the request's own headers were; what is none of W3C's form counts for nothing."""
    if parent is None or not _PARENT.fullmatch(parent):
        return
    headers = {TRACEPARENT: parent}
    if state is not None and _STATE.fullmatch(state):
        headers[TRACESTATE] = state
    _told.set(headers)

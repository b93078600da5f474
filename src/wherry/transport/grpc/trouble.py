"""Tells what became of a call that failed: refused, certainly not happened, or nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import grpc

from wherry.errors import LimitReached, Unavailable, WherryError
from wherry.transport.grpc.rpcs import Rpc
from wherry.wire.status import DETAILS_KEY, error_of

# How gRPC's own texts begin where it had no connection to send anything on.
_NOT_SENT: Final = (
    "failed to connect to all addresses",
    "connections to all backends failing",
    "errors resolving",
    "DNS resolution failed",
    "empty address list",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is known of a failed call: the error for its caller, and if trying again makes sense."""

    error: WherryError
    may_repeat: bool
    pause_seconds: float | None = None


def trouble_of(failed: grpc.RpcError, rpc: Rpc[Any]) -> Trouble:
    """Return what is known of a call that failed."""
    # Both forms of a channel raise what has these, which the class itself does not say.
    call: Any = failed
    error = error_of(call, doing=rpc.method)
    if isinstance(error, LimitReached):
        # Refused at the door.
        return Trouble(error, error.retry_seconds is not None, error.retry_seconds)
    if not isinstance(error, Unavailable):
        return Trouble(error, may_repeat=False)
    if rpc.repeatable or _was_not_sent(call):
        return Trouble(error, may_repeat=True)
    if rpc.method == "EnqueueBatch":
        error = Unavailable(
            f"{error}. The tasks may have been stored: nobody can tell. Tasks with a key can be"
            " enqueued again, and are stored once"
        )
    return Trouble(error, may_repeat=False)


def _was_not_sent(call: Any) -> bool:
    if call.code() is not grpc.StatusCode.UNAVAILABLE:
        return False
    by_server = any(name == DETAILS_KEY for name, _ in call.trailing_metadata() or ())
    return not by_server and (call.details() or "").startswith(_NOT_SENT)

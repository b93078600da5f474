"""Tells what became of a call that failed: refused, certainly not happened, or nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import grpc

from wherry.dsn import ServerAddress
from wherry.errors import LimitReached, Unavailable, WherryError
from wherry.transport.grpc.rpc import Rpc
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


class Troubles:
    """What is known of failed calls of one address.

    gRPC tells of one attempt to connect, of one of a name's addresses. So what looked like a wrong
    set-up is kept in mind and told with each failure, until the server answers.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._advice: str | None = None
        self._answered = False

    def answered(self) -> None:
        """Take note that the server was reached."""
        self._answered, self._advice = True, None

    def of(self, failed: grpc.RpcError, rpc: Rpc[Any]) -> Trouble:
        """Return what is known of a call that failed."""
        # Both forms of a channel raise what has these, which the class itself does not say.
        call: Any = failed
        error = error_of(call, doing=rpc.method, server=f"the server at {self._address}")
        if _was_not_sent(call):
            self._advice = self._advice_on(call.details()) or self._advice
            if self._advice is not None:
                error = Unavailable(f"{error}. {self._advice}")
                error.advice = self._advice
        elif not isinstance(error, Unavailable):
            self.answered()
        return _trouble_of(error, call, rpc)

    def _advice_on(self, text: str) -> str | None:
        """Return what to do where connecting failed by how it is set up, or None."""
        host, has_ca, has_cert = self._address.host, self._address.ca, self._address.cert
        if "CERTIFICATE_VERIFY_FAILED" in text:
            if has_ca:
                return "Its certificate is not valid by the file of ca=: is that its CA?"
            return "Its certificate is of no CA known here: name the CA's with ?ca=FILE"
        if "Hostname Verification" in text:
            return f"Its certificate is not for {host!r}: connect by a name that is in it"
        if "WRONG_VERSION_NUMBER" in text:
            return "It seems to speak no TLS: is it grpc:// instead of grpcs://?"
        if "andshake failed" in text:
            return "The TLS handshake failed: does it speak TLS, and want a certificate of yours?"
        if "Socket closed" in text and not self._answered:
            # Once it has answered it may as well be ending.
            if not self._address.tls:
                return "It hung up at once: does it speak TLS? Then write grpcs://"
            if has_cert:
                return "It hung up at once: does it trust the certificate of cert=?"
            return "It hung up at once: does it want a certificate, as in ?cert=FILE&key=FILE?"
        return None


def _trouble_of(error: WherryError, call: Any, rpc: Rpc[Any]) -> Trouble:
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

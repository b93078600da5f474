"""uvicorn's HTTP/1.1 connection, with what it lacks: deadlines, and errors as problem details.

uvicorn waits for the head of a request for ever. Here a connection has so long to send the head of
its first request, and of every later one from its first byte on; and when a request was answered
before its body was all here (it was too large, or nobody knows the caller), what is left of the
body is thrown away for a short while only. Nor does an answer wait for ever to be read: it is held
in memory meanwhile, up to 16 MiB of it.
"""

from __future__ import annotations

import asyncio
import http
import sys
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from wherry.server.http.reading import SLOWEST_BYTES_A_SECOND
from wherry.server.http.refusals import MEDIA_TYPE, Refused, refused_body

# What every answer says, of whatever kind.
SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# Long enough for somebody who sends a large body to read that it is not taken.
_LINGER_SECONDS: Final = 2.0
_HEAD, _LEFT_OVER = "head", "left over"


class Connection(H11Protocol):
    """One connection; `request_seconds` is how long it has for the head of a request."""

    def __init__(self, *, request_seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._request_seconds = request_seconds
        self._waits_for: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        # Until when what was written has to be read at the other end.
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait_for(_HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._wait_for(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and see what is waited for now."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Go on to the next request, and see what is waited for now."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Begin to wait for the other end, which reads more slowly than is written."""
        super().pause_writing()
        if self._unread is None:
            size_bytes = self.transport.get_write_buffer_size()
            seconds = self._request_seconds + size_bytes / SLOWEST_BYTES_A_SECOND
            # To close would be to wait on.
            self._unread = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Wait no more: it was read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _look(self) -> None:
        if self.transport.is_closing():
            return self._wait_for(None)
        theirs, ours = self.conn.their_state, self.conn.our_state
        if theirs is h11.IDLE:
            # Between two requests uvicorn's own, shorter patience counts.
            begun = bool(self.conn.trailing_data[0])
            cycle: Any = self.cycle
            first = cycle is None
            return self._wait_for(_HEAD if begun or first else None)
        if theirs is h11.SEND_BODY and ours in (h11.DONE, h11.MUST_CLOSE):
            return self._wait_for(_LEFT_OVER)
        return self._wait_for(None)

    def _wait_for(self, what: str | None) -> None:
        if what == self._waits_for:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._waits_for = what
        if what is not None:
            seconds = self._request_seconds if what is _HEAD else _LINGER_SECONDS
            self._deadline = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        waited_for, self._waits_for, self._deadline = self._waits_for, None, None
        if self.transport.is_closing():
            return
        if waited_for is _HEAD and self.conn.trailing_data[0]:
            detail = f"no whole request was here after {self._request_seconds:g} s: send it faster"
            self._refuse(Refused(408, "TOO_SLOW", detail))
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        hint = getattr(sys.exc_info()[1], "error_status_hint", 400)
        if hint == 431:
            self._refuse(Refused(431, "HEADERS_TOO_LARGE", "the headers are too large"))
        else:
            self._refuse(Refused(400, "INVALID_HTTP", "this is no HTTP/1.1 request"))

    def _refuse(self, refused: Refused) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = refused_body(refused)
            headers = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"cache-control", b"no-store"),
                (b"connection", b"close"),
                *SECURITY_HEADERS,
            ]
            reason = http.HTTPStatus(refused.status).phrase.encode()
            for event in (
                h11.Response(status_code=refused.status, headers=headers, reason=reason),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        # uvicorn's types do not know that there may have been no request yet.
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Whoever was about to answer this request comes too late.
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        # Anybody could fill the log with it.
        pass

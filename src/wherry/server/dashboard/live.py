"""The stream that tells a browser to look again, as Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Send

from wherry.errors import Unauthenticated, Unavailable
from wherry.server.auth import Polls
from wherry.server.caller import ANYBODY, Caller
from wherry.server.dashboard.answers import Reply, send_reply
from wherry.server.dashboard.pulse import Pulse, Watch
from wherry.server.http.polling import Client
from wherry.server.http.refusals import Gone

if TYPE_CHECKING:
    from wherry.server.auth import Authenticator
    from wherry.server.dashboard.shared import Shared
    from wherry.server.service import Service

# Proxies close what is silent for a minute.
_SILENT_SECONDS: Final = 15.0
_MOST_STREAMS: Final = 200
_HEAD: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class Live:
    """Everybody who watches this server's dashboard."""

    def __init__(self, service: Service, authenticator: Authenticator, shared: Shared) -> None:
        self._service = service
        self._authenticator = authenticator
        self._shared = shared
        self._streams = Polls(_MOST_STREAMS)
        self.pulse = Pulse(self._look)

    async def close(self) -> None:
        """End every stream."""
        await self.pulse.close()

    async def stream(self, caller: Caller, receive: Receive, send: Send) -> None:
        """Tell one browser of changes until it leaves, loses its token, or the server closes."""
        if self.pulse.closed:
            await send_reply(Reply(503, media=None), send)
            return
        client = Client(receive)
        try:
            with self._streams.taken(caller):
                await send({"type": "http.response.start", "status": 200, "headers": list(_HEAD)})
                async with self.pulse.watched() as watch:
                    await self._tell(caller, watch, client, send)
        finally:
            await client.leave()

    async def _tell(self, caller: Caller, watch: Watch, client: Client, send: Send) -> None:
        await _write(send, b"retry: 2000\n\n")
        with suppress(Gone, Unauthenticated):
            while True:
                hearing = asyncio.create_task(watch.changed(within_seconds=_SILENT_SECONDS))
                changed = await client.unless_gone_first(hearing)
                if changed is None:
                    break
                with suppress(Unavailable):
                    # Its token may have been revoked meanwhile.
                    await self._authenticator.confirm(caller)
                await _write(send, b"event: changed\ndata: \n\n" if changed else b": quiet\n\n")
        await send({"type": "http.response.body", "body": b""})

    async def _look(self) -> Hashable:
        """Return what differs once something that pages show has changed.

        It asks as somebody who may see all, and keeps nothing but whether it differs.
        """
        anybody = replace(ANYBODY, peer="")
        queues = await self._shared.read(anybody, self._service.list_queues)
        workers = await self._shared.read(anybody, self._service.list_workers)
        schedules = await self._shared.read(anybody, self._service.list_schedules)
        pauses = await self._shared.read(anybody, self._service.list_paused_types)
        return (
            tuple(replace(queue, oldest_due_seconds=None) for queue in queues),
            tuple(replace(worker, beat_at=worker.started_at) for worker in workers),
            tuple(schedules),
            tuple(pauses),
        )


async def _write(send: Send, text: bytes) -> None:
    await send({"type": "http.response.body", "body": text, "more_body": True})

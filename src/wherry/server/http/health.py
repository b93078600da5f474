"""Whether a server can serve: it is not draining, and its database answers.

Anybody may ask, so that the database is asked no more than once a second, however often they do.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from wherry.commands.workers import GetChannel
from wherry.errors import Unavailable, WherryError
from wherry.server.http.refusals import Refused

if TYPE_CHECKING:
    from wherry.app.app import App

_KEPT_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 2.0


class Health:
    """What `/readyz` answers."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._asked_at = -_KEPT_SECONDS
        self._trouble: Exception | None = None
        self.draining = False

    async def check(self) -> None:
        """Raise Refused while the server drains, and Unavailable while its database is away."""
        if self.draining:
            raise Refused(503, "SHUTTING_DOWN", "the server is shutting down: ask another one")
        async with self._lock:
            if monotonic() - self._asked_at >= _KEPT_SECONDS:
                self._trouble = await self._ask()
                self._asked_at = monotonic()
        if self._trouble is not None:
            # A new one each time: an exception that is raised again grows.
            raise Unavailable("the database did not answer") from self._trouble

    async def _ask(self) -> Exception | None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._app.acarry(GetChannel(), call="readyz")
        except (WherryError, TimeoutError) as error:
            return error
        return None

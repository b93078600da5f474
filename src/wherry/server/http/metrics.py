"""`/metrics` of a server, in the form that Prometheus asks for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import (
    choose_encoder,  # pyright: ignore[reportUnknownVariableType]
)

from wherry.integrations.prometheus import Shown, metered
from wherry.telemetry.readings import Reading

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.server.metrics import Fleet


class Metrics:
    """All that a server tells; *fleet* is what it tells of all tasks, if anything."""

    def __init__(self, app: App, fleet: Fleet | None) -> None:
        self._fleet = fleet
        self._meters = metered(app)
        self._writing = asyncio.Lock()

    async def shown(self, accept: str) -> tuple[str, bytes]:
        """Return media type and text, as the request's Accept would have it."""
        told = [] if self._fleet is None else await self._fleet.read()
        # Ten thousand lines take a while, in which others are to be answered. Many threads that
        # write at once would leave them none of it.
        async with self._writing:
            return await asyncio.to_thread(self._written, accept, told)

    def _written(self, accept: str, told: list[Reading]) -> tuple[str, bytes]:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(Shown(lambda: [*told, *self._meters.read()]))
        write, media = choose_encoder(accept)
        body: bytes = write(registry)
        return media, body

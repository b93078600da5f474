"""Composes a service in this process: its desk, its listener, its maintenance.

Besides the App's own pool a server holds four connections, however many workers it has: leasing,
keeping (beats, what goes back), maintenance and the listener; and a fifth one as soon as somebody
asks for metrics.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from wherry.config import ServerSettings, WorkerSettings
from wherry.maintenance.service import Maintenance
from wherry.server.desk import Desk
from wherry.server.metrics import STATEMENT_TIMEOUT, Fleet
from wherry.server.service import Service
from wherry.telemetry.loggers import logger
from wherry.telemetry.readings import Reading
from wherry.transport.base import Transport
from wherry.transport.connect import BRIEF, BRIEF_SECONDS, NO_WAIT
from wherry.transport.listen import Listener
from wherry.transport.passing import LONG, LONG_SECONDS, PassingSession
from wherry.transport.session import SessionTransport
from wherry.transport.timed import Timed

if TYPE_CHECKING:
    from wherry.app.app import App

log = logger("wherry.server")

_LEAVE_WITHIN_SECONDS: Final = 0.5


class Running:
    """A service that runs. `ended` is done only if a part of it ended by itself, by our mistake."""

    def __init__(
        self, service: Service, desk: Desk, fleet: Fleet, parts: list[asyncio.Task[None]]
    ) -> None:
        self.service = service
        self.desk = desk
        self.fleet = fleet
        self._parts = parts

    async def ended(self) -> None:
        """Return, or raise, as soon as one of its parts has ended; that is never expected."""
        done, _ = await asyncio.wait(self._parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()


@asynccontextmanager
async def running_service(
    app: App, settings: ServerSettings | None = None, *, instance: str | None = None
) -> AsyncGenerator[Running, None]:
    """Run a service on the App's database; at the end it gives back what it could not deliver.

    The database may be away: then it is served as soon as it is there. *instance* is a UUID.
    """
    settings = settings or ServerSettings()
    rhythms = WorkerSettings()
    instance = instance or str(uuid.uuid4())
    dsn = await asyncio.to_thread(lambda: app.dsn)
    async with AsyncExitStack() as stack:

        def session(
            purpose: str,
            options: dict[str, str] | None = None,
            *,
            kind: type[SessionTransport] = SessionTransport,
            **more: float,
        ) -> Transport:
            transport = kind(
                dsn,
                schema=app.schema,
                name=f"wherry server {purpose}",
                settings=app.settings,
                options=options,
                **more,
            )
            stack.push_async_callback(transport.close)
            return transport if app.meters is None else Timed(transport, app.meters)

        def heard(queue: str) -> None:
            desk.heard(queue)
            maintenance.nudge()

        listener = Listener(
            dsn,
            schema=app.schema,
            name="wherry server listener",
            settings=app.settings,
            heard=heard,
        )
        desk = Desk(
            leasing=session("leasing", BRIEF | NO_WAIT, answer_seconds=BRIEF_SECONDS),
            keeping=session("keeping", BRIEF | NO_WAIT, answer_seconds=BRIEF_SECONDS),
            instance=instance,
            is_listening=lambda: listener.alive,
            came=lambda: maintenance.unpark(),
            deaf_seconds=listener.deaf_seconds if settings.listen else lambda: None,
            look_seconds=rhythms.poll_every.total_seconds(),
            look_seconds_listening=rhythms.poll_every_when_listening.total_seconds(),
        )
        maintenance = Maintenance(
            session("maintenance"),
            look_seconds=lambda: (
                settings.look_every if listener.alive else rhythms.poll_every
            ).total_seconds(),
            queues=None,
            found_work=desk.promoted,
            recounting=session("recount", LONG, kind=PassingSession, answer_seconds=LONG_SECONDS),
        )
        parts = [
            asyncio.create_task(desk.run(), name="desk"),
            asyncio.create_task(maintenance.run(), name="maintenance"),
        ]
        # Connects only once somebody asks.
        fleet = Fleet(session("metrics", {"statement_timeout": STATEMENT_TIMEOUT}))
        if settings.listen:
            if app.meters is not None:
                deaf = "wherry_listeners_down"
                told = app.meters.asking(lambda: [Reading(deaf, (), float(not listener.alive))])
                stack.enter_context(told)
            parts.append(asyncio.create_task(listener.run(), name="listener"))
        try:
            yield Running(Service(app, desk=desk, settings=settings), desk, fleet, parts)
        finally:
            desk.drain()
            await desk.leave_all()
            for part in parts:
                part.cancel()
            await asyncio.wait(parts, timeout=_LEAVE_WITHIN_SECONDS)

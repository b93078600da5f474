"""What the doctor says of the database: asked in a thread, while somebody looks, and kept.

The doctor takes a second, and a minute on a sick database, over a connection of its own. So nobody
waits for it here: a page shows what it said last, and when that was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final

from wherry.doctor.examine import examine
from wherry.doctor.finding import Diagnosis
from wherry.doctor.measure import Measures, measure
from wherry.errors import WherryError
from wherry.telemetry.loggers import logger

if TYPE_CHECKING:
    from wherry.app.app import App

log = logger("wherry.server.dashboard")

KEPT_SECONDS: Final = 15.0
KEPT_FOR_ITS_COST: Final = 20


@dataclass(frozen=True, slots=True)
class Round:
    """What the doctor said and measured, and when (on this machine's clock); or why not."""

    diagnosis: Diagnosis | None
    at: datetime
    trouble: str | None = None
    measures: Measures | None = None


class Rounds:
    """Has the doctor look, one look at a time."""

    def __init__(self, app: App, *, clock: Callable[[], float] = monotonic) -> None:
        self._app = app
        self._clock = clock
        self._last: Round | None = None
        self._due_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    def last(self) -> Round | None:
        """Return what was said last, None if that is still to come; begins a look that is due."""
        is_resting = self._looking is None or self._looking.done()
        if is_resting and (self._last is None or self._clock() >= self._due_at):
            self._looking = asyncio.create_task(self._look(), name="doctor's round")
        return self._last

    async def next(self) -> Round | None:
        """Return what is said by the look that is under way, or was last."""
        self.last()
        if self._looking is not None:
            await asyncio.wait([self._looking])
        return self._last

    async def aclose(self) -> None:
        """Wait for no look any more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self) -> None:
        began_at = self._clock()
        try:
            dsn = await asyncio.to_thread(lambda: self._app.dsn)
            found = await asyncio.to_thread(examine, dsn, schema=self._app.schema)
            measures = await asyncio.to_thread(measure, dsn, schema=self._app.schema)
            self._last = Round(found, datetime.now(UTC), measures=measures)
        except WherryError as error:
            self._last = Round(None, datetime.now(UTC), str(error))
        except Exception as error:
            log.exception("the doctor's round failed")
            self._last = Round(None, datetime.now(UTC), type(error).__name__)
        took = self._clock() - began_at
        self._due_at = self._clock() + max(KEPT_SECONDS, took * KEPT_FOR_ITS_COST)

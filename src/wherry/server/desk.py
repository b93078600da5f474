"""Where workers wait for tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wherry.domain.lease import Lease, LeaseRef
from wherry.domain.worker import Directive
from wherry.server.caller import Caller

if TYPE_CHECKING:
    from wherry.app.app import App


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What somebody who came to lease asked for, checked."""

    caller: Caller
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...] | None
    max_tasks: int
    max_last: int | None
    lease_seconds: float
    wait_seconds: float
    confirm_seconds: float | None


class Desk:
    """Hands out leases; for now every poll asks for itself."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def poll(self, poll: Poll) -> list[Lease]:
        """Lease for one poll, waiting as long as it says."""
        return await self._app.alease(
            worker=poll.worker,
            queues=poll.queues,
            types=poll.types,
            max_tasks=poll.max_tasks,
            lease_for=poll.lease_seconds,
            wait=poll.wait_seconds,
        )

    async def give_back(self, leases: Sequence[Lease]) -> None:
        """Release leases that were not delivered."""
        for lease in leases:
            await self._app.arelease(lease)

    def confirm(self, leases: Iterable[LeaseRef]) -> None:
        """These leases are known to have been delivered."""

    def seen(self, caller: Caller, worker: str) -> None:
        """A worker was heard of."""

    def directive_of(self, caller: Caller, worker: str) -> Directive:
        """Return what a worker is asked to do."""
        return Directive.NONE

    def ask_directives(self) -> None:
        """Look soon for what workers are asked to do."""

    async def leave(self, caller: Caller, worker: str) -> None:
        """A worker says goodbye."""

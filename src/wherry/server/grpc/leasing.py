"""The rpc Lease, whose answer must fit, and must reach somebody."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from wherry.domain.lease import Lease
from wherry.server.caller import Caller
from wherry.server.grpc.base import Verbs
from wherry.server.grpc.tasks import fitting
from wherry.wire.leases import write_lease
from wherry.wire.v1 import leases_pb2 as pb
from wherry.wire.values import DIRECTIVES, read_duration, write_duration

if TYPE_CHECKING:
    from wherry.server.service import Service

# An answer that is on its way when the caller's deadline passes is lost, and its leases with it.
_BEFORE_DEADLINE_SECONDS: Final = 0.5
_MOST_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Handout:
    """An answer to Lease. Its leases are to be given back if it is not sent, the surplus anyway."""

    response: pb.LeaseResponse
    leases: list[Lease]
    surplus: list[Lease]


class LeaseVerb(Verbs):
    """Leases tasks; what would make the answer too large for a gRPC client is given back."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        # How many of these queues' tasks fit. Giving back counts as a release, of which a task has
        # a hundred: so that it is not done at each poll, this is remembered.
        self._fit: OrderedDict[tuple[str, ...], int] = OrderedDict()

    async def lease(
        self, caller: Caller, request: pb.LeaseRequest, *, left_seconds: float | None
    ) -> Handout:
        """Return the answer, with the leases that are in it and those that are not.

        *left_seconds*: how long the caller waits for it; None if for ever.
        """
        came_at = monotonic()
        queues = tuple(request.queues)
        asked = request.max_tasks or 1
        most = min(asked, self._fit.get(queues, asked))
        said: dict[str, Any] = {}
        for name, field in (("lease_for", "lease_duration"), ("confirm_within", "confirm_within")):
            if _has(request, field):
                said[name] = read_duration(getattr(request, field), option=field)
        wait = read_duration(request.wait, option="wait")
        if left_seconds is not None and wait > 0:
            wait = min(wait, max(0.0, left_seconds - _BEFORE_DEADLINE_SECONDS))
        leased = await self.service.lease(
            caller,
            worker=request.worker_id,
            instance=request.instance or None,
            queues=list(queues),
            types=list(request.types) or None,
            max_tasks=most,
            max_last=request.max_last if request.HasField("max_last") else None,
            wait=wait,
            **said,
        )
        leases = list(leased.leases)
        try:
            messages = fitting([write_lease(lease) for lease in leases])
            response = pb.LeaseResponse(
                tasks=messages,
                directive=DIRECTIVES.write(leased.directive),
                waited=write_duration(monotonic() - came_at),
            )
        except BaseException:
            await self.service.undelivered(leases)
            raise
        fit, surplus = leases[: len(messages)], leases[len(messages) :]
        self._learn(queues, asked=asked, leased=len(leases), fit=len(fit))
        return Handout(response, fit, surplus)

    def _learn(self, queues: tuple[str, ...], *, asked: int, leased: int, fit: int) -> None:
        """Ask for no more than what has fitted, and for twice as many where all of that fits."""
        limit = self._fit.pop(queues, None)
        if fit < leased:
            limit = fit
        elif limit is not None and leased >= limit:
            limit *= 2
        if limit is not None and limit < asked:
            self._fit[queues] = limit
            if len(self._fit) > _MOST_REMEMBERED:
                self._fit.popitem(last=False)


def _has(message: Any, field: str) -> bool:
    return bool(message.HasField(field))

"""Every verb of the service does what the library's does."""

from __future__ import annotations

import wherry
from wherry.domain.lease import Reported
from wherry.server.caller import ANYBODY
from wherry.server.service import Asked, Service
from wherry.wire.lease_token import write_lease_token


async def test_a_task_goes_through_a_server_from_enqueue_to_done(
    service: Service, app: wherry.App
) -> None:
    enqueued = await service.enqueue(ANYBODY, task=Asked("shop.mail", '{"to": "a@b.c"}'))
    leased = await service.lease(ANYBODY, worker="w")

    [lease] = leased.leases
    answer = await service.complete(ANYBODY, lease=write_lease_token(lease), result_text="[1]")

    assert answer is Reported.DONE
    task = await service.get_task(ANYBODY, id=enqueued.id)
    assert task.payload == {"to": "a@b.c"}
    assert task.result == [1]

"""What is asked about tasks is answered alike by either way."""

from __future__ import annotations

from dataclasses import replace

import wherry
from tests.conformance.support import dead, leased
from wherry.domain.state import State
from wherry.domain.why import Why

NOBODY = 10**9


def at_rest(why: Why) -> Why:
    """Leave out what differs from one look to the next."""
    return replace(why, at=None)


async def test_why_tells_the_same(app: wherry.App, database: wherry.App) -> None:
    await database.apause_queue("q", reason="a flood")
    queued = (await app.aenqueue("t", queue="q", ttl=36_000)).id
    ended = await dead(app)
    held = (await leased(app)).id

    for id_ in (queued, ended, held):
        told, known = await app.awhy(id_), await database.awhy(id_)
        assert [reason.code for reason in told.reasons] == [r.code for r in known.reasons]
        assert (told.state, told.queue, told.id) == (known.state, known.queue, id_)
        assert [reason.at for reason in told.reasons] == [r.at for r in known.reasons]
    assert at_rest(await app.awhy(ended)).reasons[0].advice == (
        (await database.awhy(ended)).reasons[0].advice
    )


async def test_why_of_nobody_is_an_answer(app: wherry.App) -> None:
    told = await app.awhy(NOBODY)

    assert told == Why.not_found(NOBODY)
    assert told.state is not State.QUEUED

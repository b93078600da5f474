"""Lease tokens that somebody has changed: none of them changes a task."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import wherry
from tests.security.doors import Calls
from tests.security.places import MINE, OTHER, bearer, create, dump, place
from wherry.wire.lease_token import read_lease_token, write_lease_token

WAYS: tuple[dict[str, Any], ...] = (
    {"complete": {}},
    {"fail": {"error": {"type": "E"}}},
    {"fail": {"retry": False}},
    {"cancel": {}},
    {"snooze": {"delay": "1s"}},
    {"release": {}},
)
# Rows that are the server's own business, and may change while somebody calls.
ASIDE = ("worker", "waiting")
HARMLESS = ("lost", "invalid")


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bytes_of(lease: str) -> bytes:
    return base64.urlsafe_b64decode(lease + "=" * (-len(lease) % 4))


def altered(lease: str) -> Iterator[str]:
    """Return every token that differs in one bit, and more that differ in other ways."""
    data = bytes_of(lease)
    for place_ in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place_] ^= 1 << bit
            yield text_of(bytes(changed))
    for cut in range(len(data)):
        yield text_of(data[:cut])
    for more in (b"\0", b"x", b"\xff", data):
        yield text_of(data + more)
        yield text_of(more + data)
    draw = random.Random(5)
    for _ in range(50):
        yield text_of(draw.randbytes(len(data)))
    yield ""
    yield lease + "é"
    yield lease + "\n"
    yield f" {lease}"
    yield "A" * 1000


def answers_of(body: Any, name: str) -> list[str]:
    return [each["answer"].lower().removeprefix("reported_") for each in body[name]]


async def test_a_changed_token_never_changes_a_task(
    app: wherry.App, doors: list[Calls], connect: Callable[..., Any]
) -> None:
    there = await place(app, OTHER)
    shown = bearer(await create(app, "work"))
    sql = connect()
    changed = [lease for lease in altered(there.lease) if lease != there.lease]
    before = dump(sql, but=ASIDE)

    for call in doors:
        for n, way in enumerate(WAYS):
            some = [{"lease": lease, **way} for lease in changed[n :: len(WAYS)]]
            said = await call("Report", {"outcomes": some}, shown)
            assert said.code == "OK", said.text[:300]
            assert set(answers_of(said.body, "answers")) <= {*HARMLESS}
        said = await call("Heartbeat", {"leases": changed}, shown)
        assert said.code == "OK", said.text[:300]
        assert set(answers_of(said.body, "beats")) <= {*HARMLESS}

    assert dump(sql, but=ASIDE) == before
    # What was not changed does it.
    said = await doors[0]("Complete", {"lease": there.lease}, shown)
    assert said.code == "OK"


async def test_a_changed_token_is_refused_where_one_is_reported(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    mine, other = await place(app, MINE), await place(app, OTHER)
    shown = bearer(await create(app, "work"))
    sql = connect()
    before = dump(sql, but=ASIDE)
    mixed = bytearray(bytes_of(mine.lease))
    # The task of one, the lease id of another.
    mixed[17:33] = bytes_of(other.lease)[17:33]

    for verb in ("Complete", "Fail", "Snooze", "Release"):
        more = {"delay": "1s"} if verb == "Snooze" else {}
        for lease in (text_of(bytes(mixed)), text_of(bytes_of(other.lease)[:-1] + b"x")):
            said = await call(verb, {"lease": lease, **more}, shown)
            assert said.code == "FAILED_PRECONDITION", said
            assert "LEASE_LOST" in said.text
        for lease in ("", "x", "é" * 10, text_of(bytes_of(mine.lease)[:20])):
            said = await call(verb, {"lease": lease, **more}, shown)
            assert said.code == "INVALID_ARGUMENT", said

    assert dump(sql, but=ASIDE) == before


async def test_a_token_that_claims_ones_own_queue_opens_no_other(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    """The queue in a lease token is what the right is judged by: a lie about it must not help."""
    other = await place(app, OTHER)
    me = bearer(await create(app, "work", queues=(MINE,)))
    known = read_lease_token(other.lease)
    data = bytes_of(other.lease)
    lie = text_of(data[: -len(OTHER)] + MINE.encode())
    assert read_lease_token(lie).fence == known.fence
    sql = connect()
    before = dump(sql, but=ASIDE)

    told = await call("Report", {"outcomes": [{"lease": lie, **way} for way in WAYS]}, me)
    beaten = await call("Heartbeat", {"leases": [lie]}, me)
    single = await call("Complete", {"lease": lie}, me)

    assert answers_of(told.body, "answers") == ["lost"] * len(WAYS)
    assert answers_of(beaten.body, "beats") == ["lost"]
    assert single.code == "FAILED_PRECONDITION"
    assert dump(sql, but=ASIDE) == before


async def test_a_token_of_a_lease_that_was_lost_does_not_come_back_to_life(
    app: wherry.App, call: Calls, connect: Callable[..., Any]
) -> None:
    there = await place(app, OTHER)
    shown = bearer(await create(app, "work", queues=(OTHER,)))
    released = await call("Release", {"lease": there.lease}, shown)
    assert released.code == "OK"
    taken = await call("Lease", {"worker_id": "w", "queues": [OTHER], "max_tasks": 5}, shown)
    again = next(t for t in taken.body["tasks"] if int(t["id"]) == there.leased)
    sql = connect()
    before = dump(sql, but=ASIDE)
    old, new = read_lease_token(there.lease), read_lease_token(again["lease"])
    # The old lease with the new number, the new one with the old: half of it is not enough.
    mixtures = [
        type(new)(0.0, new.id, new.queue, number, lease_id)
        for number, lease_id in (
            (old.token, old.lease_id),
            (old.token, new.lease_id),
            (new.token, str(uuid.uuid4())),
        )
    ]
    tried = [write_lease_token(lease) for lease in mixtures]
    for way in WAYS:
        said = await call("Report", {"outcomes": [{"lease": t, **way} for t in tried]}, shown)
        if "release" in way:
            # The lease that was given back was settled so: to say it again is harmless.
            assert set(answers_of(said.body, "answers")) <= {"lost", "already_done"}
        else:
            assert set(answers_of(said.body, "answers")) == {"lost"}

    assert dump(sql, but=ASIDE) == before

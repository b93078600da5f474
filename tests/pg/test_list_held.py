"""What workers run just now is listed, what has run for longest first."""

from __future__ import annotations

from tests.pg.support import Session
from wherry.commands.workers import BeatWorker, ListHeld, ListWorkers
from wherry.testing import Clock

INSTANCE = "0e6a0d4f-2f44-4a7b-9b0a-54f4cf2f5f52"


def test_what_is_leased_is_listed_by_its_worker(session: Session, clock: Clock) -> None:
    first = session.enqueue("send", queue="mail")
    [lease] = session.lease(queue="mail", worker="w-1")
    clock.advance(seconds=5)
    session.enqueue("resize", queue="images")
    session.lease(queue="images", worker="w-2")
    session.enqueue("waits", queue="mail")

    found = session.call(ListHeld())

    assert [(held.worker, held.queue, held.type) for held in found] == [
        ("w-1", "mail", "send"),
        ("w-2", "images", "resize"),
    ]
    assert found[0].id == first
    assert found[0].attempts == 1
    assert found[0].seconds >= 5
    session.complete(lease)
    assert [held.worker for held in session.call(ListHeld())] == ["w-2"]


def test_no_more_than_asked_is_looked_at(session: Session) -> None:
    for _ in range(5):
        session.enqueue()
    session.lease(5)

    assert len(session.call(ListHeld(most=3))) == 3


def test_a_beat_tells_what_the_worker_is(session: Session) -> None:
    beat = BeatWorker(
        instance=INSTANCE,
        name="w",
        host="h",
        pid=1,
        queues=None,
        types=None,
        slots=20,
        version="1.2.3",
        memory_bytes=2**33,
    )

    session.call(beat)

    [seen] = session.call(ListWorkers())
    assert (seen.slots, seen.version, seen.memory_bytes) == (20, "1.2.3", 2**33)


def test_a_beat_need_not_tell_what_the_worker_is(session: Session) -> None:
    session.call(
        BeatWorker(instance=INSTANCE, name="w", host="h", pid=None, queues=None, types=None)
    )

    [seen] = session.call(ListWorkers())
    assert (seen.slots, seen.version, seen.memory_bytes) == (None, None, None)

"""Beats of many workers at once, what they hear, and who is listed."""

from __future__ import annotations

from uuid import UUID

from tests.pg.support import Session
from wherry.commands.workers import BeatWorker, BeatWorkers, DirectWorkers, ListWorkers
from wherry.domain.worker import Directive
from wherry.testing import Clock

NONE, DRAIN, STOP = Directive.NONE, Directive.DRAIN, Directive.STOP


def worker(n: int, *, name: str | None = None, pid: int | None = 7) -> BeatWorker:
    return BeatWorker(
        instance=str(UUID(int=n)), name=name or f"w{n}", host="h", pid=pid, queues=None, types=None
    )


def test_many_beats_are_answered_in_their_order(session: Session) -> None:
    beats = tuple(worker(n) for n in (3, 1, 2))
    session.call(BeatWorkers(beats))
    session.call(DirectWorkers(("w1",), DRAIN))
    session.call(DirectWorkers(("w2",), STOP))

    assert session.call(BeatWorkers(beats)) == [NONE, DRAIN, STOP]


def test_one_that_is_named_twice_in_one_call_is_answered_twice(session: Session) -> None:
    assert session.call(BeatWorkers((worker(1), worker(1), worker(2)))) == [NONE, NONE, NONE]
    assert session.value("select count(*) from wherry.worker") == 2


def test_a_beat_of_nobody_is_answered(session: Session) -> None:
    assert session.call(BeatWorkers(())) == []


def test_a_directive_holds_until_it_is_taken_back(session: Session) -> None:
    session.call(worker(1))
    session.call(DirectWorkers(("w1",), DRAIN, actor="ann", reason="a new disk"))

    assert [session.call(worker(1)), session.call(worker(1))] == [DRAIN, DRAIN]

    [seen] = session.call(ListWorkers())
    assert (seen.directive, seen.directed_by, seen.directive_reason) == (DRAIN, "ann", "a new disk")
    session.call(DirectWorkers(("w1",), NONE, actor="ann", reason="it is in"))
    assert session.call(worker(1)) is NONE
    [seen] = session.call(ListWorkers())
    assert (seen.directive, seen.directed_by, seen.directive_reason) == (NONE, None, None)


def test_a_worker_that_starts_anew_has_no_directive(session: Session) -> None:
    session.call(worker(1, name="box"))
    session.call(DirectWorkers(("box",), STOP))

    assert session.call(worker(2, name="box")) is NONE


def test_all_live_workers_of_a_name_are_told_and_no_others(session: Session, clock: Clock) -> None:
    session.call(worker(1, name="box"))
    clock.advance(seconds=61)
    session.call(BeatWorkers((worker(2, name="box"), worker(3, name="box"), worker(4))))

    assert session.call(DirectWorkers(("box", "nobody"), DRAIN)) == 2

    directives = {seen.instance: seen.directive for seen in session.call(ListWorkers())}
    assert [directives[str(UUID(int=n))] for n in (1, 2, 3, 4)] == [NONE, DRAIN, DRAIN, NONE]


def test_workers_of_the_last_day_are_listed_by_name(session: Session, clock: Clock) -> None:
    session.call(worker(1, name="gone"))
    clock.advance(hours=24.5)
    session.call(worker(2, name="silent"))
    clock.advance(minutes=2)
    session.call(worker(3, name="alive", pid=None))

    listed = session.call(ListWorkers())

    assert [(seen.name, seen.alive, seen.pid) for seen in listed] == [
        ("alive", True, None),
        ("silent", False, 7),
    ]
    assert (listed[0].queues, listed[0].types) == (None, None)


def test_a_listed_worker_says_what_it_serves_and_knows(session: Session) -> None:
    session.call(
        BeatWorker(
            instance=str(UUID(int=9)), name="w", host="h", pid=1, queues=("a", 'b"'), types=("t",)
        )
    )

    [seen] = session.call(ListWorkers())

    assert (seen.queues, seen.types) == (("a", 'b"'), ("t",))
    assert seen.started_at == seen.beat_at

"""Outcomes reach the database in batches, once, and whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, cast

import pytest
from psycopg import errors

from tests.facts import await_for
from tests.worker.fake import FakeTransport, every, in_turn, make_lease
from wherry.commands.leases import CompleteTasks, FailTasks, GiveBackTasks
from wherry.domain.failure import Failure
from wherry.domain.lease import Lease, Reported
from wherry.domain.outcome import Completed, Failed, GivenBack, Outcome
from wherry.errors import InvalidOption, LimitReached, SchemaMissing, Unavailable
from wherry.worker import reporter as reporter_module
from wherry.worker.held import Held
from wherry.worker.reporter import Reporter

FAILURE = Failure("ValueError", "no good", "")


class Told:
    """A reporter at work on a scripted transport, and what it told."""

    def __init__(self, transport: FakeTransport, too: FakeTransport | None = None) -> None:
        self.transport = transport
        self.held = Held()
        self.answers: list[tuple[int, Reported]] = []
        self.reporter = Reporter(transport, self.held, told=self._told, too=too)

    def _told(self, outcomes: Sequence[Outcome], answers: Sequence[Reported]) -> None:
        told = zip(outcomes, answers, strict=True)
        self.answers += [(outcome.lease.id, answer) for outcome, answer in told]

    def put(self, *outcomes: Outcome) -> None:
        for outcome in outcomes:
            self.held.add([cast(Lease, outcome.lease)])
            self.reporter.put(outcome)

    async def settled(self) -> None:
        await await_for(lambda: not len(self.reporter))


@asynccontextmanager
async def reporting(**script: Any) -> AsyncIterator[Told]:
    kinds = {"complete": CompleteTasks, "fail": FailTasks, "give_back": GiveBackTasks}
    told = Told(FakeTransport({kinds[verb]: answer for verb, answer in script.items()}))
    running = asyncio.create_task(told.reporter.run())
    try:
        yield told
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def completed(id: int, result: str | None = None) -> Completed:
    return Completed(make_lease(id), result)


async def test_what_ends_while_a_report_is_under_way_shares_the_next_one() -> None:
    may_answer = asyncio.Event()

    async def slowly(command: CompleteTasks) -> list[Reported]:
        await may_answer.wait()
        return [Reported.DONE] * len(command.outcomes)

    async with reporting(complete=slowly) as told:
        told.put(completed(1))
        await await_for(lambda: told.transport.calls)
        told.put(*map(completed, range(2, 50)))
        may_answer.set()
        await told.settled()

    sizes = [len(command.outcomes) for command in told.transport.of(CompleteTasks)]
    assert sizes == [1, 48]
    assert told.answers == [(n, Reported.DONE) for n in range(1, 50)]
    assert len(told.held) == 0


async def test_a_second_report_goes_out_where_batches_pile_up_but_never_of_the_same_leases() -> (
    None
):
    may_answer = asyncio.Event()

    async def slowly(command: CompleteTasks) -> list[Reported]:
        await may_answer.wait()
        return [Reported.DONE] * len(command.outcomes)

    first, second = (FakeTransport({CompleteTasks: slowly}) for _ in range(2))
    told = Told(first, second)
    lease_ids = [f"{n}1111111-0000-0000-0000-000000000000" for n in range(3)]
    batches = [
        [make_lease(n * 1500 + i, lease_id=lease_id) for i in range(1500)]
        for n, lease_id in enumerate(lease_ids)
    ]
    for batch in batches:
        told.held.add(batch)
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(run()) for run in (told.reporter.run, told.reporter.run_too)]
        told.reporter.put(Completed(batches[0][0]))
        await await_for(lambda: first.calls)

        for lease in [*batches[0][1:], *batches[1], *batches[2]]:
            told.reporter.put(Completed(lease))
        await await_for(lambda: second.calls)
        may_answer.set()
        await told.settled()
        for run in runs:
            run.cancel()

    [beside, *_] = second.of(CompleteTasks)
    assert [outcome.lease.id for outcome in beside.outcomes] == list(range(1500, 2500))
    sent = first.of(CompleteTasks) + second.of(CompleteTasks)
    closed = [lease_id for command in sent for lease_id in command.closed]
    assert sorted(closed) == lease_ids
    assert len(told.held) == 0


async def test_kinds_are_sent_apart_and_a_lease_is_closed_with_its_last_task() -> None:
    leases = [make_lease(n, lease_id="11111111-0000-0000-0000-000000000000") for n in range(3)]

    async with reporting() as told:
        told.put(
            Completed(leases[0]),
            Failed(leases[1], "retry", FAILURE),
            GivenBack(leases[2], "release"),
        )
        await told.settled()

    commands = told.transport.calls
    assert [type(command) for command in commands] == [CompleteTasks, FailTasks, GiveBackTasks]
    closed = [getattr(command, "closed") for command in commands]  # noqa: B009
    assert closed == [(), (), ("11111111-0000-0000-0000-000000000000",)]


async def test_large_results_are_sent_a_few_at_a_time() -> None:
    large = '"' + "x" * 1_000_000 + '"'

    async with reporting() as told:
        told.put(*[completed(n, large) for n in range(30)])
        await told.settled()

    sizes = [len(command.outcomes) for command in told.transport.of(CompleteTasks)]
    assert sum(sizes) == 30
    assert max(sizes) <= 9


async def test_what_did_not_get_through_is_kept_and_sent_again_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """LOST-09: a report that had arrived after all is answered so."""
    answer = in_turn(Unavailable("gone"), Unavailable("gone"), [Reported.ALREADY_DONE])

    async with reporting(complete=answer) as told:
        told.put(completed(1))
        await await_for(lambda: len(told.transport.calls) == 1)
        assert told.reporter.unsent() == [1]
        assert len(told.held) == 1
        await told.settled()

    assert told.answers == [(1, Reported.ALREADY_DONE)]
    assert len({id(c.outcomes[0]) for c in told.transport.of(CompleteTasks)}) == 1
    # Once a minute is enough.
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "error",
    [errors.InsufficientPrivilege("no"), SchemaMissing("wherry"), errors.UndefinedTable("gone")],
    ids=lambda error: type(error).__name__,
)
async def test_an_outcome_is_not_dropped_for_what_is_wrong_with_the_database(
    error: Exception,
) -> None:
    async with reporting(complete=in_turn(error, [Reported.DONE])) as told:
        told.put(completed(1))
        await told.settled()

    assert told.answers == [(1, Reported.DONE)]


@pytest.mark.parametrize(
    "refused",
    [
        errors.UntranslatableCharacter("\\u0000 cannot be converted to text"),
        InvalidOption("result", None, "is refused by a server"),
        LimitReached("it is too large for a server"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_refused_outcome_spoils_none_of_its_neighbours(refused: Exception) -> None:
    """PAY-02, LOST-10: it is replaced by one that PostgreSQL cannot refuse."""

    def refuse_odd_results(command: CompleteTasks) -> list[Reported]:
        if any(outcome.result_text == "odd" for outcome in command.outcomes):
            raise refused
        return [Reported.DONE] * len(command.outcomes)

    async with reporting(complete=refuse_odd_results, fail=every(Reported.FAILED)) as told:
        told.put(*[completed(n, "odd" if n == 5 else "even") for n in range(9)])
        await told.settled()

    assert dict(told.answers) == {n: Reported.FAILED if n == 5 else Reported.DONE for n in range(9)}
    [failed] = told.transport.of(FailTasks)
    assert failed.outcomes[0].failure.type == "ResultRefused"
    assert len(told.held) == 0


async def test_a_failure_whose_text_is_refused_is_reported_without_it() -> None:
    def refuse_nul(command: FailTasks) -> list[Reported]:
        if any("\x00" in outcome.failure.message for outcome in command.outcomes):
            raise errors.CharacterNotInRepertoire("invalid byte sequence: 0x00")
        return [Reported.REQUEUED] * len(command.outcomes)

    async with reporting(fail=refuse_nul) as told:
        told.put(
            Failed(make_lease(1), "retry", Failure("E", "a\x00b", "")),
            Failed(make_lease(2), "retry", FAILURE),
        )
        await told.settled()

    assert sorted(told.answers) == [(1, Reported.REQUEUED), (2, Reported.REQUEUED)]
    assert told.transport.of(FailTasks)[-2].outcomes[0].failure.type == "ErrorRefused"


async def test_what_can_never_be_stored_is_said_and_let_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = errors.CheckViolation("never")

    async with reporting(complete=in_turn(refused)) as told:
        told.put(completed(7))
        await told.settled()

    assert told.answers == []
    assert len(told.held) == 0
    assert "the outcome of task 7 cannot be stored" in caplog.text


async def test_one_half_that_went_through_is_not_sent_again_when_the_other_fails() -> None:
    calls = 0

    def refuse_then_vanish(command: CompleteTasks) -> list[Reported]:
        nonlocal calls
        calls += 1
        match calls:
            case 1:
                raise errors.UntranslatableCharacter("somewhere in there")
            case 3:
                raise Unavailable("gone")
            case _:
                return [Reported.DONE] * len(command.outcomes)

    async with reporting(complete=refuse_then_vanish) as told:
        told.put(*map(completed, range(4)))
        await told.settled()

    assert told.answers == [(n, Reported.DONE) for n in range(4)]
    sent = [[o.lease.id for o in c.outcomes] for c in told.transport.of(CompleteTasks)]
    assert sent == [[0, 1, 2, 3], [0, 1], [2, 3], [2, 3]]


async def test_a_report_that_is_held_up_counts_as_unsent_and_is_asked_for_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An open transaction is completing the task; others are reported meanwhile."""
    monkeypatch.setattr(reporter_module, "_BUSY_PAUSE", 0.01)
    holding = True

    def busy(command: CompleteTasks) -> list[Reported]:
        return [
            Reported.BUSY if outcome.lease.id == 1 and holding else Reported.DONE
            for outcome in command.outcomes
        ]

    async with reporting(complete=busy) as told:
        told.put(completed(1))
        await await_for(lambda: len(told.transport.calls) >= 5)
        told.put(completed(2))
        await await_for(lambda: told.answers == [(2, Reported.DONE)])
        assert told.reporter.unsent() == [1]
        assert len(told.held) == 1
        holding = False
        await told.settled()

    assert told.answers == [(2, Reported.DONE), (1, Reported.DONE)]
    assert len(told.transport.calls) < 15


async def test_what_is_held_up_is_found_so_once_however_many_others_end_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To find it out takes time, in which the others of its report would wait."""
    monkeypatch.setattr(reporter_module, "_BUSY_PAUSE", 0.01)
    asked: list[tuple[float, bool]] = []

    def busy(command: CompleteTasks) -> list[Reported]:
        ids = [outcome.lease.id for outcome in command.outcomes]
        if 0 in ids:
            asked.append((monotonic(), command.unlocked))
        holding = len(asked) < 6
        return [Reported.BUSY if id == 0 and holding else Reported.DONE for id in ids]

    async with reporting(complete=busy) as told:
        told.put(completed(0))
        others = 0
        while len(told.reporter):
            others += 1
            told.put(completed(others))
            await await_for(lambda: told.reporter.unsent() in ([], [0]))

    assert [unlocked for _at, unlocked in asked] == [False, True, True, True, True, True]
    # 0.01 + 0.02 + 0.04 + 0.08 + 0.16: what went well meanwhile has cut none of them short.
    assert asked[-1][0] - asked[0][0] >= 0.3


async def test_what_was_busy_is_sent_once_though_the_rest_of_its_report_fails_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its time to be sent again comes while the other half is under way."""
    monkeypatch.setattr(reporter_module, "_BUSY_PAUSE", 0.0)
    times = 0

    async def lost_at_first(command: FailTasks) -> list[Reported]:
        nonlocal times
        times += 1
        if times == 1:
            for _ in range(5):
                await asyncio.sleep(0)
            raise Unavailable("gone")
        return [Reported.REQUEUED] * len(command.outcomes)

    busy_at_first = in_turn([Reported.BUSY], [Reported.DONE])
    async with reporting(complete=busy_at_first, fail=lost_at_first) as told:
        told.put(completed(1), Failed(make_lease(2), "fail", FAILURE))
        await told.settled()

    assert sorted(told.answers) == [(1, Reported.DONE), (2, Reported.REQUEUED)]


async def test_far_too_many_unsent_outcomes_make_the_slots_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporter_module, "_MOST_WAITING", 10)
    may_answer = asyncio.Event()

    async def slowly(command: CompleteTasks) -> list[Reported]:
        await may_answer.wait()
        return [Reported.DONE] * len(command.outcomes)

    async with reporting(complete=slowly) as told:
        told.put(completed(0))
        await await_for(lambda: told.transport.calls)
        told.put(*map(completed, range(1, 11)))
        async with asyncio.timeout(30):
            await told.reporter.room()
        told.put(completed(11))
        waiting = asyncio.create_task(told.reporter.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        may_answer.set()
        async with asyncio.timeout(30):
            await waiting
        await told.settled()

    assert len(told.answers) == 12


async def test_a_mistake_of_ours_ends_the_reporter_visibly() -> None:
    told = Told(FakeTransport({CompleteTasks: in_turn(KeyError("a bug"))}))
    running = asyncio.create_task(told.reporter.run())

    told.put(completed(1))

    with pytest.raises(KeyError, match="a bug"):
        async with asyncio.timeout(30):
            await running
    assert told.reporter.unsent() == [1]

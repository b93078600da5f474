"""The table of verbs says what each call of App really sends, and leaves out none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import wherry
from wherry.app.calls_blocking import Calls
from wherry.app.operators_blocking import Operators
from wherry.app.schedules_blocking import Schedules
from wherry.commands import VERBS
from wherry.commands.base import Command
from wherry.commands.tasks import GetTask

NOBODY = 10**9


class Listening(wherry.App):
    """Notes which commands are carried."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.sent: list[Command[Any]] = []

    def carry(self, command: Command[Any], *, tx: Any = None, call: str = "call") -> Any:
        self.sent.append(command)
        return super().carry(command, tx=tx, call=call)

    def kinds(self) -> tuple[type[Command[Any]], ...]:
        """What was carried, by its type."""
        return tuple(type(command) for command in self.sent)

    def leased(self) -> wherry.Lease:
        """Lease a task of its own, unnoticed."""
        self.enqueue("t")
        [lease] = self.lease(worker="w")
        self.sent.clear()
        return lease


@pytest.fixture
def listening(dsn: str) -> Iterator[Listening]:
    with Listening(dsn) as app:
        yield app


def complete_in_both_ways(app: Listening, connect: Callable[..., Any]) -> None:
    lease = app.leased()
    with connect(autocommit=False) as tx:
        app.complete(lease, tx=tx)
    app.complete(lease)


CALLS: dict[str, Callable[[Listening], object]] = {
    "enqueue": lambda app: app.enqueue("t"),
    "get_task": lambda app: app.get_task(NOBODY),
    "list_tasks": lambda app: app.list_tasks(),
    "count_tasks": lambda app: app.count_tasks(),
    "group_dead_tasks": lambda app: app.group_dead_tasks(),
    "result": lambda app: app.result(NOBODY, timeout=0),
    "why": lambda app: app.why(NOBODY),
    "copy_task": lambda app: app.copy_task(NOBODY),
    "cancel": lambda app: app.cancel(NOBODY),
    "requeue": lambda app: app.requeue(NOBODY),
    "purge": lambda app: app.purge(NOBODY),
    "reprioritize": lambda app: app.reprioritize(NOBODY, 1),
    "reschedule": lambda app: app.reschedule(NOBODY, delay=0),
    "list_queues": lambda app: app.list_queues(),
    "pause_queue": lambda app: app.pause_queue("q"),
    "resume_queue": lambda app: app.resume_queue("q"),
    "list_schedules": lambda app: app.list_schedules(),
    "get_schedule": lambda app: app.get_schedule("s"),
    "list_ticks": lambda app: app.list_ticks("s"),
    "add_schedule": lambda app: app.add_schedule("new", "* * * * *", "t"),
    "run_schedule": lambda app: app.run_schedule("s"),
    "pause_schedule": lambda app: app.pause_schedule("s"),
    "resume_schedule": lambda app: app.resume_schedule("s"),
    "delete_schedule": lambda app: app.delete_schedule("s"),
    "list_paused_types": lambda app: app.list_paused_types(),
    "pause_type": lambda app: app.pause_type("t"),
    "resume_type": lambda app: app.resume_type("t"),
    "set_queue_limits": lambda app: app.set_queue_limits("q", max_running=3),
    "list_workers": lambda app: app.list_workers(),
    "direct_workers": lambda app: app.direct_workers(["w"], "drain"),
    "heartbeat": lambda app: app.heartbeat([app.leased()]),
    "fail": lambda app: app.fail(app.leased(), "no"),
    "snooze": lambda app: app.snooze(app.leased(), 1),
    "release": lambda app: app.release(app.leased()),
    "reap": lambda app: app.reap(),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_call_sends_the_commands_of_its_verb(verb: str, listening: Listening) -> None:
    with suppress(wherry.NotFound):
        CALLS[verb](listening)

    assert tuple(dict.fromkeys(listening.kinds())) == VERBS[verb]


def test_a_lease_of_any_queue_asks_first_which_have_tasks(listening: Listening) -> None:
    listening.enqueue("t")
    listening.sent.clear()

    listening.lease(worker="w", queues=["*"])

    assert listening.kinds() == VERBS["lease"]


def test_a_completion_in_a_transaction_is_another_command(
    listening: Listening, connect: Callable[..., Any]
) -> None:
    complete_in_both_ways(listening, connect)

    assert listening.kinds() == VERBS["complete"]


def test_waiting_for_a_result_reads_no_history(listening: Listening) -> None:
    id_ = listening.enqueue("t").id
    listening.sent.clear()

    with pytest.raises(TimeoutError):
        listening.result(id_, timeout=0)

    assert listening.sent == [GetTask(id_, with_history=False)]


def test_every_call_has_its_verb() -> None:
    calls = {
        name.removesuffix("_many")
        for name, _ in inspect.getmembers(Calls, inspect.isfunction)
        if name in vars(Calls) | vars(Operators) | vars(Schedules) and not name.startswith("_")
    }

    assert calls - {"enqueue_specs"} == VERBS.keys()

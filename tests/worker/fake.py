"""A transport that answers as it is told: the one fake there is, for what only the worker decides.

It answers each command by the function scripted for its type, and remembers every command. What is
not scripted is answered as a database would answer if all went well and there were nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar, cast

from wherry.commands.base import Command
from wherry.commands.fronts import ListFronts, MoveFront
from wherry.commands.leases import (
    CompleteTasks,
    FailTasks,
    GiveBackTasks,
    HeartbeatLeases,
    LeaseTasks,
)
from wherry.commands.maintenance import (
    LookAround,
    Promoted,
    PromoteTasks,
    Seen,
    Unparked,
    UnparkTasks,
)
from wherry.commands.queues import ListReadyOf, ListStarts
from wherry.commands.workers import (
    BeatWorker,
    KeepWaiting,
    StopWaiting,
    TransactionsEnded,
    WaitForTasks,
)
from wherry.domain.front import Front, Horizon
from wherry.domain.lease import Lease, Rare, Reported, Times
from wherry.domain.worker import Directive

R = TypeVar("R")
Answer = Callable[[Any], Any]


class FakeTransport:
    """Answers commands by a script, and keeps them in `calls`."""

    def __init__(self, script: Mapping[Any, Answer] | None = None) -> None:
        self.script: dict[type[Command[Any]], Answer] = {**_ALL_IS_WELL, **(script or {})}
        self.calls: list[Command[Any]] = []

    async def call(self, command: Command[R]) -> R:
        """Answer by the script; what it returns may be awaitable."""
        self.calls.append(command)
        answer = self.script[type(command)](command)
        return cast(R, await answer if hasattr(answer, "__await__") else answer)

    def of(self, kind: type[Command[Any]]) -> list[Any]:
        """Return the commands of one type, in the order in which they came."""
        return [command for command in self.calls if type(command) is kind]


class BlockingFakeTransport(FakeTransport):
    """The same for the keeper, whose thread blocks."""

    is_closed = False

    def call(self, command: Command[R]) -> R:  # type: ignore[override]
        """Answer by the script, at once."""
        self.calls.append(command)
        return cast(R, self.script[type(command)](command))

    def close(self) -> None:
        """Be closed."""
        self.is_closed = True


def in_turn(*answers: Any) -> Answer:
    """Answer with one after the other, the last one for ever; an exception is raised."""
    left = list(answers)

    def answer(_command: Any) -> Any:
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Exception):
            raise given
        return given

    return answer


def every(answer: Reported) -> Answer:
    """Answer the same for each outcome or lease of a command."""
    return lambda command: [answer] * len(getattr(command, "outcomes", ()) or command.leases)


def leasing(leases: Sequence[Lease]) -> Answer:
    """Give out these leases, as many as are asked for at a time."""
    left = list(leases)

    def answer(command: LeaseTasks) -> list[Lease]:
        given, left[:] = left[: command.limit], left[command.limit :]
        return given

    return answer


def make_lease(id: int = 1, *, type: str = "t", seconds: float = 30.0, **fields: Any) -> Lease:
    """Return a lease as if it had just been given."""
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "queue": "default",
        "payload_text": "{}",
        "priority": 0,
        "position": id,
        "attempt": 1,
        "max_attempts": 20,
        "token": 1,
        "lease_id": "00000000-0000-0000-0000-000000000001",
        **fields,
    }
    rare = Rare(**{name: values.pop(name) for name in Rare._fields if name in values})
    values.setdefault("times", Times(now, now, now))
    return Lease(monotonic() + seconds, id=id, type=type, rare=rare, **values)


_ALL_IS_WELL: dict[type[Command[Any]], Answer] = {
    LeaseTasks: lambda _: [],
    ListFronts: lambda _: {},
    MoveFront: lambda _: (Front(), Horizon(0, ())),
    CompleteTasks: every(Reported.DONE),
    FailTasks: every(Reported.REQUEUED),
    GiveBackTasks: every(Reported.REQUEUED),
    HeartbeatLeases: every(Reported.EXTENDED),
    LookAround: lambda _: Seen(),
    PromoteTasks: lambda _: Promoted(0, None),
    UnparkTasks: lambda _: Unparked(0),
    # There may be some in any of them.
    ListReadyOf: lambda command: list(command.queues),
    # No queue has a limit.
    ListStarts: lambda _: {},
    WaitForTasks: lambda _: 100,
    KeepWaiting: lambda _: None,
    TransactionsEnded: lambda _: True,
    StopWaiting: lambda _: None,
    BeatWorker: lambda _: Directive.NONE,
}

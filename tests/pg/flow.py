"""Whether the sums of the flow say of every queue and type what is really there."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from wherry.commands.base import Command
from wherry.commands.flow import CountStates, ReadTotals
from wherry.commands.tally import RollFlow

R = TypeVar("R")
Counts = dict[tuple[str, str], dict[str, int]]

TRUE = """
select t.queue, t.type, t.state, count(*)
  from (
       select queue, type, case when state = 'leased' then 'leased' else 'queued' end as state
         from wherry.live
        union all
       select queue, type, state from wherry.live where state in ('delayed', 'parked')
        union all
       select queue, type, state from wherry.finished
        union all
       select queue, type, state from wherry.count_past_days(), generate_series(1, n)
  ) as t
 group by 1, 2, 3
"""


class Asks(Protocol):
    """Runs commands and statements, as a session of the tests does."""

    def call(self, command: Command[R], /) -> R: ...

    def rows(self, statement: str, /) -> list[tuple[Any, ...]]: ...


def roll(session: Asks) -> None:
    """Sum up whatever is in the flow, now."""
    more = True
    while more:
        session.rows("update wherry.chore set due_at = '-infinity' where name = 'roll'")
        more = session.call(RollFlow())


def counted(session: Asks) -> Counts:
    """What the sums say is there, without what there is none of."""
    counts: Counts = {}
    for count in session.call(CountStates()).counts:
        numbers: dict[str, int] = asdict(count)
        queue, type_ = str(numbers.pop("queue")), str(numbers.pop("type"))
        if there := {state: n for state, n in numbers.items() if n}:
            counts[queue, type_] = there
    return counts


def there(session: Asks) -> Counts:
    """What is there, by counting it."""
    counts: Counts = {}
    for queue, type_, state, n in session.rows(TRUE):
        counts.setdefault((queue, type_), {})[state] = n
    return counts


def totals(session: Asks, queue: str = "default", type: str = "t") -> dict[str, int]:
    """What was ever counted of a queue and type, without what never was."""
    [total] = [
        each
        for each in session.call(ReadTotals()).totals
        if (each.queue, each.type) == (queue, type)
    ]
    return {kind: n for kind, n in total.counts.items() if n}

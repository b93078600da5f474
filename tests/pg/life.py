"""Whatever can happen to tasks, one thing after the other, drawn at random from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal

from tests.pg.support import Session, spec
from wherry.commands.base import Command
from wherry.commands.leases import CompleteInTransaction
from wherry.commands.maintenance import (
    DiscardTasks,
    DropPastDays,
    MakeDays,
    ParkTasks,
    PromoteTasks,
    ReapLeases,
    UnparkTasks,
)
from wherry.commands.replanning import ReprioritizeTasks, RescheduleTasks
from wherry.commands.tally import RecountTasks, RollFlow
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks
from wherry.domain.lease import Lease
from wherry.domain.outcome import Completed
from wherry.testing import Clock

TYPES = ("t", "u", "strange")
KNOWS = (
    "insert into wherry.worker (instance, name, host, pid, queues, types, started_at, beat_at,"
    " expires_at) values (gen_random_uuid(), 'w', 'h', 1, null, array['t', 'u'], now(), now(),"
    " '2200-01-01')"
)


class Life:
    """Whatever can happen to tasks, one thing after the other, drawn at random."""

    def __init__(self, session: Session, clock: Clock, seed: int) -> None:
        self.session = session
        self.clock = clock
        self.random = random.Random(seed)
        self.ids: list[int] = []

    def step(self) -> None:
        acts: list[Callable[[], object]] = [
            self.enqueue, self.enqueue, self.enqueue_many, self.enqueue_by_sql, self.replay_key,
            self.roll_back, self.complete, self.complete, self.complete_in_transaction, self.fail,
            self.fail, self.snooze, self.release, self.cancel, self.requeue, self.purge,
            self.time_passes, self.maintain, self.resend, self.pass_days, self.reschedule,
        ]  # fmt: skip
        self.random.choice(acts)()

    def options(self) -> dict[str, object]:
        drawn = self.random
        options: dict[str, object] = {"queue": drawn.choice(("default", "other"))}
        if drawn.random() < 0.3:
            options["delay"] = drawn.choice((0, 5, 3600))
        if drawn.random() < 0.2:
            options["ttl"] = 4000
        if drawn.random() < 0.3:
            options["key"] = f"k{drawn.randrange(5)}"
        if drawn.random() < 0.5:
            options["max_attempts"] = 2
        return options

    def enqueue(self) -> None:
        self.ids.append(self.session.enqueue(self.random.choice(TYPES), **self.options()))

    def enqueue_many(self) -> None:
        specs = [spec(self.random.choice(TYPES), **self.options()) for _ in range(6)]
        if self.random.random() < 0.5:
            specs = [each._replace(key=None) for each in specs]
        self.ids += [each.id for each in self.session.enqueue_many(*specs)]

    def enqueue_by_sql(self) -> None:
        delay = self.random.choice(("null", "'1 hour'::interval"))
        key = self.random.choice(("null", "'k1'"))
        self.ids.append(
            self.session.value(
                f"select id from wherry.enqueue('default', 't', delay => {delay}, key => {key})"
            )
        )

    def replay_key(self) -> None:
        for _ in range(2):
            self.ids.append(self.session.enqueue("t", key="always"))

    def resend(self) -> None:
        # Its answer was lost; meanwhile it may have run and ended.
        ids = tuple(self.session.call(DrawTaskIds(2)))
        command = EnqueueTasks((spec("t"), spec("u", delay=3600)), ids)
        self.session.call(command)
        if self.random.random() < 0.5:
            self.session.cancel(*ids)
        self.session.call(command.again())
        self.ids += ids

    def roll_back(self) -> None:
        self.session.begin()
        self.session.enqueue("t")
        self.session.enqueue_many(spec("t", key="undone"), spec("u"))
        self.session.value("select id from wherry.enqueue('default', 't')")
        self.complete()
        self.session.rollback()

    def leases(self) -> list[Lease]:
        queue = self.random.choice(("default", "other"))
        return self.session.lease(self.random.randrange(1, 5), queue=queue, limit_last=5)

    def complete(self) -> None:
        if leases := self.leases():
            self.session.complete(*leases, closed=[leases[0].lease_id])

    def complete_in_transaction(self) -> None:
        for lease in self.leases():
            self.session.call(CompleteInTransaction(Completed(lease)))

    def fail(self) -> None:
        verdict: Literal["retry", "fail", "cancel"] = self.random.choice(
            ("retry", "fail", "cancel")
        )
        after = self.random.choice((0.0, 10.0))
        if leases := self.leases():
            if self.random.random() < 0.2:
                self.session.cancel(leases[0].id)
            self.session.fail(*leases, verdict=verdict, after=after)

    def snooze(self) -> None:
        if leases := self.leases():
            self.session.snooze(*leases, delay=self.random.choice((0.0, 10.0)))

    def release(self) -> None:
        if leases := self.leases():
            self.session.release(*leases)

    def some(self) -> list[int]:
        return self.random.sample(self.ids, min(len(self.ids), 8))

    def cancel(self) -> None:
        self.session.cancel(*self.some())

    def requeue(self) -> None:
        self.session.requeue(*self.some(), without_key=self.random.random() < 0.5)

    def reschedule(self) -> None:
        delay = self.random.choice((0.0, 3600.0))
        self.session.call(RescheduleTasks(tuple(self.some()), delay_seconds=delay))
        self.session.call(ReprioritizeTasks(tuple(self.some()), 3))

    def purge(self) -> None:
        self.session.purge(*self.some())

    def time_passes(self) -> None:
        self.leases()
        self.clock.advance(seconds=self.random.choice((1, 40, 4000)))

    def maintain(self) -> None:
        commands: list[Command[object]] = [
            ReapLeases(), PromoteTasks(), DiscardTasks(), UnparkTasks(), ParkTasks("default"),
            ParkTasks("other"), RollFlow(batch=7), RecountTasks(),
        ]  # fmt: skip
        for command in commands:
            self.session.call(command)
        if self.random.random() < 0.3:
            types = self.random.choice(("array['t', 'u']", "array['t', 'strange']"))
            self.session.rows(f"update wherry.worker set types = {types}")

    def pass_days(self) -> None:
        if self.random.random() < 0.2:
            self.clock.advance(days=self.random.choice((1, 8)))
        if self.random.random() < 0.5:
            self.session.call(MakeDays())
        for _ in range(20):
            if not self.session.call(DropPastDays()):
                break

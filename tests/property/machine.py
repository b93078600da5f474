"""The calls of an App in any order: what may come next, and with what.

Chance alone seldom says a word at the one moment that matters, so some rules are small plots: they
go to the end of a lease, speak twice, go in circles, or come back to a key that has a new owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.property.model import LEAST, MAX_SNOOZES
from tests.property.play import KEYS, MINUTE, QUEUES, TYPES, Play, of, written
from tests.property.tasks import Asked
from wherry import Reported, State

JUST_BEFORE, HOUR, DAY = 0.1, 3600.0, 86_400.0

asked = st.builds(
    Asked,
    queue=st.sampled_from(QUEUES),
    type=st.sampled_from(TYPES),
    n=st.integers(0, 1),
    priority=st.sampled_from([0, 0, 5, -1]),
    delay=st.sampled_from([0.0, 0.0, 0.0, 0.0, MINUTE]),
    max_attempts=st.sampled_from([2, 1, 3]),
    retry_after=st.sampled_from([0.0, MINUTE]),
    key=st.sampled_from([None, *KEYS]),
    key_ttl=st.sampled_from([None, 0.0, 0.0, HOUR, 3 * DAY]),
    ttl=st.sampled_from([None, None, None, 2 * MINUTE]),
)
COMMON = Asked("a", "t", n=0, priority=0, delay=0.0, max_attempts=3, retry_after=0.0)
# Which task or lease, counted from the newest of those that an answer is likely for.
which = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])
some = st.lists(which, min_size=1, max_size=2, unique=True)
lease_lengths = st.sampled_from([MINUTE, 5 * MINUTE])
delays = st.sampled_from([0.0, MINUTE])
reports = st.sampled_from(["complete", "complete in tx", "fail", "snooze", "release", "heartbeat"])

given_one = precondition(lambda self: self.given)
enqueued_one = precondition(lambda self: self.ids)


class Calls(Play):
    """Any calls in any order."""

    # Enqueue

    @initialize(tasks=st.lists(asked, min_size=2, max_size=4), seconds=lease_lengths)
    def begin(self, tasks: list[Asked], seconds: float) -> None:
        """Have something to report on from the first."""
        self.enqueue_all(tasks)
        self.lease_some(QUEUES, None, 3, seconds)

    @rule(tasks=st.lists(asked, min_size=1, max_size=3))
    def enqueue(self, tasks: list[Asked]) -> None:
        self.enqueue_all(tasks)

    @rule(
        tasks=st.lists(asked, max_size=2),
        holder=st.none() | which,
        commits=st.sampled_from([True, True, False]),
    )
    def in_a_transaction(self, tasks: list[Asked], holder: int | None, commits: bool) -> None:
        """Enqueue and complete as the caller's transaction, seen by nobody before its end."""
        lease = None if holder is None or not self.given else self.lease_of(holder)
        after = deepcopy(self.model)
        with self.place.callers.transaction() as ended:
            tx = ended.connection
            made = self.app.enqueue_many(written(tasks), tx=tx)
            self.enqueued(after, tasks, made, seen_by=tx)
            if lease is not None:
                done = self.complete_in(tx, lease)
                self.told("complete in tx", done, after.complete_in_transaction(of(lease), 7))
                commits = commits and done
                if done:
                    assert self.app.complete(lease, result=8) is Reported.BUSY
            self.agrees()
            if not commits:
                raise psycopg.Rollback(ended)
            self.model = after

    # Lease and report

    @rule(
        queues=st.sampled_from([("a", "b"), ("b", "a"), ("a",)]),
        types=st.sampled_from([None, None, None, ("t",), ("u", "t")]),
        most=st.integers(1, 4),
        seconds=lease_lengths,
    )
    def lease(
        self, queues: Sequence[str], types: Sequence[str] | None, most: int, seconds: float
    ) -> None:
        self.lease_some(queues, types, most, seconds)

    @given_one
    @rule(holders=some, seconds=lease_lengths)
    def heartbeat(self, holders: list[int], seconds: float) -> None:
        held = [self.lease_of(which) for which in holders]

        answers = self.app.heartbeat(held, lease_for=seconds)

        self.told(
            "heartbeat", answers, self.model.heartbeat([of(lease) for lease in held], seconds)
        )

    @given_one
    @rule(
        holder=which,
        verb=st.sampled_from(["complete", "fail", "fail", "snooze", "release"]),
        retry=st.sampled_from([True, True, False]),
        seconds=delays,
        by_policy=st.booleans(),
    )
    def report(self, holder: int, verb: str, retry: bool, seconds: float, by_policy: bool) -> None:
        self.report_on(
            self.lease_of(holder), verb, retry=retry, seconds=seconds, by_policy=by_policy
        )

    @given_one
    @rule(
        holder=which,
        past=st.sampled_from([0.0, 0.0, LEAST.total_seconds(), MINUTE, -JUST_BEFORE]),
        reaped=st.booleans(),
        verb=reports,
    )
    def reach_the_end_of_a_lease(self, holder: int, past: float, reaped: bool, verb: str) -> None:
        """Report just before a lease runs out, in that very moment, or later."""
        lease = self.lease_of(holder)
        task = self.model.tasks.get(lease.id)
        if self.model.is_the_last(of(lease)) and task and task.lease_ends_at:
            self.pass_time_until(task.lease_ends_at + timedelta(seconds=past))
        if reaped:
            self.maintain_now()
        if verb != "complete in tx" or past >= 0:
            # Just before it, the holder's own clock may be past the end.
            self.report_on(lease, verb)

    @given_one
    @rule(
        holder=which,
        first=st.sampled_from(["release", "snooze", "fail"]),
        between=st.sampled_from(["lease", "lease", "cancel", "nothing"]),
        again=reports,
    )
    def report_twice(self, holder: int, first: str, between: str, again: str) -> None:
        """Put a task back, and speak again when it may be somebody else's."""
        lease = self.lease_of(holder)
        self.report_on(lease, first)
        match between:
            case "lease":
                self.lease_some(QUEUES, None, 10, MINUTE)
            case "cancel":
                self.cancel_all([lease.id])
            case _:
                pass
        self.report_on(lease, again)

    @rule(
        queue=st.sampled_from(QUEUES),
        first=st.sampled_from(["release", "snooze", "fail"]),
        again=reports,
    )
    def speak_for_the_next_holder(self, queue: str, first: str, again: str) -> None:
        """Put back one of a batch, whose lease goes on, and speak when somebody else has it."""
        self.enqueue_all([replace(COMMON, queue=queue)] * 2)
        self.lease_some((queue,), None, 10, MINUTE)
        # None of a queue that is paused.
        newest = self.given[-1].lease_id if self.given else None
        if sum(lease.lease_id == newest for lease in self.given) > 1:
            lease = self.given[-1]
            self.report_on(lease, first)
            self.lease_some((queue,), None, 10, MINUTE)
            self.report_on(lease, again)

    @given_one
    @rule(holder=which, verb=st.sampled_from(["snooze", "release", "fail"]))
    def go_in_circles(self, holder: int, verb: str) -> None:
        """Put a task back each time that it is leased, until it does not come again."""
        lease = self.lease_of(holder)
        for _ in range(MAX_SNOOZES + 3):
            self.report_on(lease, verb)
            before = len(self.given)
            self.lease_some(QUEUES, None, 10, MINUTE)
            came = [each for each in self.given[before:] if each.id == lease.id]
            if not came:
                break
            lease = came[0]

    # What operators do

    @enqueued_one
    @rule(some=some, running=st.sampled_from([True, True, False]))
    def cancel(self, some: list[int], running: bool) -> None:
        self.cancel_all(self.tasks_of(some, running=running))

    @enqueued_one
    @rule(some=some, without_key=st.sampled_from([False, False, True]))
    def requeue(self, some: list[int], without_key: bool) -> None:
        self.requeue_all(self.tasks_of(some, running=False), without_key=without_key)

    @enqueued_one
    @rule(some=some)
    def purge(self, some: list[int]) -> None:
        ended = self.tasks_of(some, running=False)
        self.told("purge", self.app.purge_many(ended), self.model.purge(ended))

    @given_one
    @rule(holder=which, key_ttl=st.sampled_from([0.0, 0.0, None]), ends=st.booleans())
    def come_back_to_a_key(self, holder: int, key_ttl: float | None, ends: bool) -> None:
        """End a task, give its key to another, which may end too, and put the first one back."""
        lease = self.lease_of(holder)
        task = self.model.tasks.get(lease.id)
        self.report_on(lease, "complete")
        if task is not None and task.asked.key is not None:
            self.enqueue_all([replace(task.asked, n=1, key_ttl=key_ttl)])
            if ends:
                self.cancel_all(self.ids[-1:])
        self.requeue_all([lease.id])

    @rule(queue=st.sampled_from(QUEUES), pause=st.sampled_from([False, False, False, True]))
    def pause_or_resume(self, queue: str, pause: bool) -> None:
        is_paused = queue in self.model.paused
        if pause:
            self.told("pause", self.app.pause_queue(queue), not is_paused)
            self.model.paused.add(queue)
        else:
            self.told("resume", self.app.resume_queue(queue).changed, is_paused)
            self.model.paused.discard(queue)

    # Time

    @rule(
        seconds=st.sampled_from([*[MINUTE] * 4, 5 * MINUTE, HOUR, DAY, 3 * DAY]),
        maintained=st.booleans(),
    )
    def time_passes(self, seconds: float, maintained: bool) -> None:
        self.pass_time(seconds)
        if maintained:
            self.maintain_now()

    @enqueued_one
    @rule(
        which=which,
        past=st.sampled_from([0.0, LEAST.total_seconds(), -JUST_BEFORE]),
        maintained=st.booleans(),
    )
    def reach_the_time_of_a_task(self, which: int, past: float, maintained: bool) -> None:
        """Lease just before a task is due or its time to live is over, in that moment, or after."""
        waiting = [
            task
            for task in reversed(self.model.tasks.values())
            if task.state is State.QUEUED and (task.discard_at or task.arrival is None)
        ]
        if waiting:
            task = waiting[which % len(waiting)]
            moment = task.run_after if task.arrival is None else task.discard_at
            assert moment is not None
            self.pass_time_until(moment + timedelta(seconds=past))
        if maintained:
            self.maintain_now()
        self.lease_some(QUEUES, None, 10, MINUTE)

    @rule()
    def maintain(self) -> None:
        self.maintain_now()

"""Plays the calls of an App against the model, one at a time, and compares after each.

The clock stands still between its steps: an instant is compared to the microsecond, and ends are
met exactly. A holder's own clock, on which an App counts the ends of leases, is moved along.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime, time, timedelta
from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import wherry
from tests.property.model import KEEP_FAILED, KEEP_SUCCEEDED, Model
from tests.property.tasks import Asked, Holder, options
from wherry import Lease, Reported, State
from wherry.domain.state import FINAL

QUEUES, TYPES, KEYS = ("a", "b"), ("t", "u"), ("k",)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
WORKER = "w"

_EMPTIED = ("live", "finished", "lease", "attempt", "key", "waiting", "worker", "paused", "audit")
_SEE = """
select id, queue, type, payload, state, priority, attempts, max_attempts, run_after, lease_owner,
       lease_expires_at, lease_token, key, result, created_at, finished_at, cancel_requested_at
  from wherry.tasks order by id
"""
_DAYS_AFTER = """
select relname from pg_class
 where relnamespace = 'wherry'::regnamespace
   and relkind = 'r' and relname ~ '^finished_2' and relname > %s
"""
_STAND_STILL = """
create or replace function wherry.now() returns timestamptz
    language sql stable parallel safe
    as $$ select timestamptz '{}' $$
"""

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
# Which task or lease, counted from the newest of those that an answer is likely for.
which = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])
some = st.lists(which, min_size=1, max_size=2, unique=True)
lease_lengths = st.sampled_from([MINUTE, 5 * MINUTE])
delays = st.sampled_from([0.0, MINUTE])


class Place:
    """A database that is emptied for each example, its App, and what was answered in all."""

    def __init__(
        self,
        app: wherry.App,
        connection: psycopg.Connection[Any],
        callers: psycopg.Connection[Any],
    ) -> None:
        self.app = app
        self.connection = connection
        # Somebody's own, for transactions.
        self.callers = callers
        # The days that the template has begin with the real one.
        self.start = datetime.combine(datetime.now(UTC).date(), time(12), UTC)
        self.answers: Counter[str] = Counter()
        connection.execute(
            "update wherry.settings set keep_succeeded = %s, keep_failed = %s",
            [KEEP_SUCCEEDED, KEEP_FAILED],
        )
        # Days that are far ahead cost time at each plan; those that are needed are made.
        last = f"finished_{self.start + timedelta(days=20):%Y%m%d}"
        days = connection.execute(_DAYS_AFTER, [last]).fetchall()
        for (day,) in days:
            connection.execute(f"drop table wherry.{day}".encode())

    def empty(self) -> None:
        for table in _EMPTIED:
            self.connection.execute(f"delete from wherry.{table}".encode())

    def set_clock(self, now: datetime) -> None:
        self.connection.execute(_STAND_STILL.format(now.isoformat()).encode())


given_one = precondition(lambda self: self.given)
enqueued_one = precondition(lambda self: self.ids)


class Calls(RuleBasedStateMachine):
    """Any calls in any order."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.app = place, place.app
        self.model = Model(place.start)
        self.ids: list[int] = []
        self.given: list[Lease] = []
        place.empty()
        place.set_clock(self.model.now)

    def told(self, call: str, answer: object, expected: object) -> None:
        """Compare an answer with the one that is due, or with those that are allowed."""
        allowed = expected if isinstance(expected, set) else [expected]
        assert answer in allowed, f"{call} answered {answer!r}, not {expected!r}"
        for each in answer if isinstance(answer, list) else [answer]:
            of = each[1] if isinstance(each, tuple) else each
            self.place.answers[f"{call} {of}".lower()] += 1

    # Enqueue

    @initialize(tasks=st.lists(asked, min_size=2, max_size=4), seconds=lease_lengths)
    def begin(self, tasks: list[Asked], seconds: float) -> None:
        """Have something to report on from the first."""
        self._enqueue(tasks)
        self._lease_some(QUEUES, None, 3, seconds)

    @rule(tasks=st.lists(asked, min_size=1, max_size=3))
    def enqueue(self, tasks: list[Asked]) -> None:
        self._enqueue(tasks)

    def _enqueue(self, tasks: list[Asked]) -> None:
        if len(tasks) == 1:
            made = [self.app.enqueue(tasks[0].type, {"n": tasks[0].n}, **options(tasks[0]))]
        else:
            made = self.app.enqueue_many(written(tasks))

        self._enqueued(self.model, tasks, made)

    def _enqueued(
        self, model: Model, tasks: Sequence[Asked], made: Sequence[wherry.Enqueued]
    ) -> None:
        answers = [(answer.id, answer.created, answer.payload_matches) for answer in made]
        self.told("enqueue", answers, model.enqueue(tasks, [answer.id for answer in made]))
        # Those of a transaction that is rolled back too: they name nothing then.
        self.ids += [answer.id for answer in made if answer.created]

    @rule(
        tasks=st.lists(asked, max_size=2),
        holder=st.none() | which,
        commits=st.sampled_from([True, True, False]),
    )
    def in_a_transaction(self, tasks: list[Asked], holder: int | None, commits: bool) -> None:
        """Enqueue and complete as the caller's transaction, seen by nobody before its end."""
        lease = None if holder is None or not self.given else self._lease(holder)
        after = deepcopy(self.model)
        with self.place.callers.transaction() as ended:
            tx = ended.connection
            made = self.app.enqueue_many(written(tasks), tx=tx)
            self._enqueued(after, tasks, made)
            if lease is not None:
                done = self._complete_in(tx, lease)
                self.told("complete in tx", done, after.complete_in_transaction(of(lease), 7))
                commits = commits and done
                if done:
                    assert self.app.complete(lease, result=8) is Reported.BUSY
            self.agrees()
            if not commits:
                raise psycopg.Rollback(ended)
            self.model = after

    def _complete_in(self, tx: psycopg.Connection[Any], lease: Lease) -> bool:
        try:
            self.app.complete(lease, result=7, tx=tx)
        except wherry.LeaseLost:
            return False
        return True

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
        self._lease_some(queues, types, most, seconds)

    def _lease_some(
        self, queues: Sequence[str], types: Sequence[str] | None, most: int, seconds: float
    ) -> None:
        due = self.model.next_of(queues, types, most)
        ranks = [(task.asked.queue, task.rank) for task in due]
        # All of them, since one that shares its rank may come in place of another.
        every = {task.id: task for task in self.model.next_of(queues, types, 10**6)}

        given = self.app.lease(
            worker=WORKER, queues=queues, types=types, max_tasks=most, lease_for=seconds
        )

        assert len({lease.id for lease in given}) == len(given)
        assert {lease.id for lease in given} <= every.keys()
        came = [every[lease.id] for lease in given]
        assert [(task.asked.queue, task.rank) for task in came] == ranks
        for lease in given:
            task = self.model.lease(lease.id, worker=WORKER, seconds=seconds)
            assert (lease.attempt, lease.token) == (task.attempts, task.token)
        self.given += given

    def _lease(self, which: int) -> Lease:
        """One whose task is not out of its hands, the newest first; behind those the others."""
        model = self.model
        if which == 0 and not any(model.is_the_last(of(lease)) for lease in self.given):
            self._lease_some(QUEUES, None, 2, MINUTE)
        newest = reversed(self.given)
        ordered = sorted(newest, key=lambda lease: not model.is_the_last(of(lease)))
        return ordered[which % len(ordered)]

    @given_one
    @rule(holders=some, seconds=lease_lengths)
    def heartbeat(self, holders: list[int], seconds: float) -> None:
        held = [self._lease(which) for which in holders]

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
        lease, model = self._lease(holder), self.model
        match verb:
            case "complete":
                answer = self.app.complete(lease, result=seconds)
                expected = model.complete(of(lease), seconds)
            case "fail":
                after = None if by_policy else seconds
                answer = self.app.fail(lease, "no", retry=retry, after=after)
                expected = model.fail(of(lease), retry=retry, after=after)
            case "snooze":
                answer, expected = self.app.snooze(lease, seconds), model.snooze(of(lease), seconds)
            case _:
                answer, expected = self.app.release(lease), model.release(of(lease))
        self.told(verb, answer, expected)

    # What operators do

    def _tasks(self, some: list[int], *, running: bool) -> list[int]:
        """Running ones, or ended ones, the newest first; behind those the others."""
        tasks = self.model.tasks

        def is_behind(id_: int) -> bool:
            state = tasks[id_].state if id_ in tasks else None
            wanted = state is State.LEASED if running else state in FINAL
            return not wanted

        newest = reversed(self.ids)
        ordered = sorted(newest, key=is_behind)
        return list(dict.fromkeys(ordered[which % len(ordered)] for which in some))

    @enqueued_one
    @rule(
        some=some,
        verb=st.sampled_from(["cancel", "cancel", "requeue", "requeue", "purge"]),
        without_key=st.sampled_from([False, False, True]),
    )
    def operate(self, some: list[int], verb: str, without_key: bool) -> None:
        chosen, model = self._tasks(some, running=verb == "cancel"), self.model
        match verb:
            case "cancel":
                self.told(verb, self.app.cancel_many(chosen), model.cancel(chosen))
            case "requeue":
                answers = self.app.requeue_many(chosen, without_key=without_key)
                came = [(answer.id, answer.answer, answer.taken_by) for answer in answers]
                self.told(verb, came, model.requeue(chosen, without_key=without_key))
            case _:
                self.told(verb, self.app.purge_many(chosen), model.purge(chosen))

    @rule(queue=st.sampled_from(QUEUES), pause=st.sampled_from([False, False, False, True]))
    def pause_or_resume(self, queue: str, pause: bool) -> None:
        is_paused = queue in self.model.paused
        if pause:
            self.told("pause", self.app.pause_queue(queue), not is_paused)
            self.model.paused.add(queue)
        else:
            self.told("resume", self.app.resume_queue(queue), is_paused)
            self.model.paused.discard(queue)

    # Time

    @rule(
        seconds=st.sampled_from([*[MINUTE] * 4, 5 * MINUTE, HOUR, DAY, 3 * DAY]),
        maintained=st.booleans(),
    )
    def time_passes(self, seconds: float, maintained: bool) -> None:
        self.model.now += timedelta(seconds=seconds)
        self.place.set_clock(self.model.now)
        for lease in self.given:
            lease.deadline -= seconds
        if maintained:
            self._maintain()

    @rule()
    def maintain(self) -> None:
        self._maintain()

    def _maintain(self) -> None:
        done = self.app.reap()

        there = {task.id for task in self.app.list_tasks(limit=1000).tasks}
        assert done == self.model.maintain(there)
        for name in ("promoted", "reaped", "dead", "canceled", "expired"):
            self.place.answers[f"maintain {name}"] += getattr(done, name)

    # What is seen

    @invariant()
    def agrees(self) -> None:
        """The listing and the view show what the model holds, and nothing else."""
        expected = self.model.seen()
        rows = self.place.connection.execute(_SEE).fetchall()
        assert rows == expected
        page = self.app.list_tasks(limit=1000)
        assert page.after is None
        assert [listed(task) for task in reversed(page.tasks)] == expected

    @rule()
    def look_closely(self) -> None:
        """By queue, by id with its history, and by key."""
        depths = {
            depth.queue: (depth.ready, depth.delayed, depth.leased, depth.paused_at is not None)
            for depth in self.app.list_queues()
        }
        assert depths == self.model.depths()
        for id_ in self.model.ever:
            found, task = self.app.get_task(id_), self.model.tasks.get(id_)
            assert (found is None) is (task is None)
            if found is not None and task is not None:
                history = [(a.token, a.attempt, a.outcome) for a in found.history]
                assert history == task.history
        for queue in QUEUES:
            for key in KEYS:
                found, task = self.app.get_task(queue=queue, key=key), self.model.named(queue, key)
                assert (found and found.id) == (task and task.id)

    def teardown(self) -> None:
        # What went wrong before is what there is to tell.
        if sys.exception() is None:
            self.look_closely()


def of(lease: Lease) -> Holder:
    return lease.id, lease.token


def written(tasks: Sequence[Asked]) -> list[dict[str, Any]]:
    return [{"type": task.type, "payload": {"n": task.n}, **options(task)} for task in tasks]


def listed(task: wherry.Task) -> tuple[Any, ...]:
    """Return what the model shows of a task, from a listing."""
    return (
        task.id, task.queue, task.type, task.payload, str(task.state), task.priority, task.attempts,
        task.max_attempts, task.run_after, task.worker, task.lease_expires_at, task.token, task.key,
        task.result, task.created_at, task.finished_at, task.cancel_requested_at,
    )  # fmt: skip

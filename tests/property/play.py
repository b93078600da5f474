"""Makes the calls of an App one at a time, and compares what comes of each with the model.

The clock stands still between its steps: an instant is compared to the microsecond, and ends are
met exactly. A holder's own clock, on which an App counts the ends of leases, is moved along.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

import psycopg
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import wherry
from tests.property.model import KEEP_FAILED, KEEP_SUCCEEDED, Model
from tests.property.tasks import Asked, Holder, options
from wherry import Lease, State
from wherry.domain.state import FINAL

QUEUES, TYPES, KEYS = ("a", "b"), ("t", "u"), ("k",)
MINUTE = 60.0
WORKER = "w"

_EMPTIED = ("live", "finished", "lease", "attempt", "key", "waiting", "worker", "paused", "audit")
_SEE = """
select id, queue, type, payload, state, priority, attempts, max_attempts, run_after, lease_owner,
       lease_expires_at, lease_token, key, result, created_at, finished_at, cancel_requested_at
  from wherry.tasks order by id
"""
_TOKENS = "select id, lease_token from wherry.tasks where id = any(%s)"
# What nothing may leave behind: history of no task.
_STRAY = """
select task_id from wherry.attempt
 where not exists (select from wherry.tasks where tasks.id = attempt.task_id)
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


class Place:
    """A database that is emptied for each example, its Apps, and what was answered in all."""

    def __init__(
        self,
        app: wherry.App,
        direct: wherry.App,
        connection: psycopg.Connection[Any],
        callers: psycopg.Connection[Any],
    ) -> None:
        """*app* is asked; *direct* does what only an App on the database itself can do."""
        self.app, self.direct = app, direct
        self.connection = connection
        # Somebody's own, for transactions.
        self.callers = callers
        # The days that the template has begin with the real one.
        self.start = datetime.combine(datetime.now(UTC).date(), time(12), UTC)
        self.answers: Counter[str] = Counter()
        self.examples = 0
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
        self.examples += 1
        for table in _EMPTIED:
            self.connection.execute(f"delete from wherry.{table}".encode())

    def set_clock(self, now: datetime) -> None:
        self.connection.execute(_STAND_STILL.format(now.isoformat()).encode())


class Play(RuleBasedStateMachine):
    """What a rule is made of: each makes one call, and compares its answer with the model's."""

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

    def enqueue_all(self, tasks: list[Asked]) -> None:
        if len(tasks) == 1:
            made = [self.app.enqueue(tasks[0].type, {"n": tasks[0].n}, **options(tasks[0]))]
        else:
            made = self.app.enqueue_many(written(tasks))

        self.enqueued(self.model, tasks, made, seen_by=self.place.connection)

    def enqueued(
        self,
        model: Model,
        tasks: Sequence[Asked],
        made: Sequence[wherry.Enqueued],
        *,
        seen_by: psycopg.Connection[Any],
    ) -> None:
        """Compare the answers; *seen_by* sees the tasks, which may be another transaction's."""
        answers = [(answer.id, answer.created, answer.payload_matches) for answer in made]
        self.told("enqueue", answers, model.enqueue(tasks, [answer.id for answer in made]))
        new = [answer.id for answer in made if answer.created]
        model.begin_tokens(dict(seen_by.execute(_TOKENS, [new]).fetchall()))
        # Those of a transaction that is rolled back too: they name nothing then.
        self.ids += [answer.id for answer in made if answer.created]

    def complete_in(self, tx: psycopg.Connection[Any], lease: Lease) -> bool:
        try:
            self.app.complete(lease, result=7, tx=tx)
        except wherry.LeaseLost:
            return False
        return True

    def lease_some(
        self, queues: Sequence[str], types: Sequence[str] | None, most: int, seconds: float
    ) -> None:
        due = self.model.next_of(queues, types, most)
        if not due and self.app.through_server:
            # A server looks once more for whoever does not want to wait.
            self.model.promote()
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

    def lease_of(self, which: int) -> Lease:
        """One whose task is not out of its hands, the newest first; behind those the others."""
        model = self.model
        if which == 0 and not any(model.is_the_last(of(lease)) for lease in self.given):
            self.lease_some(QUEUES, None, 2, MINUTE)
        newest = reversed(self.given)
        ordered = sorted(newest, key=lambda lease: not model.is_the_last(of(lease)))
        return ordered[which % len(ordered)]

    def report_on(
        self,
        lease: Lease,
        verb: str,
        *,
        retry: bool = True,
        seconds: float = 0.0,
        by_policy: bool = False,
    ) -> None:
        model = self.model
        match verb:
            case "complete":
                answer: object = self.app.complete(lease, result=seconds)
                expected: object = model.complete(of(lease), seconds)
            case "complete in tx":
                with self.place.callers.transaction() as began:
                    answer = self.complete_in(began.connection, lease)
                expected = model.complete_in_transaction(of(lease), 7)
            case "heartbeat":
                answer = self.app.heartbeat([lease], lease_for=MINUTE)
                expected = model.heartbeat([of(lease)], MINUTE)
            case "fail":
                after = None if by_policy else seconds
                answer = self.app.fail(lease, "no", retry=retry, after=after)
                expected = model.fail(of(lease), retry=retry, after=after)
            case "snooze":
                answer, expected = self.app.snooze(lease, seconds), model.snooze(of(lease), seconds)
            case _:
                answer, expected = self.app.release(lease), model.release(of(lease))
        self.told(verb, answer, expected)

    def tasks_of(self, some: list[int], *, running: bool) -> list[int]:
        """Running ones, or ended ones, the newest first; behind those the others."""
        tasks = self.model.tasks

        def is_behind(id_: int) -> bool:
            state = tasks[id_].state if id_ in tasks else None
            wanted = state is State.LEASED if running else state in FINAL
            return not wanted

        newest = reversed(self.ids)
        ordered = sorted(newest, key=is_behind)
        return list(dict.fromkeys(ordered[which % len(ordered)] for which in some))

    def requeue_all(self, ids: list[int], *, without_key: bool = False) -> None:
        answers = self.app.requeue_many(ids, without_key=without_key)
        came = [(answer.id, answer.answer, answer.taken_by) for answer in answers]
        self.told("requeue", came, self.model.requeue(ids, without_key=without_key))

    def cancel_all(self, ids: list[int]) -> None:
        self.told("cancel", self.app.cancel_many(ids), self.model.cancel(ids))

    def pass_time_until(self, moment: datetime) -> None:
        """Go to a moment, if it is to come."""
        self.pass_time(max(0.0, (moment - self.model.now).total_seconds()))

    def pass_time(self, seconds: float) -> None:
        self.model.now += timedelta(seconds=seconds)
        self.place.set_clock(self.model.now)
        for lease in self.given:
            lease.deadline -= seconds

    def maintain_now(self) -> None:
        done = self.place.direct.reap()

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
        stray = self.place.connection.execute(_STRAY).fetchall()
        assert stray == []
        for queue in QUEUES:
            for key in KEYS:
                found, task = self.app.get_task(queue=queue, key=key), self.model.named(queue, key)
                assert (found and found.id) == (task and task.id)
        keys = self.place.connection.execute("select queue, key, task_id from wherry.key")
        assert {(queue, key): id_ for queue, key, id_ in keys} == self.model.keys

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

"""What a queue is, in plain Python: tasks, leases, keys and a clock that moves when it is told to.

It is written from the documents, not from the SQL, and knows nothing of a database: each method
changes the model as the call of that name must change the database, and returns the answer that is
due. What is the product's to choose (ids, the order of what became ready in one statement, when
within its day a task is forgotten) is told to it, and only judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.property.tasks import Asked, Holder, Task, shown
from wherry import Canceled, Purged, Reported, RequeueAnswer, State
from wherry.maintenance.steps import Maintained

# Few enough to be reached in an example; the test sets the product's likewise.
MAX_SNOOZES = 2
MAX_RELEASES = 2
KEEP_SUCCEEDED = timedelta(days=1)
KEEP_FAILED = timedelta(days=2)
# A heartbeat moves a lease's end, if only by this.
LEAST = timedelta(microseconds=1)


class Model:
    """All tasks, what the keys name, and how each lease was settled by its own holder."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.tasks: dict[int, Task] = {}
        self.ever: set[int] = set()
        self.keys: dict[tuple[str, str], int] = {}
        self.paused: set[str] = set()
        self.settled: dict[Holder, str] = {}
        # Leases of a life of a task that a requeue has ended.
        self.reopened: set[Holder] = set()
        self._arrivals = 0

    # Enqueue

    def enqueue(self, asked: Iterable[Asked], ids: Iterable[int]) -> list[tuple[Any, ...]]:
        """Return (id, created, payload_matches) of each; *ids* were answered, and name the new."""
        answers: list[tuple[Any, ...]] = []
        for one, id_ in zip(asked, ids, strict=True):
            named = self.named(one.queue, one.key)
            if named is not None and self._keeps_key(named):
                same = (named.asked.type, named.asked.n) == (one.type, one.n)
                answers.append((named.id, False, same))
                continue
            assert id_ not in self.ever, f"id {id_} was given out before"
            self._add(one, id_)
            answers.append((id_, True, None if one.key is None else True))
        return answers

    def begin_tokens(self, tokens: Mapping[int, int]) -> None:
        """Tell with which tokens new tasks begin: 0, or what only the call that made them knows."""
        for id_, token in tokens.items():
            assert token & 0xFFFF == 0
            self.tasks[id_].token = self.tasks[id_].first_token = token

    def named(self, queue: str, key: str | None) -> Task | None:
        """The task that a key names."""
        return None if key is None else self.tasks.get(self.keys.get((queue, key), 0))

    def _add(self, asked: Asked, id_: int) -> None:
        self.ever.add(id_)
        self.tasks[id_] = Task(
            id=id_,
            asked=asked,
            key=asked.key,
            created_at=self.now,
            run_after=self.now + timedelta(seconds=asked.delay),
            arrival=None if asked.delay else self._arrive(),
            discard_at=None if asked.ttl is None else self.now + timedelta(seconds=asked.ttl),
        )
        if asked.key is not None:
            self.keys[asked.queue, asked.key] = id_

    def _keeps_key(self, task: Task) -> bool:
        until = task.key_until or task.keep_until
        return not task.is_final or (until is not None and until > self.now)

    # Lease

    def next_of(self, queues: Sequence[str], types: Sequence[str] | None, most: int) -> list[Task]:
        """The tasks that a lease has to give, in their order."""
        found: list[Task] = []
        for queue in queues:
            due = [
                task
                for task in self.tasks.values()
                if task.asked.queue == queue
                and queue not in self.paused
                and task.state is State.QUEUED
                and task.arrival is not None
                and (types is None or task.asked.type in types)
                and (task.discard_at is None or task.discard_at > self.now)
            ]
            found += sorted(due, key=lambda task: task.rank)[: most - len(found)]
        return found

    def lease(self, id_: int, *, worker: str, seconds: float) -> Task:
        task = self.tasks[id_]
        assert task.state is State.QUEUED
        assert task.arrival is not None
        task.state, task.arrival, task.worker = State.LEASED, None, worker
        task.attempts += 1
        task.token += 1
        assert task.attempts <= task.asked.max_attempts
        task.lease_ends_at = self.now + timedelta(seconds=seconds)
        return task

    def heartbeat(self, holders: Iterable[Holder], seconds: float) -> list[Reported]:
        ends_at = self.now + timedelta(seconds=seconds)
        answers = dict.fromkeys(holders, Reported.LOST)
        for holder in answers:
            if (task := self._held(holder)) is not None:
                assert task.lease_ends_at is not None
                task.lease_ends_at = max(task.lease_ends_at + LEAST, ends_at)
                asked = task.cancel_requested_at is not None
                answers[holder] = Reported.CANCEL_REQUESTED if asked else Reported.EXTENDED
        return [answers[holder] for holder in holders]

    # Report: the answers that are allowed

    def complete(self, holder: Holder, result: Any) -> set[Reported]:
        task = self._settle(holder, "complete")
        if task is None:
            return self._too_late(holder, "complete")
        task.result = result
        self._finish(task, State.SUCCEEDED)
        return {Reported.DONE}

    def complete_in_transaction(self, holder: Holder, result: Any) -> bool:
        """Whether it is done, and no LeaseLost raised."""
        task = self._held(holder)
        # The holder's own clock does not know of the moment that a short heartbeat has added.
        if task is None or task.lease_ends_at is None or task.lease_ends_at - LEAST <= self.now:
            return False
        return self.complete(holder, result) == {Reported.DONE}

    def fail(self, holder: Holder, *, retry: bool, after: float | None) -> set[Reported]:
        task = self._settle(holder, "fail")
        if task is None:
            return self._too_late(holder, "fail")
        canceled = task.cancel_requested_at is not None
        task.history.append((task.token, task.attempts, "canceled" if canceled else "failed"))
        if canceled:
            return self._finish(task, State.CANCELED)
        if not retry:
            return self._finish(task, State.FAILED)
        if task.attempts >= task.asked.max_attempts:
            return self._finish(task, State.DEAD)
        return self._put_back(task, task.asked.retry_after if after is None else after)

    def snooze(self, holder: Holder, seconds: float) -> set[Reported]:
        task = self._settle(holder, "give_back")
        if task is None:
            return self._too_late(holder, "give_back")
        task.attempts -= 1
        if task.cancel_requested_at is not None:
            return self._finish(task, State.CANCELED)
        if task.snoozes >= MAX_SNOOZES:
            return self._finish(task, State.DEAD)
        task.snoozes += 1
        return self._put_back(task, seconds)

    def release(self, holder: Holder) -> set[Reported]:
        task = self._settle(holder, "give_back")
        if task is None:
            return self._too_late(holder, "give_back")
        counts = task.releases >= MAX_RELEASES
        spent = counts and task.attempts >= task.asked.max_attempts
        task.attempts -= not counts
        if task.cancel_requested_at is not None:
            return self._finish(task, State.CANCELED)
        if spent:
            return self._finish(task, State.DEAD)
        task.releases += 1
        return self._put_back(task, 0)

    def is_the_last(self, holder: Holder) -> bool:
        """Whether this is the lease on its task; it may have ended."""
        task = self.tasks.get(holder[0])
        return task is not None and task.state is State.LEASED and task.token == holder[1]

    def _held(self, holder: Holder) -> Task | None:
        if not self.is_the_last(holder):
            return None
        task = self.tasks[holder[0]]
        assert task.lease_ends_at is not None
        return task if task.lease_ends_at > self.now else None

    def _settle(self, holder: Holder, verb: str) -> Task | None:
        task = self._held(holder)
        if task is not None:
            self.settled[holder] = verb
        return task

    def _too_late(self, holder: Holder, verb: str) -> set[Reported]:
        """A report changes nothing: it was made before, or the lease is lost."""
        before, task = self.settled.get(holder), self.tasks.get(holder[0])
        if before is None or task is None or (verb == "complete" and before != "complete"):
            return {Reported.LOST}
        if before == verb and task.token == holder[1] and holder not in self.reopened:
            return {Reported.ALREADY_DONE}
        return {Reported.ALREADY_DONE, Reported.LOST}

    def _arrive(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _put_back(self, task: Task, seconds: float, *, promote: bool = True) -> set[Reported]:
        task.state, task.worker, task.lease_ends_at = State.QUEUED, None, None
        task.run_after = self.now + timedelta(seconds=seconds)
        task.arrival = self._arrive() if promote and not seconds else None
        return {Reported.REQUEUED}

    def _finish(self, task: Task, state: State) -> set[Reported]:
        keep = KEEP_FAILED if state in (State.FAILED, State.DEAD) else KEEP_SUCCEEDED
        task.state, task.finished_at, task.keep_until = state, self.now, self.now + keep
        task.arrival = task.lease_ends_at = task.cancel_requested_at = None
        if task.asked.key is not None and task.asked.key_ttl is not None:
            task.key_until = self.now + timedelta(seconds=task.asked.key_ttl)
            task.keep_until = max(task.keep_until, task.key_until)
        return {Reported(str(state))} if state is not State.SUCCEEDED else {Reported.DONE}

    # What operators do

    def cancel(self, ids: Iterable[int]) -> list[Canceled]:
        return [self._cancel(self.tasks.get(id_)) for id_ in ids]

    def _cancel(self, task: Task | None) -> Canceled:
        if task is None:
            return Canceled.UNKNOWN
        if task.is_final:
            return Canceled.FINAL
        if task.state is State.LEASED:
            task.cancel_requested_at = task.cancel_requested_at or self.now
            return Canceled.REQUESTED
        self._finish(task, State.CANCELED)
        return Canceled.CANCELED

    def requeue(self, ids: Sequence[int], *, without_key: bool) -> list[tuple[Any, ...]]:
        """Return (id, answer, taken_by) of each."""
        final = {id_ for id_ in ids if id_ in self.tasks and self.tasks[id_].is_final}
        heirs = {} if without_key else self._heirs(final)
        arrival = self._arrive()
        answers: list[tuple[Any, ...]] = []
        for id_ in ids:
            task = self.tasks.get(id_)
            name = None if task is None else (task.asked.queue, task.key or "")
            if task is None:
                answers.append((id_, RequeueAnswer.UNKNOWN, None))
            elif id_ not in final:
                answers.append((id_, RequeueAnswer.NOT_FINAL, None))
            elif heirs.get(name, id_) != id_:
                answers.append((id_, RequeueAnswer.KEY_TAKEN, heirs[name]))
            else:
                self._reopen(task, arrival, without_key=without_key)
                answers.append((id_, RequeueAnswer.QUEUED, None))
        return answers

    def _heirs(self, ids: set[int]) -> dict[tuple[str, str] | None, int]:
        """Who has each key afterwards: whom it names as long as that holds, else the newest."""
        heirs: dict[tuple[str, str] | None, int] = {}
        for task in (self.tasks[id_] for id_ in sorted(ids)):
            if task.key is not None:
                heirs[task.asked.queue, task.key] = task.id
        for name in heirs:
            assert name is not None
            named = self.named(*name)
            if named is not None and named.id != heirs[name] and self._keeps_key(named):
                heirs[name] = named.id
            self.keys[name] = heirs[name]
        return heirs

    def _reopen(self, task: Task, arrival: int, *, without_key: bool) -> None:
        self.reopened |= {(task.id, token) for token in range(task.first_token + 1, task.token + 1)}
        if without_key:
            self._forget_key(task)
        ttl = task.asked.ttl
        self.tasks[task.id] = Task(
            id=task.id,
            asked=task.asked,
            key=None if without_key else task.key,
            created_at=task.created_at,
            run_after=self.now,
            arrival=arrival,
            discard_at=None if ttl is None else self.now + timedelta(seconds=ttl),
            token=task.token,
            first_token=task.first_token,
            history=task.history,
        )

    def purge(self, ids: Iterable[int]) -> list[Purged]:
        return [self._purge(self.tasks.get(id_)) for id_ in ids]

    def _purge(self, task: Task | None) -> Purged:
        if task is None:
            return Purged.UNKNOWN
        if not task.is_final:
            return Purged.NOT_FINAL
        self._forget(task)
        return Purged.PURGED

    def _forget(self, task: Task) -> None:
        self._forget_key(task)
        del self.tasks[task.id]

    def _forget_key(self, task: Task) -> None:
        name = (task.asked.queue, task.key or "")
        if self.keys.get(name) == task.id:
            del self.keys[name]

    # Maintenance

    def maintain(self, there: set[int]) -> Maintained:
        """One pass; *there* are the ids that are left: what has been kept long enough may go."""
        done = Maintained()
        for task in [task for task in self.tasks.values() if task.keep_until is not None]:
            assert task.keep_until is not None
            if task.keep_until < self.now and task.id not in there:
                self._forget(task)
            else:
                assert task.keep_until.date() >= self.now.date(), f"{task} should be gone"
        for task in self.tasks.values():
            if task.lease_ends_at is not None and task.lease_ends_at <= self.now:
                self._lose(task, done)
        for task in self.tasks.values():
            over = task.discard_at is not None and task.discard_at <= self.now
            if task.state is State.QUEUED and over:
                self._finish(task, State.CANCELED)
                done.expired += 1
        done.promoted = self.promote()
        return done

    def promote(self) -> int:
        """Those whose time has come are ready; return how many."""
        arrival, promoted = self._arrive(), 0
        for task in self.tasks.values():
            waits = task.state is State.QUEUED and task.arrival is None
            if waits and task.run_after <= self.now:
                task.arrival = arrival
                promoted += 1
        return promoted

    def _lose(self, task: Task, done: Maintained) -> None:
        done.reaped += 1
        task.history.append((task.token, task.attempts, "lost"))
        if task.cancel_requested_at is not None:
            self._finish(task, State.CANCELED)
            done.canceled += 1
        elif task.attempts >= task.asked.max_attempts:
            self._finish(task, State.DEAD)
            done.dead += 1
        else:
            self._put_back(task, task.asked.retry_after, promote=False)

    # What there is to see

    def seen(self) -> list[tuple[Any, ...]]:
        """Return what a listing has to show of each task, by id."""
        return [shown(task) for _, task in sorted(self.tasks.items())]

    def depths(self) -> dict[str, tuple[int, int, int, bool]]:
        """Return of each queue with a live task, or paused: ready, delayed, leased, paused."""
        found = {queue: [0, 0, 0] for queue in self.paused}
        for task in self.tasks.values():
            if not task.is_final:
                waits = 0 if task.arrival is not None else 1
                at = 2 if task.state is State.LEASED else waits
                found.setdefault(task.asked.queue, [0, 0, 0])[at] += 1
        return {queue: (*n, queue in self.paused) for queue, n in found.items()}  # type: ignore[misc]

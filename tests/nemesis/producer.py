"""A producer process: `python -m tests.nemesis.producer`. It asks for tasks in every way there is.

Three threads, each doing one thing after the other; from time to time all threads of all producers
meet at the same moment to enqueue the same key, some of them inside transactions that are held open
or rolled back, or to cancel all that is there. What needs no transaction is asked of the database
or of a server of ours, as it comes.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.types.json import Jsonb

import wherry
from tests.nemesis import history
from tests.nemesis.asking import Ask, ask_for
from tests.nemesis.doors import database
from tests.nemesis.player import is_ending, play
from tests.nemesis.tasks import (
    ACCOUNTS,
    ALONE,
    HAND,
    LEASE_SECONDS,
    LIMITED,
    MOST_RUNNING,
    PERIODS,
    app,
    far,
)
from wherry.commands.tasks import DrawTaskIds, EnqueueTasks, new_token
from wherry.domain.options import Options

Answer = TypeVar("Answer")

THREADS = 3
RARE = 3
STORM_EVERY_SECONDS = 0.4
# Keys that are free again as soon as their task has ended, and so are taken over and over.
WORN_KEYS = 3
# What is paused, and where a cancel storm may hit; who takes workers along is to do so until dead.
STORMY = ("mixed", "slow", "bank")
FAR_SHARE = 0.35
GIANT_BYTES = 900_000


def if_there(act: Callable[[], Answer]) -> Answer | None:
    """Return what is answered of a schedule, which no worker may have declared yet."""
    try:
        return act()
    except wherry.NotFound:
        return None


class Producer:
    """One thread of a producer."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._recent: deque[int] = deque(maxlen=200)
        # Those that a cancel may find running.
        self._slow: deque[int] = deque(maxlen=5)
        self._connection: psycopg.Connection[Any] | None = None

    def run(self) -> None:
        """Ask for one thing after the other until the run ends."""
        acts: list[tuple[Callable[[], None], float]] = [
            (self.one, 30), (self.bank, 14), (self.rough, 1.2), (self.slow, 8), (self.chores, 9),
            (self.bulk, 3), (self.by_sql, 4), (self.rolled_back, 4), (self.storm, 12),
            (self.cancel, 8), (self.requeue, 3), (self.purge, 1), (self.look, 3),
            (self.giant, 1), (self.cancel_storm, 1.5), (self.pause, 3), (self.crossed, 1),
            (self.sent_again, 2), (self.pause_schedule, 2), (self.run_schedule, 2),
            (self.crowd, 3), (self.take_over, 2),
        ]  # fmt: skip
        # What is rare comes first, once: a busy machine may leave time for little else.
        rare = [act for act, weight in acts if weight <= RARE]
        for act in self._rng.sample(rare, len(rare)):
            if not is_ending():
                act()
        while not is_ending():
            [(act, _)] = self._rng.choices(acts, [weight for _, weight in acts])
            act()
            time.sleep(self._rng.expovariate(1 / 0.08))

    # ── enqueues ──

    def one(self) -> None:
        """A task of the common kinds, with some priority and delay."""
        kinds = ("plain", "plain", "flaky", "poison", "hopeless", "snoozing", "answer", "overtime")
        kind = self._rng.choice(kinds)
        payload: Ask = {
            "flaky": {"failures": self._rng.randint(1, 3)},
            "snoozing": {"times": self._rng.randint(1, 4)},
        }.get(kind, {})
        options = {
            "priority": self._rng.choice((-5, 0, 0, 5)),
            "delay": self._rng.choice((None, None, 0.2, 1.0)),
            "ttl": self._rng.choice((None, None, None, 0.3)),
        }
        self.enqueue([ask_for(kind, **payload) | options])

    def bank(self) -> None:
        """A transfer between two accounts, in a transaction of the producer's own or not."""
        source, target = self._rng.sample(range(1, ACCOUNTS + 1), 2)
        payload: Ask = {"source": source, "target": target, "amount": self._rng.randint(1, 100)}
        kind = self._rng.choice(("transfer", "transfer_async"))
        if kind == "transfer":
            tricks = ("", "", "roll back", "savepoint", "linger")
            payload["trick"] = self._rng.choice(tricks)
        asked = ask_for(kind, queue="bank", **payload)
        if self._rng.random() < 0.5:
            self.in_transaction(asked, commit=True)
        else:
            self.enqueue([asked])

    def crossed(self) -> None:
        """Two transfers between the same accounts, one there and one back, that deadlock."""
        ways = ((1, 2), (2, 1))
        self.enqueue([
            ask_for("transfer", queue="bank", source=a, target=b, amount=7, trick="crossed")
            for a, b in ways
        ])  # fmt: skip

    def rough(self) -> None:
        """A task that takes its worker along."""
        self.enqueue([ask_for(self._rng.choice(("killer", "kill_once")), queue="rough")])

    def slow(self) -> None:
        """A task that takes about as long as a lease, sometimes longer."""
        kind = self._rng.choice(("hold", "hold", "hold_thread", "block"))
        seconds = self._rng.uniform(0.3, 1.8) * LEASE_SECONDS
        self.enqueue([ask_for(kind, queue="slow", seconds=round(seconds, 2))])

    def chores(self) -> None:
        """Some tasks that are settled by hand."""
        asked = [ask_for("chore", queue=HAND) for _ in range(self._rng.randint(2, 5))]
        self.enqueue(asked)

    def bulk(self) -> None:
        """Many at once, with some keys among them or none."""
        asked = [ask_for("plain") for _ in range(self._rng.randint(5, 40))]
        for task in self._rng.sample(asked, self._rng.choice((0, 3))):
            task["key"] = f"bulk-{self._rng.randint(1, 10_000)}"
        self.enqueue(asked)

    def crowd(self) -> None:
        """More at once than may run at once."""
        asked = [
            ask_for("crowded", queue=LIMITED, seconds=round(self._rng.uniform(0.02, 0.3), 2))
            for _ in range(3 * MOST_RUNNING)
        ]
        self.enqueue(asked)

    def sent_again(self) -> None:
        """A task that is sent again when it has ended, as if its answer had been lost till then."""
        # Where nobody purges: it would be a new one then.
        asked = ask_for("plain", queue="bank")
        with history.mine().asking("enqueue_many", tasks=[asked]) as asking:
            spec = Options(queue="bank").spec(asked["type"], json.dumps(asked["payload"]))
            command = EnqueueTasks((spec,), tuple(app.carry(DrawTaskIds(1))), new_token())
            [answer] = app.carry(command)
            with suppress(wherry.ResultError, TimeoutError):
                # It has no result to wait for.
                app.result(answer.id, timeout=10.0)
            [answer] = app.carry(command.again())
            asking.told(answers=[(answer.id, answer.created, answer.payload_matches)])

    def giant(self) -> None:
        """A task almost as large as one may be."""
        size = int(GIANT_BYTES * self._rng.random() ** 3)
        self.enqueue([ask_for("giant", text=self._rng.randbytes(size // 2).hex())])

    def by_sql(self) -> None:
        """A task from plain SQL."""
        asked = ask_for("plain", key=f"sql-{self._rng.randint(1, 10_000)}")
        with history.mine().asking("enqueue", door="sql", **asked) as asking:
            connection = self.connection()
            try:
                row = connection.execute(
                    "select id, created, payload_matches from wherry.enqueue("
                    " %(queue)s, %(type)s, %(payload)s, key => %(key)s, max_attempts => 500)",
                    {**asked, "payload": Jsonb(asked["payload"])},
                ).fetchone()
                connection.commit()
            except psycopg.Error:
                # What was only canceled has left the transaction to be ended.
                connection.close()
                raise
            assert row is not None
            asking.told(id=row[0], created=row[1], matches=row[2])

    def rolled_back(self) -> None:
        """A task that must never be seen."""
        self.in_transaction(ask_for("plain"), commit=False)

    def storm(self) -> None:
        """Meet all the others at the next moment, with the same key."""
        tick = int(time.time() / STORM_EVERY_SECONDS) + 1
        worn = tick % 2 == 0
        key = f"worn-{tick % (2 * WORN_KEYS)}" if worn else f"storm-{tick}"
        asked = ask_for("plain", key=key)
        if worn:
            asked["key_ttl"] = 0.0
        elif self._rng.random() < 0.5:
            asked["payload"] = {"nonce": key}
        self.wait_for(tick)
        if self._rng.random() < 0.5:
            commit = self._rng.random() < 0.6
            self.in_transaction(asked, commit=commit, hold=self._rng.uniform(0.0, 0.03))
        else:
            self.enqueue([asked])

    def take_over(self) -> None:
        """Two who ask at once for the key of a task that has ended, one in an open transaction."""
        key = f"worn-{self._rng.randint(0, 10**9)}"
        first, second, third = (ask_for("plain", key=key) | {"key_ttl": 0.0} for _ in range(3))
        self.cancel_all(self.enqueue([first]))
        beside = threading.Timer(0.1, self.enqueue, [[second]])
        beside.start()
        self.in_transaction(third, commit=True, hold=0.3)
        beside.join()

    def wait_for(self, tick: int) -> None:
        """Wait until the moment at which all meet."""
        time.sleep(max(0.0, tick * STORM_EVERY_SECONDS - time.time()))

    # ── what else may be asked ──

    def cancel(self) -> None:
        """Cancel a few of those that were enqueued lately."""
        ids = [*self._some_of_recent(4), *self._slow]
        self._slow.clear()
        self.cancel_all(ids)

    def cancel_storm(self) -> None:
        """Cancel what runs and what waits, together with whoever else does so at this moment."""
        queue, state = self._rng.choice(STORMY), self._rng.choice(("leased", "queued"))
        ids: list[int] = []
        with history.mine().asking("list") as asking:
            page = app.list_tasks(state=state, queue=queue, limit=8)
            ids = [task.id for task in page.tasks]
            asking.told()
        self.wait_for(int(time.time() / STORM_EVERY_SECONDS) + 1)
        # As one who is impatient presses the button twice.
        pressing = [threading.Thread(target=self.cancel_all, args=(ids,)) for _ in range(2)]
        for each in pressing:
            each.start()
        for each in pressing:
            each.join()

    def cancel_all(self, ids: list[int]) -> None:
        """Cancel these."""
        way = self._way()
        with history.mine().asking("cancel", ids=ids, far=way is not app) as asking:
            answers = way.cancel_many(ids)
            asking.told(answers=list(zip(ids, answers, strict=True)))

    def pause(self) -> None:
        """Pause a queue for a moment; somebody else may resume it before we do."""
        queue = self._rng.choice(STORMY)
        with history.mine().asking("pause", queue=queue) as asking:
            asking.told(changed=self._way().pause_queue(queue))
        time.sleep(self._rng.uniform(0.1, 0.6))
        with history.mine().asking("resume", queue=queue) as asking:
            asking.told(changed=self._way().resume_queue(queue).changed)

    def pause_schedule(self) -> None:
        """Pause a schedule for some of its times; somebody else may resume it before we do."""
        name = self._rng.choice(sorted(PERIODS))
        with history.mine().asking("pause a schedule", name=name) as asking:
            asking.told(changed=if_there(lambda: app.pause_schedule(name)))
        time.sleep(self._rng.uniform(0.1, 2.5))
        with history.mine().asking("resume a schedule", name=name) as asking:
            asking.told(changed=if_there(lambda: app.resume_schedule(name)))

    def run_schedule(self) -> None:
        """Run a schedule by hand; one that is to be alone is left alone."""
        name = self._rng.choice(sorted(PERIODS.keys() - {ALONE}))
        with history.mine().asking("run a schedule", name=name) as asking:
            answer = if_there(lambda: app.run_schedule(name))
            asking.told(id=None if answer is None else answer.id)

    def requeue(self) -> None:
        """Put back a few that have ended."""
        ids = self._some_that_ended()
        with history.mine().asking("requeue", ids=ids) as asking:
            answers = self._way().requeue_many(ids)
            asking.told(answers=[(answer.id, answer.answer) for answer in answers])

    def purge(self) -> None:
        """Delete a few that have ended."""
        ids = self._some_that_ended()
        with history.mine().asking("purge", ids=ids) as asking:
            asking.told(ids=self._way().purge_many(ids))

    def look(self) -> None:
        """Look at one that must be there."""
        for id_ in self._some_of_recent(1):
            with history.mine().asking("look", id=id_) as asking:
                task = self._way().get_task(id_)
                asking.told(found=task is not None)

    # ── how it is asked ──

    def enqueue(self, asked: list[Ask]) -> list[int]:
        """Enqueue in no transaction of ours; returns the ids, if they were told."""
        way, ids = self._way(), list[int]()
        with history.mine().asking("enqueue_many", tasks=asked, far=way is not app) as asking:
            answers = way.enqueue_many(asked)
            asking.told(answers=[(a.id, a.created, a.payload_matches) for a in answers])
            ids = [answer.id for answer in answers]
            (self._slow if asked[0]["queue"] == "slow" else self._recent).extend(ids)
        return ids

    def in_transaction(self, asked: Ask, *, commit: bool, hold: float = 0.0) -> None:
        """Enqueue in a transaction of ours, which is held open for a while."""
        with history.mine().asking("enqueue", **asked, commit=commit) as asking:
            options = {name: asked[name] for name in asked.keys() - {"type", "payload"}}
            connection = self.connection()
            try:
                answer = app.enqueue(asked["type"], asked["payload"], tx=connection, **options)
                time.sleep(hold)
                if commit:
                    connection.commit()
                    asking.told(
                        id=answer.id, created=answer.created, matches=answer.payload_matches
                    )
                    self._recent.append(answer.id)
                    return
                connection.rollback()
            except psycopg.Error:
                connection.close()
                if commit:
                    raise
            # Also when the connection was lost: nobody had asked for the commit.
            asking.ends("rolled_back")

    def connection(self) -> psycopg.Connection[Any]:
        """Return the thread's connection, made anew when it broke."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                database(), application_name=history.mine().name, connect_timeout=5
            )
        return self._connection

    def _way(self) -> wherry.App:
        return far() if self._rng.random() < FAR_SHARE else app

    def _some_that_ended(self) -> list[int]:
        with history.mine().asking("list") as asking:
            state = self._rng.choice(("dead", "failed", "canceled", "succeeded"))
            page = app.list_tasks(state=state, queue="mixed", limit=50)
            asking.told()
            ended = [task.id for task in page.tasks]
            return self._rng.sample(ended, min(2, len(ended)))
        return []

    def _some_of_recent(self, most: int) -> list[int]:
        recent = list(self._recent)
        return self._rng.sample(recent, min(most, len(recent)))


if __name__ == "__main__":
    play(lambda rng: Producer(rng).run(), threads=THREADS)

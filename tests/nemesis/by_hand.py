"""A client that leases and reports by hand: `python -m tests.nemesis.by_hand`.

It does what no worker of ours does, but what a delayed packet, another language or a bug would: it
reports after its lease ran out, extends only a part of a batch, asks now the database and now a
server of ours, and above all repeats any earlier report, late. Most holes in a fence show only
then.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import psycopg

import wherry
from tests.nemesis import history
from tests.nemesis.doors import as_known_to, database, fence
from tests.nemesis.player import is_ending, leaving, play
from tests.nemesis.tasks import HAND, LIMITED, REAP_SECONDS, app, far
from wherry import Lease

THREADS = 4
# Of all threads: two of them then report the same lease at once.
EARLIER_KEPT = 60
MANY_AT_ONCE, LONG_SECONDS = 20, 3.0
# Of its turns those in which it leases what is limited, by so many threads more.
RUSH_SHARE, RUSHING = 0.25, 3
# Each longer than any call of an App takes to give up, whatever is shot at: until all threads of a
# rush are there, and until all are answered.
GATE_SECONDS, ANSWER_SECONDS = 120.0, 120.0
IN_A_TRANSACTION = "complete in a transaction"
VERBS = ("complete", "fail", "snooze", "release", IN_A_TRANSACTION)


class Hand:
    """One thread of the client, which counts as a worker of its own."""

    def __init__(self, rng: random.Random, earlier: deque[Lease]) -> None:
        self._rng = rng
        self._earlier = earlier
        self._connection: psycopg.Connection[Any] | None = None

    def run(self) -> None:
        """Lease and settle until told to leave; properly from the moment the run is ending."""
        while not leaving.is_set():
            if not is_ending() and self._rng.random() < RUSH_SHARE:
                self.rush()
            leases = self.lease()
            if not leases:
                leaving.wait(0.05)
            elif is_ending():
                for lease in leases:
                    self.report(lease, "complete")
            else:
                self.misbehave(leases)

    def rush(self) -> None:
        """Lease from the limited queue several times at the very same moment."""
        gate = threading.Barrier(RUSHING)
        taken: list[Lease] = []
        broken: list[Exception] = []

        def take() -> None:
            try:
                # One whose thread was not made, or has died, must not hold the others for ever.
                gate.wait(timeout=GATE_SECONDS)
                taken.extend(self.lease(queue=LIMITED, most=MANY_AT_ONCE, seconds=LONG_SECONDS))
            except Exception as error:
                # Of a thread that dies nobody would hear: its rush would have taken nothing.
                broken.append(error)

        rushing = [threading.Thread(target=take) for _ in range(RUSHING)]
        for each in rushing:
            each.start()
        for each in rushing:
            each.join(timeout=ANSWER_SECONDS)
            if each.is_alive():
                raise TimeoutError(f"a lease was not answered within {ANSWER_SECONDS:g} s")
        if broken:
            raise broken[0]
        for lease in taken:
            self.report(lease, self._rng.choice(("complete", "release")))

    def lease(
        self, *, queue: str = HAND, most: int | None = None, seconds: float | None = None
    ) -> list[Lease]:
        """Lease a few tasks for a short time."""
        limit = most or self._rng.randint(1, 4)
        seconds = seconds or self._rng.uniform(0.5, 1.5)
        if is_ending():
            seconds = 3.0
        leases: list[Lease] = []
        asked = {"queue": queue, "limit": limit, "seconds": seconds}
        with history.mine().asking("lease", **asked) as asking:
            leases = self._way().lease(
                worker="hand", queues=[queue], max_tasks=limit, lease_for=seconds
            )
            asking.told(fences=[fence(lease) for lease in leases])
        return leases

    def misbehave(self, leases: Sequence[Lease]) -> None:
        """Settle some at once, some late, some never, and repeat what was said long ago."""
        self._earlier.extend(leases)
        if len(leases) > 1 and self._rng.random() < 0.5:
            self.give_away(leases[0])
        for lease in leases:
            luck = self._rng.random()
            if luck < 0.15:
                self.settle_canceled(lease)
            elif luck < 0.55:
                self.report(lease, self._rng.choice(VERBS))
            elif luck < 0.7:
                self.beat(self._rng.sample(leases, self._rng.randint(1, len(leases))))
            elif luck < 0.78:
                # Until just before, or just after, the lease runs out.
                time.sleep(max(0.0, lease.remaining + self._rng.uniform(-0.05, 0.15)))
                self.report(lease, self._rng.choice(VERBS))
            elif luck < 0.9:
                self.report(lease, IN_A_TRANSACTION, outlive=True)
            earlier_ones = list(self._earlier)
            for earlier in (self._rng.choice(earlier_ones), self._rng.choice(earlier_ones[-8:])):
                if self._rng.random() < 0.4:
                    self.beat([earlier])
                else:
                    self.report(earlier, self._rng.choice(VERBS))

    def settle_canceled(self, lease: Lease) -> None:
        """Fail what somebody has asked to be canceled meanwhile, or complete it all the same."""
        with history.mine().asking("cancel", ids=[lease.id], far=False) as asking:
            asking.told(answers=[(lease.id, app.cancel_many([lease.id])[0])])
        self.report(lease, self._rng.choice(("fail", "fail", "complete")))

    def give_away(self, lease: Lease) -> None:
        """Report when somebody else holds the task, and what is left of our batch is still ours.

        Whoever that is has it for a while: it is we, by another lease, if nobody else is quicker.
        """
        self.report(lease, self._rng.choice(("fail", "release")))
        taken: list[Lease] = []
        for _ in range(20):
            taken += self.lease(most=MANY_AT_ONCE, seconds=LONG_SECONDS)
            with history.mine().asking("look", id=lease.id) as asking:
                task = app.get_task(lease.id)
                asking.told(found=task is not None)
                if task is not None and task.token > lease.token:
                    break
            time.sleep(0.01)
        # Each has a fence of its own, and a right one changes nothing for those after it.
        for verb in self._rng.sample(VERBS, len(VERBS)):
            self.report(lease, verb)
        for other in taken:
            self.report(other, "complete")

    def beat(self, leases: Sequence[Lease]) -> None:
        """Extend some leases, perhaps a part of a batch, perhaps ones that ended long ago."""
        with history.mine().asking("beat", fences=[fence(lease) for lease in leases]) as asking:
            seconds = self._rng.uniform(0.2, 1.0)
            way = self._way()
            known = [as_known_to(way, lease) for lease in leases]
            asking.told(answers=way.heartbeat(known, lease_for=seconds))

    def report(self, lease: Lease, verb: str, *, outlive: bool = False) -> None:
        """Report one lease; *outlive*: hold the transaction until it is over, then roll back."""
        way = self._way()
        lease = as_known_to(way, lease)
        with history.mine().asking("report", verb=verb, fence=fence(lease)) as asking:
            match verb:
                case "complete":
                    answer = way.complete(lease)
                case "fail":
                    answer = way.fail(lease, "by hand", after=self._rng.choice((0.0, 0.05)))
                case "snooze":
                    answer = way.snooze(lease, 0.05)
                case "release":
                    answer = way.release(lease)
                case _:
                    self.complete_in_transaction(way, lease, asking, outlive=outlive)
                    return
            asking.told(answer=answer)

    def complete_in_transaction(
        self, way: wherry.App, lease: Lease, asking: history.Asking, *, outlive: bool
    ) -> None:
        """Complete together with an effect, or roll both back."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                database(), application_name="hand in a transaction", connect_timeout=5
            )
        connection, commit = self._connection, not outlive and self._rng.random() < 0.7
        try:
            connection.execute(
                "insert into bank.transfer (task_id, token, lease_id, source, target, amount)"
                " values (%s, %s, %s, 0, 0, 0)",
                fence(lease),
            )
            try:
                way.complete(lease, tx=connection)
            except wherry.LeaseLost:
                connection.rollback()
                asking.told(answer="lost")
                return
            # Others meet a locked row: we ourselves by another connection, and a reaper too.
            if self._rng.random() < 0.5:
                self.report_meanwhile(lease)
            time.sleep(
                max(0.0, lease.remaining) + REAP_SECONDS * 2
                if outlive
                else self._rng.uniform(0.0, 0.3)
            )
            if commit:
                connection.commit()
                asking.told(answer="done")
            else:
                connection.rollback()
                asking.ends("rolled_back")
        except psycopg.Error:
            connection.close()
            raise

    def report_meanwhile(self, lease: Lease) -> None:
        """Report what our own open transaction is settling."""
        with history.mine().asking("report", verb="complete", fence=fence(lease)) as asking:
            asking.told(answer=app.complete(as_known_to(app, lease)))

    def _way(self) -> wherry.App:
        return self._rng.choice((app, app, far()))


if __name__ == "__main__":
    reported: deque[Lease] = deque(maxlen=EARLIER_KEPT)
    play(lambda rng: Hand(rng, reported).run(), threads=THREADS)

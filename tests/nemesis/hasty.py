"""An impatient process: `python -m tests.nemesis.hasty`.

Many coroutines share a few connections, and give up on most of what they ask before it is answered.

A call that was given up may have happened or not. Whatever it did, the connection it used must not
carry it into the next call.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import psycopg

import wherry
from tests.nemesis import history
from tests.nemesis.asking import Ask, ask_for
from tests.nemesis.doors import database, fence
from tests.nemesis.player import is_ending, play
from tests.nemesis.tasks import CONFIRM_SECONDS, HAND, LEASE_SECONDS, app, far
from wherry.commands.remote import PollTasks

COROUTINES = 8
PATIENCE_SECONDS = (0.001, 0.003, 0.01, 0.03, 10.0)


class Hasty:
    """All coroutines of the process."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._recent: deque[int] = deque(maxlen=50)

    async def run(self) -> None:
        """Ask until the run ends."""
        async with asyncio.TaskGroup() as group:
            for _ in range(COROUTINES):
                group.create_task(self._act())
        await app.aclose_loop()
        await far().aclose_loop()

    async def _act(self) -> None:
        acts = (
            self.enqueue, self.enqueue, self.in_transaction, self.cancel, self.look, self.poll,
            self.vanish,
        )  # fmt: skip
        while not is_ending():
            await self._rng.choice(acts)()
            await asyncio.sleep(self._rng.expovariate(1 / 0.3))

    async def enqueue(self) -> None:
        """One task, or a few with a key among them."""
        asked = [ask_for("plain") for _ in range(self._rng.randint(1, 3))]
        asked[0]["key"] = f"hasty-{self._rng.randint(1, 10_000)}"
        with history.mine().asking("enqueue_many", tasks=asked) as asking:
            try:
                async with asyncio.timeout(self._patience()):
                    answers = await app.aenqueue_many(asked)
            except TimeoutError:
                asking.ends("unknown", error="given up")
                return
            asking.told(answers=[(a.id, a.created, a.payload_matches) for a in answers])
            self._recent.extend(answer.id for answer in answers)

    async def in_transaction(self) -> None:
        """Enqueue in a transaction that is given up on the way, or not."""
        asked: Ask = ask_for("plain")
        with history.mine().asking("enqueue", **asked, commit=True) as asking:
            connection = await psycopg.AsyncConnection.connect(
                database(), application_name=history.mine().name, connect_timeout=5
            )
            try:
                async with asyncio.timeout(self._patience()):
                    async with connection:
                        answer = await app.aenqueue(
                            asked["type"], asked["payload"], queue="mixed", tx=connection
                        )
            except TimeoutError:
                asking.ends("unknown", error="given up")
                return
            asking.told(id=answer.id, created=answer.created, matches=answer.payload_matches)

    async def cancel(self) -> None:
        """Cancel some."""
        ids = self._some()
        with history.mine().asking("cancel", ids=ids) as asking:
            answers: list[Any] = []
            try:
                async with asyncio.timeout(self._patience()):
                    answers = await app.acancel_many(ids)
            except TimeoutError:
                asking.ends("unknown", error="given up")
                return
            asking.told(answers=list(zip(ids, answers, strict=True)))

    async def look(self) -> None:
        """Look at one that must be there."""
        for id_ in self._some()[:1]:
            with history.mine().asking("look", id=id_) as asking:
                task: wherry.Task | None = None
                try:
                    async with asyncio.timeout(self._patience()):
                        task = await app.aget_task(id_)
                except TimeoutError:
                    asking.ends("unknown", error="given up")
                    return
                asking.told(found=task is not None)

    async def poll(self) -> None:
        """Ask a server for tasks, and be gone when it has some; or leave them to its reaper."""
        with history.mine().asking("lease", limit=4, seconds=1.0) as asking:
            try:
                async with asyncio.timeout(self._patience()):
                    leases = await far().alease(
                        worker="hasty", queues=[HAND], max_tasks=4, lease_for=1.0, wait=0.3
                    )
            except TimeoutError:
                asking.ends("unknown", error="given up")
                return
            asking.told(fences=[fence(lease) for lease in leases])

    async def vanish(self) -> None:
        """Ask a server for tasks as a worker does, and say nothing more, as if the answer was lost.

        The server gives them back as soon as they should have been confirmed, while they are
        leased for longer.
        """
        asked = [ask_for("chore", queue=HAND) for _ in range(2)]
        with history.mine().asking("enqueue_many", tasks=asked) as asking:
            answers = await app.aenqueue_many(asked)
            asking.told(answers=[(a.id, a.created, a.payload_matches) for a in answers])
        poll = PollTasks(
            worker="hasty", queues=(HAND,), limit=2, lease_seconds=LEASE_SECONDS,
            wait_seconds=1.0, confirm_seconds=CONFIRM_SECONDS,
        )  # fmt: skip
        with history.mine().asking("lease", limit=2, seconds=LEASE_SECONDS) as asking:
            asking.told(fences=[fence(lease) for lease in await far().acarry(poll)])

    def _some(self) -> list[int]:
        return self._rng.sample(list(self._recent), min(3, len(self._recent)))

    def _patience(self) -> float:
        return self._rng.choice(PATIENCE_SECONDS)


if __name__ == "__main__":
    play(lambda rng: asyncio.run(Hasty(rng).run()), threads=1)

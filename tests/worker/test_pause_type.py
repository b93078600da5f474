"""A type that is paused stops in all workers at once, and other types go on."""

from __future__ import annotations

from datetime import timedelta

import wherry
from tests.worker.support import all_finished, at_work
from wherry.domain.state import State

NEVER = timedelta(seconds=600)


async def test_other_types_go_on_while_one_is_paused(app: wherry.App) -> None:
    """Without a poll; and what was paused goes on when it is resumed."""
    app.task(name="batch")(lambda: None)
    app.task(name="mail")(lambda: None)
    async with (
        at_work(app, name="a", poll_every=NEVER, poll_every_when_listening=NEVER),
        at_work(app, name="b", poll_every=NEVER, poll_every_when_listening=NEVER),
    ):
        assert await app.apause_type("batch", reason="a flood")
        batches = [(await app.aenqueue("batch")).id for _ in range(20)]
        mails = [(await app.aenqueue("mail")).id for _ in range(20)]

        await all_finished(app, mails)

        waiting = (await app.alist_tasks(type="batch", state="queued")).tasks
        assert sorted(task.id for task in waiting) == batches
        assert {task.attempts for task in waiting} == {0}
        assert await app.aresume_type("batch")
        assert {task.state for task in await all_finished(app, batches)} == {State.SUCCEEDED}

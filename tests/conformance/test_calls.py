"""What an App's calls answer is the same by either way."""

from __future__ import annotations

import asyncio

import wherry
from wherry.domain.state import State


async def test_a_task_is_stored_and_read_back(app: wherry.App) -> None:
    made = await app.aenqueue("mail.send", {"to": "ada"}, queue="mail", priority=5, tags=["a", "b"])

    task = await app.aget_task(made.id)

    assert made.created
    assert task is not None
    assert (task.queue, task.type, task.payload) == ("mail", "mail.send", {"to": "ada"})
    assert (task.state, task.priority, task.tags) == (State.QUEUED, 5, ("a", "b"))


async def test_the_blocking_form_does_the_same(app: wherry.App) -> None:
    made = await asyncio.to_thread(lambda: app.enqueue("t", {"n": 1}))
    task = await asyncio.to_thread(lambda: app.get_task(made.id))
    assert task is not None
    assert task.payload == {"n": 1}
    await asyncio.to_thread(app.close)

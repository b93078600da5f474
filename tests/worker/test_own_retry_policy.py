"""Of two retry policies the one that was given with the enqueue serves, not the type's function."""

from __future__ import annotations

import wherry


async def test_a_policy_of_the_enqueue_goes_before_the_function_of_the_type(
    app: wherry.App,
) -> None:
    @app.task(name="fetch", max_attempts=2, retry=lambda attempt, error: 3600.0)
    async def fetch() -> None:
        raise ConnectionError

    by_function = await fetch.aenqueue()
    by_its_own = await fetch.using(retry=wherry.Fixed(0)).aenqueue()

    await app.awork(until_empty=True)

    states = [await app.aget_task(task.id) for task in (by_function, by_its_own)]
    assert [task and task.state for task in states] == ["queued", "dead"]

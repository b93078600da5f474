"""A handler's context without a worker, for tests that call the handler themselves.

Nothing is stored: what the handler completes or enqueues through its context is put down here.
Completing twice, or with a connection of the wrong kind, is refused as by a worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from wherry.app.asked import asked_task
from wherry.domain.lease import Lease, Reported
from wherry.domain.options import EnqueueOptions, Options, check_flag
from wherry.domain.stored import decode_result
from wherry.domain.task import Enqueued, Task
from wherry.errors import LeaseLost
from wherry.tasks.payload import encode, encode_result
from wherry.tasks.registry import Registry
from wherry.tasks.task import AMBIENT
from wherry.testing.made import check_tx, made_lease, made_task
from wherry.worker.context import Context, entered, tell_to_stop


class RecordedContext(Context):
    """The context a handler gets from `wherry.current()`, with what it did so far.

    `cancel()` sets `cancelled`. `lose()` lets the lease run out: completing raises LeaseLost.
    """

    def __init__(self, lease: Lease) -> None:
        self._recorder = _Recorder()
        super().__init__(self._recorder, lease)

    @property
    def completed(self) -> bool:
        """Whether the handler called `complete` or `acomplete`."""
        return self.completing

    @property
    def result(self) -> Any:
        """What the handler completed the task with."""
        return self._recorder.result

    @property
    def enqueued(self) -> list[Task]:
        """The tasks that the handler enqueued through its context."""
        return list(self._recorder.tasks)

    def cancel(self) -> None:
        """Set `cancelled`, as a worker does that wants the handler to stop."""
        tell_to_stop(self)

    def lose(self) -> None:
        """Let the lease be gone, as after a stall: the handler is told to stop."""
        self.lease.deadline = 0.0
        self.cancel()


class _Recorder:
    """Takes the place of the App."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.result: Any = None
        self._completed = False
        self._ids = itertools.count(1)
        self._types = Registry()

    def complete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Put down that the task is complete."""
        check_tx(tx, awaited=False, call="complete")
        return self._complete(lease, result)

    async def acomplete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Put down that the task is complete."""
        check_tx(tx, awaited=True, call="complete")
        return self._complete(lease, result)

    def enqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = AMBIENT,
        notify: bool = True,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Put down a task."""
        if tx not in (AMBIENT, None):
            check_tx(tx, awaited=False, call="enqueue")
        check_flag(notify, option="notify")
        return self._enqueue(type, payload, options)

    async def aenqueue(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tx: Any = AMBIENT,
        notify: bool = True,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Put down a task."""
        if tx not in (AMBIENT, None):
            check_tx(tx, awaited=True, call="enqueue")
        check_flag(notify, option="notify")
        return self._enqueue(type, payload, options)

    def _complete(self, lease: Lease, result: Any) -> Reported:
        if self._completed:
            # The second one finds no leased task any more.
            raise LeaseLost(lease.id, token=lease.token)
        text = encode_result(result)
        self._completed, self.result = True, decode_result(text)
        return Reported.DONE

    def _enqueue(
        self, type: str, payload: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> Enqueued:
        spec = asked_task(self._types, type, {} if payload is None else payload, options)
        task = made_task(spec, id=next(self._ids))
        self.tasks.append(task)
        return Enqueued(task.id, True, None if spec.key is None else True)


@contextmanager
def context(
    type: str = "wherry.testing",
    payload: Mapping[str, Any] | None = None,
    *,
    task_id: int = 1,
    queue: str = "default",
    attempt: int = 1,
    max_attempts: int = 20,
    key: str | None = None,
    tags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    cancelled: bool = False,
) -> Generator[RecordedContext]:
    """Make `wherry.current()` work inside the block, in whatever is called from it.

    The values are those of the task that the handler is to believe it runs; they are checked as at
    an enqueue.
    """
    options = Options(queue=queue, max_attempts=max_attempts, key=key, tags=tags, headers=headers)
    spec = options.spec(type, encode({} if payload is None else payload))
    made = RecordedContext(made_lease(made_task(spec, id=task_id), attempt=attempt))
    if cancelled:
        made.cancel()
    with entered(made):
        yield made

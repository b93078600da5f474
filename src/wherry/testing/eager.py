"""Runs tasks at once, where they are enqueued, without any database.

A task goes through everything but the database: its options are checked, its payload is encoded
and decoded again, and its handler runs with a context of its own. What a newcomer gets wrong is
time: the handler runs *before* `enqueue` returns, so with `tx=` it runs before that transaction
commits, on whatever connections it opens itself, and has run even if the transaction rolls back.
Tests of such things want real rows: `drain.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, NoReturn, Self

from wherry.app.app import App
from wherry.app.asked import asked_task_name, result_of
from wherry.app.loop import loop_is_running, refuse_in_loop
from wherry.domain.durations import seconds_from
from wherry.domain.lease import Lease, Reported
from wherry.domain.options import TaskSpec
from wherry.domain.outcome import Failed, judge
from wherry.domain.state import State
from wherry.domain.task import Enqueued, Task
from wherry.errors import ConfigError, HandlerError, NotFound, UnknownType
from wherry.signals import Fail
from wherry.tasks.payload import encode_result
from wherry.tasks.task import AMBIENT, TaskType
from wherry.testing.expect import Wanted
from wherry.testing.made import check_tx, made_lease, made_task
from wherry.worker.context import Context, enter

# A task whose handler enqueues it again would go on for ever; each level takes a dozen frames.
DEEPEST = 30

_depth: ContextVar[int] = ContextVar("wherry_inline_depth", default=0)


class Inline:
    """An App without a database: leaving the `with` block gives it its own calls back.

    `tasks` are those enqueued so far, as they stand now.
    """

    def __init__(
        self, app: App, *, run_delayed: bool = True, elsewhere: Collection[str] = ()
    ) -> None:
        self.app = app
        self._run_delayed = run_delayed
        self._elsewhere = frozenset(elsewhere)
        self._ids = itertools.count(1)
        self._tasks: dict[int, Task] = {}
        # The task that each key named last, and for how many seconds after its end it will.
        self._keys: dict[tuple[str, str], tuple[int, float | None]] = {}
        self._before: dict[str, Any] = {}

    @property
    def tasks(self) -> list[Task]:
        """The tasks enqueued in this block, the oldest first."""
        return list(self._tasks.values())

    def expect_enqueued(
        self,
        type: TaskType[..., Any] | str,
        payload: dict[str, Any] | None = None,
        *,
        queue: str | None = None,
        key: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        state: str | None = None,
        count: int | None = None,
    ) -> list[Task]:
        """Do what `wherry.testing.expect_enqueued` does, with the tasks of this block."""
        __tracebackhide__ = True
        name = type if isinstance(type, str) else type.name
        wanted = Wanted(name, payload, queue, key, priority, tags, state, count)
        return wanted.check(self.tasks)

    def __enter__(self) -> Self:
        calls: dict[str, Callable[..., Any]] = {
            "enqueue_specs": self._enqueue,
            "aenqueue_specs": self._aenqueue,
            "get_task": self._get_task,
            "aget_task": self._aget_task,
            "result": self._result,
            "aresult": self._aresult,
            "carry": self._refuse,
            "acarry": self._refuse,
        }
        own = vars(self.app)
        self._before = {name: own.get(name) for name in calls}
        own.update(calls)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        own = vars(self.app)
        for name, call in self._before.items():
            if call is None:
                del own[name]
            else:
                # We were inside another block.
                own[name] = call

    # ── the calls that take the place of the App's ──

    def _enqueue(
        self, specs: Sequence[TaskSpec], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        tx = self.app.ambient(tx)
        if tx is not None:
            check_tx(tx, awaited=False, call="enqueue")
        else:
            refuse_in_loop("enqueue")
        answers: list[Enqueued] = []
        for spec, handler in zip(specs, self._handlers(specs), strict=True):
            answer = self._admit(spec)
            answers.append(answer)
            if answer.created and handler is not None and self._is_due(spec):
                self._run(answer.id, handler)
        return answers

    async def _aenqueue(
        self, specs: Sequence[TaskSpec], *, tx: Any = AMBIENT, notify: bool = True
    ) -> list[Enqueued]:
        tx = self.app.ambient(tx)
        if tx is not None:
            check_tx(tx, awaited=True, call="enqueue")
        answers: list[Enqueued] = []
        for spec, handler in zip(specs, self._handlers(specs), strict=True):
            answer = self._admit(spec)
            answers.append(answer)
            if answer.created and handler is not None and self._is_due(spec):
                await self._arun(answer.id, handler)
        return answers

    def _get_task(
        self, id: int | None = None, *, queue: str | None = None, key: str | None = None
    ) -> Task | None:
        look = asked_task_name(id, queue=queue, key=key)
        if look.id is not None:
            return self._tasks.get(look.id)
        held = (task for task in self._tasks.values() if task.key == look.key)
        # The newest: it took the key over.
        return max(
            (task for task in held if task.queue == look.queue), key=lambda t: t.id, default=None
        )

    async def _aget_task(
        self, id: int | None = None, *, queue: str | None = None, key: str | None = None
    ) -> Task | None:
        return self._get_task(id, queue=queue, key=key)

    def _result(self, id: int, *, timeout: timedelta | float) -> Any:
        seconds = seconds_from(timeout, option="timeout")
        task = self._tasks.get(id)
        if task is None:
            raise NotFound(id)
        if not task.state.is_final:
            # Nobody but the caller could make it move, and the caller waits.
            raise TimeoutError(f"task {id} is still {task.state} after {seconds:g} s")
        return result_of(task)

    async def _aresult(self, id: int, *, timeout: timedelta | float) -> Any:
        return self._result(id, timeout=timeout)

    def _refuse(self, command: Any, *, tx: Any = None, call: str = "call") -> NoReturn:
        raise ConfigError(
            f"{call}() asks the database, and inside wherry.testing.inline there is none:"
            " use wherry.testing.manual, which works with real rows"
        )

    # ── what a database and a worker would do ──

    def _handlers(self, specs: Sequence[TaskSpec]) -> list[TaskType[..., Any] | None]:
        """Return each task's handler, None for those that run elsewhere, before anything is run."""
        names = {spec.type for spec in specs} - self._elsewhere
        if any(self.app.registry.find(name) is None for name in names):
            self.app.load()
        for name in sorted(names):
            if self.app.registry.find(name) is None:
                raise UnknownType(name, known=sorted(self.app.registry.names))
        return [
            None if spec.type in self._elsewhere else self.app.registry.get(spec.type)
            for spec in specs
        ]

    def _admit(self, spec: TaskSpec) -> Enqueued:
        known = None if spec.key is None else self._named_by(spec.queue, spec.key)
        if known is not None:
            return Enqueued(known.id, False, _matches(known, spec), self.app)
        id = next(self._ids)
        self._tasks[id] = made_task(spec, id=id)
        if spec.key is None:
            return Enqueued(id, True, None, self.app)
        self._keys[spec.queue, spec.key] = (id, spec.key_ttl_seconds)
        return Enqueued(id, True, True, self.app)

    def _named_by(self, queue: str, key: str) -> Task | None:
        id, ttl_seconds = self._keys.get((queue, key), (0, None))
        task = self._tasks.get(id)
        if task is None or task.finished_at is None or ttl_seconds is None:
            return task
        over = datetime.now(UTC) >= task.finished_at + timedelta(seconds=ttl_seconds)
        return None if over else task

    def _is_due(self, spec: TaskSpec) -> bool:
        later = spec.run_after is not None and spec.run_after > datetime.now(UTC)
        return self._run_delayed or not (later or spec.delay_seconds)

    def _run(self, id: int, task_type: TaskType[..., Any]) -> None:
        attempt = _Attempt(self, id, task_type)
        with attempt:
            if not loop_is_running():
                attempt.returned(attempt.call())
            else:
                # The caller's loop must not see a blocking handler, nor run another loop inside.
                with ThreadPoolExecutor(1, thread_name_prefix="wherry-inline") as thread:
                    attempt.returned(thread.submit(attempt.call).result())

    async def _arun(self, id: int, task_type: TaskType[..., Any]) -> None:
        attempt = _Attempt(self, id, task_type)
        with attempt:
            if task_type.isolation == "loop":
                handled = asyncio.create_task(attempt.acall(), context=attempt.own)
                attempt.returned(await handled)
            else:
                # As a worker does: in a thread, blocking calls of the handler are fine.
                attempt.returned(await asyncio.to_thread(attempt.call))

    def change(self, id: int, **fields: Any) -> None:
        """Put down how a task stands now."""
        self._tasks[id] = replace(self._tasks[id], **fields)

    def task(self, id: int) -> Task:
        """Return a task of this block."""
        return self._tasks[id]


class _Attempt:
    """One run of a handler; what it raises goes through, noted as a worker would report it."""

    def __init__(self, inline: Inline, id: int, task_type: TaskType[..., Any]) -> None:
        depth = _depth.get()
        if depth >= DEEPEST:
            raise RecursionError(
                f"{task_type.name} is enqueued {DEEPEST} handlers deep: inside"
                " wherry.testing.inline a task that enqueues itself again never ends; use"
                " inline(app, run_delayed=False) if it does so with a delay, else"
                " wherry.testing.manual"
            )
        self.inline = inline
        self.id = id
        self.type = task_type
        self.lease = made_lease(inline.task(id))
        self.context = Context(_Finisher(inline, self), self.lease)
        self.result_text: str | None = None
        self.handled = False
        self.own = contextvars.copy_context()
        self.own.run(enter, self.context)
        self.own.run(_depth.set, depth + 1)
        inline.change(id, state=State.LEASED, attempts=1, token=1, started_at=self.lease.leased_at)

    async def acall(self) -> Any:
        """Run an async handler to its end."""
        made = self._start()
        # A plain decorator around it may have given back something else.
        return await made if inspect.isawaitable(made) else made

    def call(self) -> Any:
        """Run the handler to its end, in a context of its own, blocking."""
        if self.type.isolation == "loop":
            return self.own.run(asyncio.run, self.acall())
        value = self.own.run(self._start)
        if inspect.iscoroutine(value):
            value.close()
            raise HandlerError(
                f"{self.type.name} is a plain function, but it returned a coroutine, which nobody"
                " would await: make the handler async"
            )
        return value

    def _start(self) -> Any:
        # Decoded at each look: what the handler changes is its own.
        return self.type.function(**self.type.bind(self.lease.payload))

    def returned(self, value: Any) -> None:
        """Note that the handler returned. Raises InvalidPayload for a result that is not JSON."""
        self.handled = True
        if not self.context.completing and self.type.store_result and value is not None:
            self.result_text = encode_result(value)
        self.inline.change(
            self.id,
            state=State.SUCCEEDED,
            finished_at=datetime.now(UTC),
            result_text=self.result_text,
        )

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        # To run a handler again would make the same result again.
        outcome = judge(Fail(str(error)) if self.handled else error, self.lease)
        if not isinstance(outcome, Failed):
            self.inline.change(self.id, state=State.QUEUED)
            return
        verdict, failure = outcome.verdict, outcome.failure
        ends = {"fail": State.FAILED, "cancel": State.CANCELED, "retry": State.QUEUED}[verdict]
        if verdict == "retry" and self.lease.attempt >= self.lease.max_attempts:
            ends = State.DEAD
        self.inline.change(
            self.id,
            state=ends,
            finished_at=datetime.now(UTC) if ends.is_final else None,
            error=f"{failure.type}: {failure.message}",
            reason=outcome.reason,
        )


class _Finisher:
    """What the handler's context asks of its App."""

    def __init__(self, inline: Inline, attempt: _Attempt) -> None:
        self._app = inline.app
        self._attempt = attempt
        self.enqueue = inline.app.enqueue
        self.aenqueue = inline.app.aenqueue

    def complete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Take the result; whether *tx* commits is not known here."""
        check_tx(tx, awaited=False, call="complete")
        self._attempt.result_text = None if result is None else encode_result(result)
        return Reported.DONE

    async def acomplete(self, lease: Lease, *, result: Any = None, tx: Any = None) -> Reported:
        """Take the result; whether *tx* commits is not known here."""
        check_tx(tx, awaited=True, call="complete")
        self._attempt.result_text = None if result is None else encode_result(result)
        return Reported.DONE


def inline(app: App, *, run_delayed: bool = True, elsewhere: Collection[str] = ()) -> Inline:
    """Return a context manager in which enqueuing runs the handler at once, without a database.

    What a handler raises comes out of the enqueue, `Retry`, `Snooze`, `Fail` and `Cancel` too;
    nothing is tried again. A key runs once in a block. In a batch nothing runs before everything
    was checked; an error ends it. *run_delayed*: run what has a delay at once too; False keeps it
    in `tasks`. *elsewhere*: names of types that other programs handle, which are kept as well;
    any other unknown type is an UnknownType.
    """
    return Inline(app, run_delayed=run_delayed, elsewhere=elsewhere)


def _matches(known: Task, spec: TaskSpec) -> bool:
    return known.type == spec.type and _canonical(known.payload_text) == _canonical(spec.payload)


def _canonical(text: str) -> str:
    # The database compares by jsonb, where the order of names does not matter.
    return json.dumps(json.loads(text), sort_keys=True)

"""Turns what callers pass to an App into checked values, without any I/O."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from wherry.commands.copying import CopyTask
from wherry.commands.tasks import MERGED_AT_ONCE, GetTask, RequeueTasks
from wherry.config import DEFAULT_QUEUE
from wherry.domain.counting import count
from wherry.domain.durations import Duration, number_of_seconds, seconds_from
from wherry.domain.failure import MESSAGE_LIMIT_BYTES, Failure, describe
from wherry.domain.lease import Lease
from wherry.domain.options import (
    Options,
    TaskSpec,
    check_flag,
    check_id,
    check_instant,
    check_key,
    check_list,
    check_name,
    check_text,
)
from wherry.domain.outcome import Failed, stored_policy
from wherry.domain.retry import delay
from wherry.domain.schedule import Schedule
from wherry.domain.specs import Alike, Specs
from wherry.domain.state import State
from wherry.domain.task import Task
from wherry.errors import (
    InvalidOption,
    InvalidPayload,
    InvalidTask,
    ResultNotStored,
    TaskCanceled,
    TaskDead,
    TaskFailed,
)
from wherry.tasks.payload import encode, encode_text
from wherry.tasks.registry import Registry

# How many tasks one statement of a bulk call touches.
STEP = 500
LONGEST_LEASE_SECONDS = 86_400.0
PATCH = "merge_payload"
LEAST_PER_SECOND = 0.001
MOST_PER_SECOND = 100_000

# Of one call, however many tasks it stores.
_OF_THE_CALL = ("tx", "notify")


def asked_task(
    registry: Registry,
    type: Any,
    payload: Any,
    options: Mapping[str, Any],
    *,
    index: int | None = None,
) -> TaskSpec:
    """Return the checked task: a registered type's options are the base, the call's override."""
    chosen = _options(registry, type, options, index=index)
    return chosen.spec(type, encode(payload, index=index), index=index)


def asked_schedule(
    registry: Registry,
    name: Any,
    cron: Any,
    type: Any,
    payload: Any,
    *,
    tz: Any,
    missed: Any,
    overlap: Any,
    options: Mapping[str, Any],
) -> Schedule:
    """Return the checked schedule of a task that is named by its type, as `asked_task` has it."""
    # What is of a single enqueue is none of a schedule.
    Options.declared(options)
    task = asked_task(registry, type, payload, options)
    return Schedule.checked(name, cron, task, tz=tz, missed=missed, overlap=overlap)


def asked_tasks(registry: Registry, tasks: Iterable[Any]) -> Specs:
    """Return the checked tasks of a batch. A bad one raises InvalidTask with its index.

    It does so when it is made: see Specs.
    """
    # Theirs may take its time, which nobody's transaction should wait for.
    given = check_list(tasks, option="tasks", of="dicts")
    # Of tasks of which nothing is said but type and queue, by these.
    plain: dict[tuple[str, str | None], TaskSpec] = {}

    def making(start: int, stop: int) -> list[Alike]:
        runs: list[Alike] = []
        for index in range(start, stop):
            like, payload = _asked(registry, given[index], plain, index=index)
            if runs and (like is runs[-1].like or like == runs[-1].like):
                runs[-1].payloads.append(payload)
            else:
                runs.append(Alike(like, [payload]))
        return runs

    return Specs(len(given), making)


def aasked_tasks(registry: Registry, tasks: Iterable[Any]) -> Specs:
    """Do so at once, for a call that is awaited: meanwhile others may change what was passed."""
    return asked_tasks(registry, tasks).made()


def _asked(
    registry: Registry, task: Any, plain: dict[tuple[str, str | None], TaskSpec], *, index: int
) -> tuple[TaskSpec, str]:
    """Return a task of a batch without its payload, and its payload."""
    if not isinstance(task, Mapping):
        kind = builtins.type(task).__name__
        raise InvalidTask(f"must be a dict with type and payload, not {kind}", index=index)
    options: dict[str, Any] = dict(cast("Mapping[str, Any]", task))
    for name in _OF_THE_CALL:
        if name in options:
            reason = "is one for the whole batch: give it to enqueue_many"
            raise InvalidOption(name, options[name], reason, index=index)
    type, payload = options.pop("type", None), options.pop("payload", {})
    # By the exact types: True would be found under 1, too.
    queue = options.get("queue")
    is_plain = (
        builtins.type(type) is str
        and len(options) == ("queue" in options)
        and (queue is None or builtins.type(queue) is str)
    )
    like = plain.get((type, queue)) if is_plain else None
    if like is not None:
        return like, encode(payload, index=index)
    base = _options(registry, type, options, index=index)
    text = encode(payload, index=index)
    like = base.spec(type, "", index=index)
    if is_plain:
        plain[type, queue] = like
    return like, text


def _options(
    registry: Registry, type: Any, options: Mapping[str, Any], *, index: int | None
) -> Options:
    known = registry.find(type) if isinstance(type, str) else None
    base = Options() if known is None else known.options
    return base.changed(options, index=index)


def asked_task_name(id: Any, *, queue: Any, key: Any) -> GetTask:
    """Return the question for the task of that id, or of that key. Raises InvalidOption."""
    if (id is None) == (key is None):
        raise InvalidOption("id", id, "must be given, or queue and key instead")
    if key is not None:
        name = DEFAULT_QUEUE if queue is None else check_name(queue, option="queue")
        return GetTask(queue=name, key=check_key(key))
    if queue is not None:
        raise InvalidOption("queue", queue, "goes with a key: an id needs none")
    return GetTask(check_id(id))


def asked_ids(ids: Iterable[Any]) -> list[int]:
    """Return checked task ids."""
    return [
        check_id(id, option=f"ids[{n}]")
        for n, id in enumerate(check_list(ids, option="ids", of="ids"))
    ]


def asked_queues(queues: Iterable[Any]) -> list[str]:
    """Return checked names of queues, at least one; `*` may be among them."""
    names = check_list(queues, option="queues", of="names")
    if not names:
        raise InvalidOption("queues", names, "name at least one, or '*' for all")
    return [name if name == "*" else check_name(name, option="queue") for name in names]


def asked_types(types: Iterable[Any] | None) -> tuple[str, ...] | None:
    """Return checked names of types, or None for any."""
    if types is None:
        return None
    return tuple(
        check_name(name, option="type") for name in check_list(types, option="types", of="names")
    )


def asked_type_in(type: str, queue: str | None) -> tuple[str, str | None]:
    """Return a type, and the queue in which it is paused or resumed: None for all of them."""
    return check_name(type, option="type"), asked_place(queue)


def asked_place(queue: str | None) -> str | None:
    """Return the queue in which something is paused or resumed: None for all of them."""
    if queue == "":
        # An unset variable must not be taken for all queues.
        raise InvalidOption("queue", queue, "is empty: leave it out for all queues, or name one")
    return None if queue is None else check_name(queue, option="queue")


def asked_lease_seconds(lease_for: Duration, *, option: str = "lease_for") -> float:
    """Return how long a lease lasts, more than 0 s and at most a day."""
    seconds = seconds_from(lease_for, option=option, zero_allowed=False)
    if seconds > LONGEST_LEASE_SECONDS:
        raise InvalidOption(option, lease_for, "must be at most a day: heartbeats extend it")
    return seconds


def asked_copy(
    id: Any, *, queue: Any, payload: str | None, delay: Any, purge: Any, reason: Any
) -> CopyTask:
    """Return the copy of a task to store; *payload* is encoded already. Raises InvalidOption."""
    return CopyTask(
        id=check_id(id),
        queue=None if queue is None else check_name(queue, option="queue"),
        payload=payload,
        delay_seconds=None if delay is None else seconds_from(delay, option="delay"),
        purge=check_flag(purge, option="purge"),
        reason=asked_reason(reason),
    )


def asked_reason(reason: Any) -> str | None:
    """Return the checked reason of a cancel."""
    if reason is None:
        return None
    return check_text(reason, option="reason", limit_bytes=MESSAGE_LIMIT_BYTES, empty_allowed=True)


def asked_due(run_after: Any, delay: Any) -> tuple[datetime | None, float]:
    """Return when a task is to run: at a moment, or in so many seconds. Raises InvalidOption."""
    if (run_after is None) == (delay is None):
        raise InvalidOption("run_after", run_after, "say when: run_after, or delay (0 is at once)")
    if run_after is not None:
        return check_instant(run_after, option="run_after"), 0.0
    return None, seconds_from(delay, option="delay")


def asked_spread(delay: Any, per_second: Any) -> tuple[float, float | None]:
    """Return how long the first waits, and how many follow in a second. Raises InvalidOption."""
    seconds = seconds_from(delay, option="delay")
    if per_second is None:
        return seconds, None
    rate = number_of_seconds(per_second)
    if (
        rate is None
        or isinstance(per_second, timedelta)
        or not LEAST_PER_SECOND <= rate <= MOST_PER_SECOND
    ):
        reason = f"must be a number from {LEAST_PER_SECOND:g} to {MOST_PER_SECOND:,}"
        raise InvalidOption("per_second", per_second, reason)
    return seconds, rate


def asked_requeue(
    *, without_key: Any, delay: Any, per_second: Any, to_queue: Any, merge_payload: str | None
) -> RequeueTasks:
    """Return how tasks are put back, but not which; *merge_payload* is encoded already.

    Raises InvalidOption.
    """
    seconds, rate = asked_spread(delay, per_second)
    return RequeueTasks(
        (),
        without_key=check_flag(without_key, option="without_key"),
        delay_seconds=seconds,
        per_second=rate,
        to_queue=None if to_queue is None else check_name(to_queue, option="to_queue"),
        merge_payload=merge_payload,
    )


def requeue_parts(asked: RequeueTasks, ids: list[int]) -> Iterator[RequeueTasks]:
    """Yield what puts tasks back so, one statement's worth at a time: each after those before."""
    step = STEP if asked.merge_payload is None else MERGED_AT_ONCE
    for start in range(0, len(ids), step):
        before = start / asked.per_second if asked.per_second else 0.0
        part = tuple(ids[start : start + step])
        yield replace(asked, ids=part, delay_seconds=asked.delay_seconds + before)


def asked_patch(merge_payload: Any) -> str | None:
    """Return a merge patch as JSON text. Raises InvalidPayload for what no payload can hold."""
    return None if merge_payload is None else _encoded(encode, merge_payload)


def asked_patch_text(merge_payload: str) -> str:
    """Return a merge patch that somebody else wrote as JSON, as `asked_patch` does."""
    return _encoded(encode_text, merge_payload)


def _encoded(by: Callable[..., str], patch: Any) -> str:
    try:
        return by(patch, what=PATCH)
    except InvalidPayload as error:
        # Beside other payloads it has to be said which one it is.
        raise InvalidPayload(error.path.replace("$", PATCH, 1), error.reason) from None


def asked_failure(
    lease: Lease,
    error: BaseException | str,
    *,
    retry: bool,
    after: Duration | None,
) -> Failed:
    """Return the failed attempt to report; its delay is *after*, or what the stored policy says."""
    failure = Failure.of_text(error) if isinstance(error, str) else describe(error)
    if not retry:
        return Failed(lease, "fail", failure)
    if after is not None:
        return Failed(lease, "retry", failure, seconds_from(after, option="after"))
    wait = delay(stored_policy(lease), attempts=lease.attempt)
    return Failed(lease, "retry", failure, wait.total_seconds())


def result_of(task: Task) -> Any:
    """Return a finished task's result, or raise what became of it."""
    match task.state:
        case State.FAILED:
            raise TaskFailed(task.id, f"failed for good: {task.error}")
        case State.DEAD:
            tried = count(task.attempts, "attempt")
            raise TaskDead(task.id, f"is dead after {tried}: {task.error}")
        case State.CANCELED:
            raise TaskCanceled(task.id, f"was canceled: {task.reason}")
        case _ if task.result_text is None:
            raise ResultNotStored(
                task.id,
                "succeeded without a stored result: store_result=True keeps what its handler"
                " returns, and complete(tx=..., result=...) what it is given",
            )
        case _:
            return task.result

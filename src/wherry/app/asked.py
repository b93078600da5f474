"""Turns what callers pass to an App into checked values, without any I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from wherry.commands.tasks import Filter
from wherry.domain.durations import seconds_from
from wherry.domain.failure import Failure, clean, describe
from wherry.domain.lease import Lease
from wherry.domain.options import TaskSpec
from wherry.domain.outcome import Failed, stored_policy
from wherry.domain.retry import check_own_policy, delay
from wherry.domain.state import State
from wherry.domain.task import Task
from wherry.errors import InvalidOption, ResultNotStored, TaskCanceled, TaskDead, TaskFailed
from wherry.tasks.payload import encode
from wherry.tasks.registry import Registry
from wherry.tasks.task import OPTION_NAMES, Options

# How many tasks one statement of a bulk call touches.
STEP = 500

_NOT_OPTIONS = frozenset({"type", "payload"})


def asked_task(
    registry: Registry,
    type: Any,
    payload: Any,
    options: Mapping[str, Any],
    *,
    index: int | None = None,
) -> tuple[TaskSpec, bool]:
    """Return the checked task and whether to notify; a registered type's options count first."""
    given = {name: value for name, value in options.items() if name not in _NOT_OPTIONS}
    unknown = given.keys() - OPTION_NAMES
    if unknown:
        name = sorted(unknown)[0]
        raise InvalidOption(
            name, given[name], f"no such option; there are {', '.join(sorted(OPTION_NAMES))}",
            index=index,
        )  # fmt: skip
    if "tx" in given and index is not None:
        raise InvalidOption("tx", given["tx"], "is one for the whole batch", index=index)
    if given.get("retry") is not None:
        check_own_policy(given["retry"], index=index)
    known = registry.find(type) if isinstance(type, str) else None
    base = Options() if known is None else known.options
    chosen = replace(base, **{name: value for name, value in given.items() if value is not None})
    return chosen.spec(type, encode(payload, index=index), index=index), chosen.notify


def asked_filter(
    *,
    state: str | Iterable[str] | None,
    queue: str | None,
    type: str | None,
    tag: str | None,
    error: str | None,
    older_than: timedelta | float | None,
) -> Filter:
    """Return the checked filter. Raises InvalidOption for a state that does not exist."""
    names = [state] if isinstance(state, str) else (list(State) if state is None else list(state))
    try:
        states = frozenset(State(name) for name in names)
    except ValueError:
        known = ", ".join(State)
        raise InvalidOption("state", state, f"the states are {known}") from None
    return Filter(
        states=states,
        queue=queue,
        type=type,
        tag=tag,
        error=error,
        older_than_seconds=(
            None if older_than is None else seconds_from(older_than, option="older_than")
        ),
    )


def asked_failure(
    lease: Lease,
    error: BaseException | str,
    *,
    retry: bool,
    after: timedelta | float | None,
) -> Failed:
    """Return the failed attempt to report; its delay is *after*, or what the stored policy says."""
    failure = (
        Failure("Error", clean(error, 8192), "") if isinstance(error, str) else describe(error)
    )
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
            raise TaskDead(task.id, f"is dead after {task.attempts} attempts: {task.error}")
        case State.CANCELED:
            raise TaskCanceled(task.id, f"was canceled: {task.reason}")
        case _ if task.result_text is None:
            raise ResultNotStored(
                task.id, "succeeded without a stored result: its type needs store_result=True"
            )
        case _:
            return task.result

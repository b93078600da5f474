"""How a task is shown: as fields for programs, as a row of a table, and in full for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from wherry.cli.output import Column, Output
from wherry.cli.text import RawJSON, first_line, moment, plain
from wherry.domain.durations import span
from wherry.domain.limits import QueueLimits
from wherry.domain.state import State
from wherry.domain.worker import Directive

if TYPE_CHECKING:
    from wherry.domain.task import Attempt, Page, QueueDepth, Task
    from wherry.domain.worker import WorkerSeen

_TASKS = (
    Column("id", whole=True, right=True),
    Column("state", whole=True),
    Column("queue"),
    Column("type"),
    Column("attempts", whole=True, right=True),
    Column("when"),
    Column("key"),
    Column("last error"),
)
_DEAD = (
    Column("id", whole=True, right=True),
    Column("state", whole=True),
    Column("queue"),
    Column("type"),
    Column("attempts", whole=True, right=True),
    Column("finished", whole=True),
    Column("reason"),
    Column("last error"),
)
_QUEUES = (
    Column("queue"),
    Column("ready", whole=True, right=True),
    Column("delayed", whole=True, right=True),
    Column("parked", whole=True, right=True),
    Column("leased", whole=True, right=True),
    Column("oldest due", whole=True, right=True),
)
_WORKERS = (
    Column("worker"),
    Column("state", whole=True),
    Column("last beat", whole=True),
    Column("host"),
    Column("pid", whole=True, right=True),
    Column("slots", whole=True, right=True),
    Column("memory", whole=True, right=True),
    Column("version"),
    Column("queues"),
    Column("types", whole=True, right=True),
    Column("told to"),
)


def reason(task: Task) -> str | None:
    """Return why a task ended as it did, where that is not plain from its state."""
    if task.reason is not None:
        return task.reason
    if task.state is State.DEAD:
        return f"attempts ran out ({task.attempts} of {task.max_attempts})"
    return "its handler said: do not retry" if task.state is State.FAILED else None


def task_fields(task: Task, *, with_history: bool = False) -> dict[str, Any]:
    """Return a task for JSON; payload and result are the very text that is stored."""
    fields: dict[str, Any] = {
        "id": task.id,
        "queue": task.queue,
        "type": task.type,
        "state": task.state,
        "priority": task.priority,
        "attempts": task.attempts,
        "max_attempts": task.max_attempts,
        "token": task.token,
        "run_after": task.run_after,
        "created_at": task.created_at,
        "started_at": task.started_at,
        "finished_at": task.finished_at,
        "worker": task.worker,
        "lease_expires_at": task.lease_expires_at,
        "cancel_requested_at": task.cancel_requested_at,
        "key": task.key,
        "tags": task.tags,
        "headers": RawJSON(task.headers_text or "{}"),
        "retry": None if task.retry_text is None else RawJSON(task.retry_text),
        "timeout_seconds": task.timeout_seconds,
        "reason": reason(task),
        "error": task.error,
        "payload": RawJSON(task.payload_text),
        "result": None if task.result_text is None else RawJSON(task.result_text),
    }
    if with_history:
        fields["history"] = [asdict(attempt) for attempt in task.history]
    return fields


def show_tasks(out: Output, page: Page, *, dead: bool = False) -> None:
    """Answer with a page of tasks."""
    if out.as_json:
        out.json(
            {
                "tasks": [task_fields(task) for task in page.tasks],
                "after": page.after,
                "before": page.before,
            }
        )
        return
    rows = [_dead_row(task) if dead else _row(task) for task in page.tasks]
    if rows:
        out.table(*_filled(_DEAD if dead else _TASKS, rows))
    else:
        out.note("no tasks")
    if page.after is not None:
        out.note(f"there are more: --after {page.after}")
    if page.before is not None:
        out.note(f"there are newer ones: --before {page.before}")


def show_sample(out: Output, tasks: Iterable[Task]) -> None:
    """Show some tasks as a table for people."""
    out.table(*_filled(_TASKS, [_row(task) for task in tasks]))


def show_queues(out: Output, queues: Sequence[QueueDepth]) -> None:
    """Answer with what each queue holds."""
    if out.as_json:
        out.json({"queues": [asdict(queue) for queue in queues]})
        return
    if not queues:
        out.note("every queue is empty")
        return
    rows = [
        (
            queue.queue,
            *(f"{n:,}" for n in (queue.ready, queue.delayed, queue.parked, queue.leased)),
            "" if queue.oldest_due_seconds is None else span(queue.oldest_due_seconds),
            str(queue.limits or ""),
            _pause(queue),
        )
        for queue in queues
    ]
    columns = (*_QUEUES, Column("limits"), Column("paused"))
    kept = [n for n in range(len(columns)) if n < len(_QUEUES) or any(row[n] for row in rows)]
    out.table([columns[n] for n in kept], [[row[n] for n in kept] for row in rows])


def limit_fields(limits: QueueLimits | None) -> dict[str, Any] | None:
    """Return the limits of a queue for JSON."""
    return None if limits is None else asdict(limits)


def show_workers(out: Output, workers: Sequence[WorkerSeen]) -> None:
    """Answer with the workers, and what they were told."""
    if out.as_json:
        out.json({"workers": [asdict(worker) for worker in workers]})
        return
    if not workers:
        out.note("no worker was heard of in the last day")
        return
    rows: list[tuple[str, ...]] = [
        (
            worker.name,
            "alive" if worker.alive else "silent",
            _ago(worker.beat_at),
            worker.host,
            "" if worker.pid is None else str(worker.pid),
            "" if worker.slots is None else f"{worker.slots:,}",
            "" if worker.memory_bytes is None else f"{worker.memory_bytes / 2**20:,.0f} MiB",
            worker.version or "",
            "*" if worker.queues is None else ", ".join(worker.queues),
            "*" if worker.types is None else f"{len(worker.types):,}",
            _told(worker),
        )
        for worker in workers
    ]
    out.table(*_filled(_WORKERS, rows))


def show_task(out: Output, task: Task) -> None:
    """Answer with everything that is known of one task."""
    if out.as_json:
        out.json(task_fields(task, with_history=True))
        return
    why = reason(task)
    out.line(f"task {task.id}: {task.state}" + (f", {plain(why)}" if why else ""), bold=True)
    known = [(name, value) for name, value in _known(task) if value]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        out.line(f"  {name:<{width}}  {plain(value)}")
    if task.history:
        out.line("attempts that did not succeed", bold=True)
    for attempt in task.history:
        _show_attempt(out, attempt)
    out.line("payload", bold=True)
    out.line(_indented(task.payload_text))
    if task.result_text is not None:
        out.line("result", bold=True)
        out.line(_indented(task.result_text))


def _show_attempt(out: Output, attempt: Attempt) -> None:
    ended = f"{moment(attempt.started_at)} to {moment(attempt.ended_at)}"
    by = f" by {plain(attempt.worker)}" if attempt.worker else ""
    again = f", retry at {moment(attempt.retry_at)}" if attempt.retry_at else ""
    out.line(f"  attempt {attempt.attempt} {attempt.outcome}{by}, {ended}{again}")
    error = ": ".join(part for part in (attempt.error_type, attempt.message) if part)
    if error:
        out.line(_indented(error, by=4))
    if attempt.traceback:
        out.line(_indented(attempt.traceback.rstrip(), by=4))


def _known(task: Task) -> Iterator[tuple[str, str | None]]:
    yield "queue", task.queue
    yield "type", task.type
    yield "key", task.key
    yield "priority", str(task.priority) if task.priority else None
    yield "attempts", f"{task.attempts} of {task.max_attempts}"
    yield "enqueued", moment(task.created_at)
    yield "due", moment(task.run_after) if task.state is State.QUEUED else None
    yield "started", moment(task.started_at)
    yield "finished", moment(task.finished_at)
    yield "worker", task.worker
    yield "lease ends", moment(task.lease_expires_at)
    yield "cancel asked", moment(task.cancel_requested_at)
    yield "timeout", None if task.timeout_seconds is None else f"{task.timeout_seconds:g} s"
    yield "tags", ", ".join(task.tags)
    yield "headers", task.headers_text if task.headers_text != "{}" else None
    yield "last error", first_line(task.error)


def _row(task: Task) -> tuple[str, ...]:
    return (
        *_start(task),
        _when(task),
        task.key or "",
        first_line(task.error),
    )


def _dead_row(task: Task) -> tuple[str, ...]:
    return (*_start(task), _ago(task.finished_at), reason(task) or "", first_line(task.error))


def _start(task: Task) -> tuple[str, ...]:
    attempts = f"{task.attempts}/{task.max_attempts}"
    return str(task.id), str(task.state), task.queue, task.type, attempts


def _when(task: Task) -> str:
    now = datetime.now(UTC)
    match task.state:
        case State.QUEUED if task.run_after > now:
            return f"due in {span(task.run_after - now)}"
        case State.QUEUED:
            return f"due {_ago(task.run_after)}"
        case State.LEASED:
            asked = ", asked to cancel" if task.cancel_requested_at else ""
            return f"with {task.worker}{asked}" if task.worker else f"leased{asked}"
        case _:
            return _ago(task.finished_at)


def _pause(queue: QueueDepth) -> str:
    if queue.paused_at is None:
        return ""
    by = f" by {queue.paused_by}" if queue.paused_by else ""
    why = f": {queue.pause_reason}" if queue.pause_reason else ""
    return f"{_ago(queue.paused_at)}{by}{why}"


def _told(worker: WorkerSeen) -> str:
    if worker.directive is Directive.NONE:
        return ""
    by = f" by {worker.directed_by}" if worker.directed_by else ""
    why = f": {worker.directive_reason}" if worker.directive_reason else ""
    return f"{worker.directive}{by}{why}"


def _ago(instant: datetime | None) -> str:
    return "" if instant is None else f"{span(datetime.now(UTC) - instant)} ago"


def _indented(text: str, *, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in plain(text, lines=True).splitlines())


def _filled(
    columns: Sequence[Column], rows: list[tuple[str, ...]]
) -> tuple[list[Column], list[list[str]]]:
    """Leave out the columns that would be empty in every row."""
    kept = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]

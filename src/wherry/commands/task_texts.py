"""How tasks are written into the parameters of the statements that store them.

A payload is JSON text already and goes in as it is; nothing here looks into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from wherry.domain.options import TaskSpec
from wherry.domain.specs import Alike
from wherry.errors import InvalidTask

# Payloads of more characters stand apart from their tasks, where settings.payloads_apart allows it.
# PostgreSQL would put them out of line in any case, and copy them when the task ends.
LARGE_PAYLOAD_CHARACTERS = 2_000

# PostgreSQL takes a message of less than a gibibyte. Where one is longer it ends the session, and
# with it the caller's transaction, after the whole of it has been sent.
MOST_BYTES_AT_ONCE = 1_000_000_000

# What the next task of a run has to have in common with the first: all but what stands last.
_common = itemgetter(slice(0, TaskSpec._fields.index("key_ttl_seconds")))

_payload = itemgetter(TaskSpec._fields.index("payload"))


@dataclass(frozen=True, slots=True)
class Look:
    """How a key's row was seen: its stamp (None: it was gone), and if its task has it still."""

    stamp: int | None
    taken: bool
    id: int | None


def any_large(specs: Iterable[TaskSpec]) -> bool:
    """Whether any of these has a payload that is to stand apart."""
    return has_large(map(_payload, specs))


def are_plain(specs: Sequence[TaskSpec]) -> bool:
    """Whether none of these has a key or a large payload."""
    if len(specs) == 1:
        return specs[0].key is None and len(specs[0].payload) <= LARGE_PAYLOAD_CHARACTERS
    return not any_large(specs) and all(spec.key is None for spec in specs)


def has_large(payloads: Iterable[str]) -> bool:
    """Whether any of these payloads is to stand apart."""
    return max(map(len, payloads), default=0) > LARGE_PAYLOAD_CHARACTERS


def flag_text(flag: bool) -> str:
    """A yes or no."""
    return "true" if flag else "false"


def one_params(
    spec: TaskSpec, id: int | None, *, token: int, notify: bool
) -> dict[str, str | None]:
    """All that enqueue_one.sql takes."""
    params = _common_params(spec, id, token=token, notify=notify)
    params["payload"] = spec.payload
    return params


def alike_params(
    alike: Alike, ids: Sequence[int], *, token: int, notify: bool
) -> dict[str, str | None]:
    """All that enqueue_alike.sql takes; the ids follow one another."""
    params = _common_params(alike.like, ids[0], token=token, notify=notify)
    params["n"] = str(len(alike.payloads))
    params["payloads"] = f"[{','.join(alike.payloads)}]"
    return params


def _common_params(
    spec: TaskSpec, id: int | None, *, token: int, notify: bool
) -> dict[str, str | None]:
    delay, run_after, retry = spec.delay_seconds, spec.run_after, spec.retry
    timeout, ttl, tags, headers = spec.timeout_seconds, spec.ttl_seconds, spec.tags, spec.headers
    return {
        "id": None if id is None else str(id),
        "token": str(token),
        "queue": spec.queue,
        "type": spec.type,
        "priority": str(spec.priority),
        "delay_seconds": None if delay is None else repr(delay),
        "run_after": None if run_after is None else run_after.isoformat(),
        "max_attempts": str(spec.max_attempts),
        "retry": None if retry is None else json.dumps(retry),
        "timeout_seconds": None if timeout is None else repr(timeout),
        "ttl_seconds": None if ttl is None else repr(ttl),
        "tags": array_text(tags) if tags else None,
        "headers": json.dumps(headers) if headers else None,
        "notify": flag_text(notify),
    }


def array_text(texts: Sequence[str]) -> str:
    """The texts as PostgreSQL writes an array; in quotes, nothing but these two is special."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def task_text(spec: TaskSpec, id: int | None, look: Look | None) -> str:
    """One element of the array that enqueue_tasks.sql takes."""
    said = _options(spec)
    if id is not None:
        said["id"] = id
    if spec.key is not None:
        said["key"] = spec.key
        said["key_ttl_seconds"] = spec.key_ttl_seconds
        if look is not None:
            said["seen_stamp"] = look.stamp
            said["seen_taken"] = look.taken
    return f'{json.dumps(said)[:-1]}, "payload": {spec.payload}}}'


def runs_params(
    specs: Sequence[TaskSpec], ids: Sequence[int] | None, *, token: int, notify: bool
) -> dict[str, str]:
    """All that enqueue_without_keys.sql takes."""
    drawn = ids or (None,) * len(specs)
    runs = groupby(zip(specs, drawn, strict=True), key=lambda task: _common(task[0]))
    texts = (_run_text(list(run)) for _, run in runs)
    return {
        "tasks": array_of(texts),
        "token": str(token),
        "notify": flag_text(notify),
    }


def array_of(texts: Iterable[str]) -> str:
    """Return a JSON array of what is JSON already. Raises InvalidTask if it is too long to send."""
    text = f"[{','.join(texts)}]"
    # A character takes four bytes at most; to count them takes as long as to send them.
    if len(text) > MOST_BYTES_AT_ONCE // 4 and (size := len(text.encode())) > MOST_BYTES_AT_ONCE:
        raise InvalidTask(
            f"these tasks take {size:,} bytes together; the limit of one call is"
            f" {MOST_BYTES_AT_ONCE:,}: make several"
        )
    return text


def _run_text(run: list[tuple[TaskSpec, int | None]]) -> str:
    """One element of the array of runs: what a run has in common is said once."""
    said = _options(run[0][0])
    said["n"] = len(run)
    if run[0][1] is not None:
        said["ids"] = [id_ for _, id_ in run]
    payloads = ",".join(spec.payload for spec, _ in run)
    return f'{json.dumps(said)[:-1]}, "payloads": [{payloads}]}}'


def _options(spec: TaskSpec) -> dict[str, Any]:
    said: dict[str, Any] = {
        "queue": spec.queue,
        "type": spec.type,
        "priority": spec.priority,
        "max_attempts": spec.max_attempts,
    }
    if spec.delay_seconds is not None:
        said["delay_seconds"] = spec.delay_seconds
    if spec.run_after is not None:
        said["run_after"] = spec.run_after.isoformat()
    if spec.timeout_seconds is not None:
        said["timeout_seconds"] = spec.timeout_seconds
    if spec.ttl_seconds is not None:
        said["ttl_seconds"] = spec.ttl_seconds
    if spec.retry is not None:
        said["retry"] = spec.retry
    if spec.tags:
        said["tags"] = spec.tags
    if spec.headers:
        said["headers"] = spec.headers
    return said

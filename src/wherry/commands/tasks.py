"""Enqueue, read, cancel, requeue and purge tasks.

Everything about keys is decided in enqueue_tasks.sql, in one statement; only a key whose task has
finished takes a second look, since reading the finished partitions would slow every other enqueue.
Most tasks have no key: where none of a call has one, enqueue_without_keys.sql stores them for less,
and enqueue_one.sql a single one. Those two are for tasks that nobody has sent before, and whose
payloads are not large.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from wherry.commands.base import Answer, Command, Statement
from wherry.commands.task_texts import (
    Look,
    any_large,
    are_plain,
    array_of,
    flag_text,
    one_params,
    runs_params,
    task_text,
)
from wherry.config import PAYLOAD_LIMIT_BYTES
from wherry.domain.options import TaskSpec
from wherry.domain.task import (
    Attempt,
    Canceled,
    Enqueued,
    Purged,
    RequeueAnswer,
    Requeued,
    ResultReader,
    Task,
)

# A takeover can be lost to another one as long as others keep taking the same key over. The last
# round takes what the key names then.
_KEY_ROUNDS = 6

# Each payload that is changed is read and written, up to a megabyte; a statement, and the
# transaction that locks what it changes, ends in time.
MERGED_AT_ONCE = 50


def new_token() -> int:
    """Return the number with which the tokens of a call's tasks begin, which no other call knows.

    It leaves room for more leases than a task can have had before the call is sent again.
    """
    return (secrets.randbits(31) + 1) << 16


@dataclass(frozen=True, slots=True)
class DrawTaskIds(Command[list[int]]):
    """Draw ids ahead, so that an enqueue can be sent again as the same tasks."""

    n: int

    @property
    def brief(self) -> bool:
        return True

    def answer(self) -> Answer[list[int]]:
        params = {"n": str(self.n)}
        [[text]] = yield Statement("tasks/draw_task_ids", params, only_text=True)
        ids: list[int] = json.loads(text)
        return ids


@dataclass(frozen=True, slots=True)
class EnqueueTasks(Command[list[Enqueued]]):
    """Store tasks, all or none, and answer in their order.

    With `ids` (one for each task, drawn ahead) the command can be repeated after a lost answer; by
    its `token` (see `new_token`) it tells its own tasks from others. Without, it runs on a caller's
    connection, where the caller's transaction decides.
    """

    specs: tuple[TaskSpec, ...]
    ids: tuple[int, ...] | None = None
    token: int = 0
    notify: bool = True
    resent: bool = False
    # Who is asked for their results.
    reader: ResultReader | None = None

    @property
    def atomic(self) -> bool:
        # What is stored is stored by one statement, whose answer is that no key needs a look.
        return self.resent

    @property
    def brief(self) -> bool:
        return len(self.specs) == 1

    def again(self) -> EnqueueTasks:
        return replace(self, resent=True)

    def answer(self) -> Answer[list[Enqueued]]:
        if self.resent or not are_plain(self.specs):
            answers = yield from self._with_keys()
        elif len(self.specs) == 1:
            answers = yield from self._one()
        else:
            answers = yield from self._without_keys()
        if self.resent and self.ids is not None:
            yield Statement("tasks/settle_resent", {"ids": list(self.ids), "token": self.token})
        return answers

    def _one(self) -> Answer[list[Enqueued]]:
        drawn = self.ids[0] if self.ids is not None else None
        params = one_params(self.specs[0], drawn, token=self.token, notify=self.notify)
        [[id_, _woken]] = yield Statement("tasks/enqueue_one", params, only_text=True)
        return [Enqueued(int(id_), True, None)]

    def _without_keys(self) -> Answer[list[Enqueued]]:
        params = runs_params(self.specs, self.ids, token=self.token, notify=self.notify)
        [[text, _woken]] = yield Statement("tasks/enqueue_without_keys", params, only_text=True)
        ids = json.loads(text) if self.ids is None else self.ids
        return [Enqueued(id_, True, None) for id_ in ids]

    def _with_keys(self) -> Answer[list[Enqueued]]:
        ids = self.ids or (None,) * len(self.specs)
        large = flag_text(any_large(self.specs))
        looks: dict[tuple[str, str], Look] = {}
        answers: list[Enqueued] = []
        for left in reversed(range(_KEY_ROUNDS)):
            texts = (
                task_text(spec, id_, looks.get((spec.queue, spec.key or "")))
                for spec, id_ in zip(self.specs, ids, strict=True)
            )
            [[text, _woken, strange]] = yield Statement(
                "tasks/enqueue_tasks",
                {
                    "tasks": array_of(texts),
                    "token": str(self.token),
                    "notify": flag_text(self.notify),
                    "last": flag_text(left == 0),
                    "resent": flag_text(self.resent),
                    "large": large,
                },
                only_text=True,
            )
            if int(strange):
                # The database has gone back in time since these were drawn: it draws others.
                return (yield from replace(self, ids=None)._with_keys())
            rows: list[tuple[int, bool, bool | None, bool]] = json.loads(text)
            answers = [
                Enqueued(id_, created, matches, self.reader) for id_, created, matches, _ in rows
            ]
            ended = {
                (spec.queue, spec.key or ""): id_
                for spec, (id_, _, _, has_ended) in zip(self.specs, rows, strict=True)
                if has_ended
            }
            if not ended:
                break
            # Nothing was stored: whether these keys may be used again needs a look first.
            found = yield from _look_at_keys(sorted(ended))
            looks |= found
            # By the very task that was answered: another may have taken the key over in between.
            taken = all(look.taken and look.id == ended[name] for name, look in found.items())
            if taken and not any(answer.created for answer in answers):
                # There is nothing to store then.
                break
        return answers


def _look_at_keys(names: list[tuple[str, str]]) -> Answer[dict[tuple[str, str], Look]]:
    asked = json.dumps([{"queue": queue, "key": key} for queue, key in names])
    [[text]] = yield Statement("tasks/resolve_keys", {"names": asked})
    return {name: Look(*row) for name, row in zip(names, json.loads(text), strict=True)}


@dataclass(frozen=True, slots=True)
class GetTask(Command[Task | None]):
    """Read one task, by id or by queue and key, with its history or without."""

    id: int | None = None
    with_history: bool = True
    queue: str | None = None
    key: str | None = None

    @property
    def brief(self) -> bool:
        return True

    def answer(self) -> Answer[Task | None]:
        id_ = self.id
        if id_ is None:
            name = {"queue": self.queue, "key": self.key}
            found = yield Statement("tasks/find_task_by_key", name)
            if not found:
                return None
            [[id_]] = found
        rows = yield Statement("tasks/get_tasks", {"ids": [id_]})
        if not rows:
            return None
        task = Task.of_row(rows[0])
        if not self.with_history:
            return task
        history = yield Statement("tasks/list_attempts", {"ids": [id_]})
        return replace(task, history=tuple(Attempt(*row[1:]) for row in history))


@dataclass(frozen=True, slots=True)
class QueuesOf(Command[list[str | None]]):
    """Tell in which queue each task is, live or finished; None for an id that names no task."""

    ids: tuple[int, ...]

    def answer(self) -> Answer[list[str | None]]:
        rows = yield Statement("tasks/queues_of", {"ids": list(self.ids)})
        queues: dict[int, str] = dict(rows)
        return [queues.get(id_) for id_ in self.ids]


@dataclass(frozen=True, slots=True)
class CancelTasks(Command[list[Canceled]]):
    """Cancel queued tasks, ask the workers of leased ones to let go; answers in order of `ids`."""

    ids: tuple[int, ...]
    reason: str | None = None

    @property
    def brief(self) -> bool:
        return len(self.ids) == 1

    def answer(self) -> Answer[list[Canceled]]:
        rows = yield Statement("tasks/cancel_tasks", {"ids": list(self.ids), "reason": self.reason})
        answers = {id_: Canceled(answer) for id_, answer in rows}
        known = yield from known_ids(self.ids, answers)
        answers |= {id_: Canceled.FINAL if k else Canceled.UNKNOWN for id_, k in known.items()}
        return [answers[id_] for id_ in self.ids]


@dataclass(frozen=True, slots=True)
class RequeueTasks(Command[list[Requeued]]):
    """Put finished tasks back; answers in the order of `ids`.

    The first waits for `delay_seconds`; with `per_second` no more of them than that become ready in
    a second, the oldest first. What they wait does not count for their ttl. With `to_queue` they go
    into that queue with their history, and without their keys: a key is of one queue.
    `merge_payload` is a JSON merge patch (RFC 7396; text of an object that was checked): it is
    merged into each payload by the statement that puts its task back, for MERGED_AT_ONCE at most.
    """

    ids: tuple[int, ...]
    without_key: bool = False
    delay_seconds: float = 0.0
    per_second: float | None = None
    to_queue: str | None = None
    merge_payload: str | None = None

    @property
    def brief(self) -> bool:
        return len(self.ids) == 1

    def answer(self) -> Answer[list[Requeued]]:
        rows = yield Statement(
            "tasks/requeue_tasks",
            {
                "ids": list(self.ids),
                "without_key": self.without_key or self.to_queue is not None,
                "delay_seconds": self.delay_seconds,
                "step_seconds": 0.0 if self.per_second is None else 1 / self.per_second,
                "to_queue": self.to_queue,
                "merge_payload": self.merge_payload,
                "limit_bytes": PAYLOAD_LIMIT_BYTES,
            },
        )
        answers = {
            id_: Requeued(id_, RequeueAnswer(answer), key, taken_by)
            for id_, answer, taken_by, key, _woken in rows
        }
        known = yield from known_ids(self.ids, answers)
        # A finished row that was locked is being requeued or purged by somebody else.
        left = {True: RequeueAnswer.NOT_FINAL, False: RequeueAnswer.UNKNOWN}
        answers |= {id_: Requeued(id_, left[is_known]) for id_, is_known in known.items()}
        return [answers[id_] for id_ in self.ids]


@dataclass(frozen=True, slots=True)
class PurgeTasks(Command[list[Purged]]):
    """Delete finished tasks with their history and keys; answers in the order of `ids`."""

    ids: tuple[int, ...]

    @property
    def brief(self) -> bool:
        return len(self.ids) == 1

    def answer(self) -> Answer[list[Purged]]:
        rows = yield Statement("tasks/purge_tasks", {"ids": list(self.ids)})
        answers = {id_: Purged.PURGED for (id_,) in rows}
        known = yield from known_ids(self.ids, answers)
        answers |= {id_: Purged.NOT_FINAL if k else Purged.UNKNOWN for id_, k in known.items()}
        return [answers[id_] for id_ in self.ids]


def known_ids(ids: tuple[int, ...], answers: Mapping[int, object]) -> Answer[dict[int, bool]]:
    """Tell of the ids that have no answer whether they name a task at all."""
    missing = [id_ for id_ in ids if id_ not in answers]
    if not missing:
        return {}
    rows = yield Statement("tasks/list_known_ids", {"ids": missing})
    known = {id_ for (id_,) in rows}
    return {id_: id_ in known for id_ in missing}

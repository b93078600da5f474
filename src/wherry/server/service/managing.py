"""Change tasks and workers: what an operator does, and what the audit keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from wherry.app.asked import STEP, asked_ids, asked_patch_text, asked_reason, asked_requeue
from wherry.commands.audit import Actor, audited
from wherry.commands.base import Command
from wherry.commands.previewing import Preview, PreviewRequeue
from wherry.commands.tasks import (
    MERGED_AT_ONCE,
    CancelTasks,
    PurgeTasks,
    QueuesOf,
    RequeueTasks,
)
from wherry.commands.workers import DirectWorkers
from wherry.domain.durations import Duration
from wherry.domain.filter import NARROWING
from wherry.domain.options import check_id, check_integer, check_name
from wherry.domain.state import FINAL, State
from wherry.domain.task import Canceled, Purged, Replanned, RequeueAnswer, Requeued
from wherry.domain.worker import Directive
from wherry.errors import InvalidOption, KeyTaken, NotFound
from wherry.server.caller import Caller, Right
from wherry.server.service.base import Base, require_right
from wherry.server.service.reading import require_filter
from wherry.server.service.values import Change, Changed

R = TypeVar("R")

_LIVE: Final = tuple(str(state) for state in State if state not in FINAL)
_ENDED: Final = tuple(str(state) for state in State if state in FINAL)


@dataclass(frozen=True, slots=True)
class Verb:
    """One bulk verb: which states it is about, its command, and how its answers are told."""

    states: tuple[str, ...]
    command: Callable[[tuple[int, ...]], Command[list[Any]]]
    unknown: Canceled | RequeueAnswer | Purged | Replanned
    # What one has to have the right to in the tasks' queues, beside `admin`.
    also: Right | None = None


class Managing(Base):
    """The verbs that need the right `admin`."""

    async def cancel_task(self, caller: Caller, *, id: int, reason: str | None = None) -> Canceled:
        """Cancel one task: at once if it is queued, else its worker is told."""
        verb = _canceling(asked_reason(reason))
        change = await self._change_one(caller, verb, id, reason=reason)
        return Canceled(change.answer)

    async def requeue_task(
        self, caller: Caller, *, id: int, without_key: bool = False, reason: str | None = None
    ) -> Requeued:
        """Put one finished task back. Raises KeyTaken if its key names another one meanwhile."""
        verb = _requeuing(
            asked_requeue(
                without_key=without_key,
                delay=0.0,
                per_second=None,
                to_queue=None,
                merge_payload=None,
            )
        )
        change = await self._change_one(caller, verb, id, reason=reason)
        if change.answer is RequeueAnswer.KEY_TAKEN:
            raise KeyTaken(id, key=change.key or "", taken_by=change.taken_by or 0)
        return Requeued(id, RequeueAnswer(change.answer), change.key, change.taken_by)

    async def cancel_tasks(
        self,
        caller: Caller,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        limit: int = 500,
        after: int | None = None,
    ) -> Changed:
        """Cancel the tasks that are named, or one page of those that match, in one transaction."""
        verb = _canceling(asked_reason(reason))
        return await self._change(
            caller,
            verb,
            ids=ids,
            filter=filter,
            dry_run=dry_run,
            reason=reason,
            limit=limit,
            after=after,
        )

    async def requeue_tasks(
        self,
        caller: Caller,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        limit: int | None = None,
        after: int | None = None,
        without_key: bool = False,
        delay: Duration = 0.0,
        per_second: float | None = None,
        to_queue: str | None = None,
        merge_payload_text: str | None = None,
    ) -> Changed:
        """Put back the finished tasks that are named, or one page of those that match.

        The first waits for *delay*; with *per_second* no more than that become ready in a second.
        With *to_queue*, into which the caller has to have the right `enqueue`, they go there.
        *merge_payload_text*, a JSON merge patch, changes each payload: who says what a queue's
        tasks hold has to have the right `enqueue` there. Of those a call has 50 at most, since it
        is one transaction that reads and writes them all; *limit* is as many then, else 500.
        """
        require_right(caller, Right.ADMIN)
        most, patch = STEP, None
        if merge_payload_text is not None:
            most = min(MERGED_AT_ONCE, self.settings.batch_limit)
            self.refuse_too_many(ids or (), of="ids with merge_payload", most=most)
            if limit is not None and limit > most:
                told = f"must be at most {most} with merge_payload: ask page by page"
                raise InvalidOption("limit", limit, told)
            patch = asked_patch_text(merge_payload_text)
        asked = asked_requeue(
            without_key=without_key,
            delay=delay,
            per_second=per_second,
            to_queue=to_queue,
            merge_payload=patch,
        )
        if asked.to_queue is not None:
            caller.require(Right.ENQUEUE, asked.to_queue)
        verb = _requeuing(asked)
        return await self._change(
            caller,
            verb,
            ids=ids,
            filter=filter,
            dry_run=dry_run,
            reason=reason,
            limit=most if limit is None else limit,
            after=after,
        )

    async def preview_requeue(
        self, caller: Caller, *, id: int, merge_payload_text: str, to_queue: str | None = None
    ) -> Preview:
        """Show what *merge_payload_text* would make of the payload of a task that has ended.

        To who may do so: it takes the rights of `requeue_tasks`.
        """
        require_right(caller, Right.ADMIN)
        patch = asked_patch_text(merge_payload_text)
        found = await self.app.acarry(PreviewRequeue(check_id(id), patch), call="change")
        if found is None or not caller.may(Right.READ, found.queue):
            raise NotFound(id)
        caller.require(Right.ADMIN, found.queue)
        into = found.queue if to_queue is None else check_name(to_queue, option="to_queue")
        caller.require(Right.ENQUEUE, into)
        return found

    async def purge_tasks(
        self,
        caller: Caller,
        *,
        ids: Sequence[int] | None = None,
        filter: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        limit: int = 500,
        after: int | None = None,
    ) -> Changed:
        """Delete the finished tasks that are named, or one page of those that match."""
        verb = Verb(_ENDED, PurgeTasks, Purged.UNKNOWN)
        return await self._change(
            caller,
            verb,
            ids=ids,
            filter=filter,
            dry_run=dry_run,
            reason=reason,
            limit=limit,
            after=after,
        )

    async def direct_workers(
        self,
        caller: Caller,
        *,
        names: Sequence[str],
        directive: Directive,
        reason: str | None = None,
    ) -> int:
        """Tell workers to drain, to stop, or to go on; answers how many will hear of it."""
        caller.require(Right.ADMIN, None)
        self.refuse_too_many(names, of="names")
        if not names:
            raise InvalidOption("names", list(names), "name at least one worker")
        asked = tuple(check_name(name, option=f"names[{n}]") for n, name in enumerate(names))
        why = asked_reason(reason)
        command = DirectWorkers(asked, Directive(directive), caller.name, why)
        told = await self._audited(caller, command, reason=why)
        self.desk.ask_directives()
        return told

    async def _change_one(
        self, caller: Caller, verb: Verb, id: int, *, reason: str | None
    ) -> Change:
        require_right(caller, Right.ADMIN)
        queue = (await self._queues_of([check_id(id)])).get(id)
        if queue is None or not (caller.may(Right.ADMIN, queue) or caller.may(Right.READ, queue)):
            raise NotFound(id)
        caller.require(Right.ADMIN, queue)
        [change] = await self._apply(caller, verb, [id], reason=asked_reason(reason))
        if change.answer is verb.unknown:
            raise NotFound(id)
        return change

    async def _change(
        self,
        caller: Caller,
        verb: Verb,
        *,
        ids: Sequence[int] | None,
        filter: Mapping[str, Any] | None,
        dry_run: bool,
        reason: str | None,
        limit: int,
        after: int | None,
    ) -> Changed:
        require_right(caller, Right.ADMIN)
        why = asked_reason(reason)
        if ids is not None:
            if filter is not None:
                raise InvalidOption("filter", dict(filter), "give ids or a filter, not both")
            self.refuse_too_many(ids, of="ids")
            return await self._change_named(
                caller, verb, list(dict.fromkeys(asked_ids(ids))), dry_run=dry_run, reason=why
            )
        given = dict(filter or {})
        if not any(given.get(name) is not None for name in NARROWING):
            text = f"must narrow by more than states: by {', '.join(NARROWING)}"
            raise InvalidOption("filter", given, text)
        require_filter(caller, Right.ADMIN, given.get("queue"))
        asked = given.pop("state", None)
        if verb.also is not None:
            require_filter(caller, verb.also, given.get("queue"))
        states = verb.states if not asked else [asked] if isinstance(asked, str) else list(asked)
        wrong = next((state for state in states if state not in verb.states), None)
        if wrong is not None:
            raise InvalidOption("state", wrong, f"choose among {', '.join(verb.states)}")
        narrowed: dict[str, Any] = {"state": states, **given}
        most = self.settings.batch_limit
        check_integer(limit, option="limit", least=1, most=most)
        page = await self.app.alist_tasks(limit=limit, after=after, **narrowed)
        found = [task.id for task in page.tasks]
        changes: list[Change] = []
        if found and not dry_run:
            changes = await self._apply(caller, verb, found, reason=why, filter=_shown(narrowed))
        return Changed(len(found), changes, page.after)

    async def _change_named(
        self, caller: Caller, verb: Verb, ids: list[int], *, dry_run: bool, reason: str | None
    ) -> Changed:
        queues = await self._queues_of(ids)
        # Of the tasks of other people's queues nothing is told, not even that they are there.
        mine = [id for id in ids if id in queues and caller.may(Right.ADMIN, queues[id])]
        if verb.also is not None:
            for queue in {queues[id]: None for id in mine}:
                caller.require(verb.also, queue)
        if dry_run:
            return Changed(len(mine), [])
        changed = await self._apply(caller, verb, mine, reason=reason) if mine else []
        answers = {change.id: change for change in changed}
        changes = [answers.get(id, Change(id, verb.unknown)) for id in ids]
        return Changed(len(mine), changes)

    async def _apply(
        self,
        caller: Caller,
        verb: Verb,
        ids: Sequence[int],
        *,
        reason: str | None,
        **target: Any,
    ) -> list[Change]:
        """Change tasks in one transaction, with one line in the audit."""
        command = verb.command(tuple(ids))
        answers = await self._audited(caller, command, reason=reason, **target)
        return [_change_of(id, answer) for id, answer in zip(ids, answers, strict=True)]

    async def _queues_of(self, ids: Sequence[int]) -> dict[int, str]:
        found = await self.app.acarry(QueuesOf(tuple(ids)), call="change")
        return {id: queue for id, queue in zip(ids, found, strict=True) if queue is not None}

    async def _audited(
        self, caller: Caller, command: Command[R], *, reason: str | None, **target: Any
    ) -> R:
        actor = Actor(caller.name, caller.peer or None, reason)
        return await self.app.acarry(audited(command, actor, **target), call="change")


def _canceling(reason: str | None) -> Verb:
    return Verb(_LIVE, lambda ids: CancelTasks(ids, reason), Canceled.UNKNOWN)


def _requeuing(asked: RequeueTasks) -> Verb:
    changed_here = asked.merge_payload is not None and asked.to_queue is None
    return Verb(
        _ENDED,
        lambda ids: replace(asked, ids=ids),
        RequeueAnswer.UNKNOWN,
        Right.ENQUEUE if changed_here else None,
    )


def _change_of(id: int, answer: Any) -> Change:
    if isinstance(answer, Requeued):
        return Change(id, answer.answer, answer.key, answer.taken_by)
    return Change(id, answer)


def _shown(filter: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter as the audit writes it."""
    return {
        name: value.total_seconds()
        if isinstance(value, timedelta)
        else value.isoformat()
        if isinstance(value, datetime)
        else value
        for name, value in filter.items()
        if value is not None
    }

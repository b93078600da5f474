"""What a change would make of one task, shown before it is done to many.

Whoever changes payloads sees one before and after, by the same statement's rules, and confirms
what was seen: another patch than that is shown first, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from wherry.commands.previewing import Preview
from wherry.domain.task import RequeueAnswer
from wherry.errors import NotFound, TimedOut
from wherry.server.dashboard.asking import Question, Visit
from wherry.server.dashboard.bulks import Bulk, patch_of
from wherry.server.dashboard.json_text import Text, parted

SEEN: Final = "seen"
_MOST_SHOWN: Final = 4_000
_MOST_TRIED: Final = 20
_FIND_WITHIN: Final = timedelta(seconds=3)
_LEFT: Final = {
    RequeueAnswer.NO_OBJECT: "its payload is no JSON object: it would be left alone",
    RequeueAnswer.TOO_LARGE: "its payload would be too large: it would be left alone",
}


def is_unseen(visit: Visit, bulk: Bulk) -> bool:
    """Say whether there is a patch of which its sender has not seen what it does."""
    return has_patch(visit, bulk) and visit.form.get(SEEN) != _mark(patch_of(visit))


def has_patch(visit: Visit, bulk: Bulk) -> bool:
    """Say whether payloads are to be changed. Raises InvalidOption."""
    return bulk.preview is not None and bool(patch_of(visit))


async def newest(visit: Visit, filter: Mapping[str, Any]) -> list[int]:
    """Return the newest task that a filter finds, or none if that takes too long."""
    try:
        page = await visit.service.list_tasks(visit.caller, limit=1, timeout=_FIND_WITHIN, **filter)
    except TimedOut:
        return []
    return [task.id for task in page.tasks]


async def with_preview(
    visit: Visit, bulk: Bulk, question: Question, ids: Sequence[int]
) -> Question:
    """Return the question once more, as it was answered, with what becomes of one of the tasks."""
    fields = tuple(
        replace(field, value=visit.form.get(field.name, field.value)) for field in question.fields
    )
    again = replace(question, fields=fields, kept=(*question.kept, (SEEN, _mark(patch_of(visit)))))
    found = await _first(visit, bulk, ids)
    if found is None:
        facts = (*question.facts, ("Payloads", "no task was found that one could be shown of"))
        return replace(again, facts=facts)
    said = _LEFT.get(found.answer)
    if said:
        again = replace(again, facts=(*question.facts, (f"Task {found.id}", said)))
    looks = [await _look(visit, f"Payload of task {found.id} as it is", found.before)]
    if found.after is not None:
        looks.append(await _look(visit, f"Payload of task {found.id} as it would be", found.after))
    return replace(again, looks=tuple(looks))


async def _first(visit: Visit, bulk: Bulk, ids: Sequence[int]) -> Preview | None:
    """Look at the first of these tasks that has ended."""
    for id in ids[:_MOST_TRIED]:
        if bulk.preview is not None:
            with suppress(NotFound):
                return await bulk.preview(visit, id)
    return None


async def _look(visit: Visit, title: str, text: str) -> tuple[str, Text]:
    return title, parted(await visit.json(text, of="payload"), most=_MOST_SHOWN)


def _mark(patch: str) -> str:
    return sha256(patch.encode(errors="surrogatepass")).hexdigest()[:32]

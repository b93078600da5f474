"""What can be done to many tasks: each with its words, its question and its verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wherry.commands.previewing import Preview
from wherry.domain.durations import length_of
from wherry.domain.state import FINAL, State
from wherry.errors import InvalidOption
from wherry.server.dashboard.asking import Field, Visit
from wherry.server.dashboard.pages.task_actions import reason_of
from wherry.server.dashboard.wanted import moment
from wherry.server.service.values import Changed

_LIVE: Final = frozenset(State) - FINAL
_QUEUED: Final = frozenset({State.QUEUED})
# As of a payload that is edited: a character has up to twelve bytes in a form.
_LONGEST_PATCH: Final = 20_000
_RATES: Final = (
    ("", "All at once"),
    ("0.2", "12 a minute"),
    ("1", "1 a second"),
    ("10", "10 a second"),
    ("50", "50 a second"),
    ("200", "200 a second"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """Something that can be done to many tasks.

    `states` are those that it is about; `call` does it to one page, or to the tasks that are named;
    it is told how many were done before. Of tasks that have ended the question has a field for
    when they had to end, so that what dies meanwhile is left alone.
    """

    path: str
    word: str
    past: str
    drawing: str
    states: frozenset[State]
    text: str
    call: Callable[..., Awaitable[Changed]]
    danger: bool = False
    fields: tuple[Field, ...] = ()
    # What it would make of one task, if there is something to be seen before it is done.
    preview: Callable[[Visit, int], Awaitable[Preview]] | None = None
    # Whether the tasks are gone then, so that nobody can be led back to one.
    deletes: bool = False

    @property
    def until(self) -> str:
        """The field of a filter by which what comes after the question is left alone."""
        return "finished_before" if self.states <= FINAL else "created_before"

    def fits(self, states: Sequence[State]) -> bool:
        """Whether it is about any of these."""
        return not self.states.isdisjoint(states)


async def _cancel(visit: Visit, _done: int, **which: Any) -> Changed:
    return await visit.service.cancel_tasks(visit.caller, reason=reason_of(visit), **which)


async def _requeue(visit: Visit, done: int, **which: Any) -> Changed:
    given = visit.form.get("per_second", "")
    if given not in dict(_RATES):
        raise InvalidOption("per_second", given, "choose one of those that are offered")
    per_second = float(given) if given else None
    # A page begins where those before it end; the time that is gone meanwhile is a little slack.
    delay = 0.0 if per_second is None else done / per_second
    return await visit.service.requeue_tasks(
        visit.caller,
        reason=reason_of(visit),
        without_key=visit.form.get("without_key") == "yes",
        delay=delay,
        per_second=per_second,
        to_queue=visit.form.get("to_queue") or None,
        merge_payload_text=patch_of(visit) or None,
        **which,
    )


def patch_of(visit: Visit) -> str:
    """Return the merge patch of a form, empty if there is none. Raises InvalidOption."""
    patch = visit.form.get("merge_payload", "").replace("\r\n", "\n").strip()
    if len(patch) > _LONGEST_PATCH:
        told = f"is too long for this page (more than {_LONGEST_PATCH:,} characters)"
        raise InvalidOption("merge_payload", "…", f"{told}: use wherry tasks requeue")
    return patch


async def _preview(visit: Visit, id: int) -> Preview:
    return await visit.service.preview_requeue(
        visit.caller,
        id=id,
        merge_payload_text=patch_of(visit),
        to_queue=visit.form.get("to_queue") or None,
    )


async def _purge(visit: Visit, _done: int, **which: Any) -> Changed:
    return await visit.service.purge_tasks(visit.caller, reason=reason_of(visit), **which)


async def _reprioritize(visit: Visit, _done: int, **which: Any) -> Changed:
    given = visit.form.get("priority", "").strip()
    try:
        priority = int(given)
    except ValueError:
        raise InvalidOption("priority", given, "say a number from -100 to 100") from None
    return await visit.service.reprioritize_tasks(
        visit.caller, priority=priority, reason=reason_of(visit), **which
    )


async def _reschedule(visit: Visit, _done: int, **which: Any) -> Changed:
    given = visit.form.get("when", "").strip()
    try:
        delay = length_of(given)
    except OverflowError:
        raise InvalidOption("when", given, "that is longer than can be counted") from None
    run_after = moment("when", given) if delay is None else None
    return await visit.service.reschedule_tasks(
        visit.caller, run_after=run_after, delay=delay, reason=reason_of(visit), **which
    )


BULKS: Final = (
    Bulk(
        path="tasks-reprioritize",
        word="Reprioritize",
        past="given another priority",
        drawing="up",
        states=_QUEUED,
        text="They stand behind those that have the priority already; what runs is left alone.",
        call=_reprioritize,
        fields=(
            Field(
                "priority",
                "Priority",
                value="0",
                hint="From -100 to 100: the highest is leased first.",
            ),
        ),
    ),
    Bulk(
        path="tasks-reschedule",
        word="Reschedule",
        past="rescheduled",
        drawing="clock",
        states=_QUEUED,
        text="They run at another time; what runs already is left alone.",
        call=_reschedule,
        fields=(
            Field(
                "when",
                "When",
                value="0s",
                hint="0s is now; 15m, 2h or 1d is so long from now; or a moment, in UTC:"
                " 2026-12-01T08:00.",
            ),
        ),
    ),
    Bulk(
        path="tasks-cancel",
        word="Cancel",
        past="canceled",
        drawing="close",
        states=_LIVE,
        text="What is queued does not run. The workers of what runs are told to stop it.",
        call=_cancel,
        danger=True,
    ),
    Bulk(
        path="tasks-requeue",
        word="Requeue",
        past="put back",
        drawing="again",
        states=FINAL,
        text="They go back into their queues, due at once and with all their attempts anew.",
        call=_requeue,
        fields=(
            Field(
                "without_key",
                "Keys",
                value="no",
                choices=(("no", "Leave out whose key is taken"), ("yes", "Go on without keys")),
            ),
            Field(
                "per_second",
                "How fast",
                hint="At a rate they become due one after the other, the oldest of 500 first.",
                choices=_RATES,
            ),
            Field(
                "to_queue",
                "Into queue",
                hint="Each into its own if this is empty; into another one they go without keys.",
            ),
            Field(
                "merge_payload",
                "Change payloads",
                hint='Members to set in each, such as {"region": "eu"}; null removes one. You see'
                " what becomes of a payload before anything happens.",
                lines=2,
            ),
        ),
        preview=_preview,
    ),
    Bulk(
        path="tasks-purge",
        word="Purge",
        past="purged",
        drawing="trash",
        states=FINAL,
        text="They are deleted with all that is known of them. Nothing brings them back.",
        call=_purge,
        danger=True,
        deletes=True,
    ),
)

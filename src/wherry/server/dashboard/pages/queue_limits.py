"""The limits of a queue: a form that shows them, and sets those that it says."""

from __future__ import annotations

from typing import Final

from wherry.domain.durations import number_of_seconds
from wherry.domain.limits import QueueLimits
from wherry.errors import InvalidOption
from wherry.server.dashboard.asking import Action, Field, Question, Visit, Went
from wherry.server.dashboard.pages.queues import asked_queue
from wherry.server.dashboard.words import plural

_MOST_DIGITS: Final = 9


async def ask_limits(visit: Visit) -> Question:
    """Ask for the limits of a queue; what it has stands there."""
    depth = await asked_queue(visit)
    limits = depth.limits or QueueLimits()
    return Question(
        title=f"Limit {depth.queue}",
        text="These are its limits from then on, and where nothing stands there is none."
        " What runs goes on, and is counted.",
        button="Set limits",
        back=visit.link("queue", name=depth.queue),
        facts=(("Running", plural(depth.leased, "task")), ("Limits", str(limits) or "none")),
        fields=(
            Field("max_running", "At most at once", _shown(limits.max_running)),
            Field("rate", "Starts", _shown(limits.rate), hint="No more than so many ..."),
            Field(
                "per", "in seconds", _shown(limits.per_seconds), hint="... in so long; 1 if empty"
            ),
            Field(
                "burst",
                "In one go",
                _shown(limits.burst),
                hint="So many of them may start at the same time; what comes in a second if empty.",
            ),
            Field("reason", "Reason", hint="Kept in the audit."),
        ),
        kept=(("queue", depth.queue),),
    )


async def set_limits(visit: Visit) -> Went:
    """Set the limits of a queue."""
    form, queue = visit.form, visit.form.get("queue", "")
    changed = await visit.service.set_queue_limits(
        visit.caller,
        queue=queue,
        max_running=_whole(form.get("max_running", ""), option="max_running"),
        rate=_whole(form.get("rate", ""), option="rate"),
        per=_seconds(form.get("per", "")),
        burst=_whole(form.get("burst", ""), option="burst"),
        reason=form.get("reason") or None,
    )
    said = f"The limits of {queue} are set." if changed else f"The limits of {queue} were the same."
    return Went(visit.link("queue", name=queue), said)


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.15g}"


def _whole(text: str, *, option: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    raise InvalidOption(option, text, "must be a whole number")


def _seconds(text: str) -> float | None:
    try:
        return number_of_seconds(float(text)) if text.strip() else None
    except ValueError:
        raise InvalidOption("per", text, "must be a number of seconds") from None


ACTIONS = (Action("limits", ask_limits, set_limits, nav="queues"),)

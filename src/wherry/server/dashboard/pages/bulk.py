"""What can be done to many tasks at once: to those that were chosen, or to all that a search finds.

A whole search is changed page by page, from the newest task to the oldest, in requests of about a
second: each page is a transaction with its line in the audit. Between two requests all that is
known stands in the address of the progress page, so that it goes on wherever it was stopped: by
itself where there is a script, else by a button. By itself it goes on only from an address that was
made and sealed for this very visitor: a link that somebody sent shall change nothing. Only tasks
that were there when it was asked are changed: the search gets the moment of the question as its
end.

What payloads are changed by stands in no address, which browsers and proxies keep, and which may
not be long: the progress page answers the form then, and goes on by that alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hmac import compare_digest
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qsl

from wherry.commands.tasks import MERGED_AT_ONCE
from wherry.domain.state import State
from wherry.domain.task import Canceled, Purged, Replanned, RequeueAnswer
from wherry.errors import InvalidOption, TimedOut
from wherry.server.caller import Right
from wherry.server.dashboard.asking import (
    Action,
    Field,
    Page,
    Question,
    Shown,
    Visit,
    Went,
    number_of,
)
from wherry.server.dashboard.bulks import BULKS, Bulk
from wherry.server.dashboard.pages.previews import SEEN, has_patch, is_unseen, newest, with_preview
from wherry.server.dashboard.pages.task_actions import REASON, reason_of
from wherry.server.dashboard.session import seal
from wherry.server.dashboard.task_words import STATES, task_id
from wherry.server.dashboard.wanted import MOMENTS, TEXTS, Wanted
from wherry.server.dashboard.words import number, plural
from wherry.server.service.values import Changed

# One request works so long before it lets the browser see how far it is.
_STEP_SECONDS: Final = 1.0
_PAGE_TASKS: Final = 500
_MOST_COUNTED: Final = 100_000
_COUNT_WITHIN: Final = timedelta(seconds=3)
_IN_NO_ADDRESS: Final = ("merge_payload", SEEN)
_UNTIL: Final = "UTC. What comes later is left alone."
_GOOD: Final = frozenset(
    {
        *(Canceled.CANCELED, Canceled.REQUESTED, RequeueAnswer.QUEUED, Purged.PURGED),
        Replanned.CHANGED,
    }
)


def _chosen(visit: Visit) -> list[int]:
    """Return the tasks that are named one by one."""
    ids = [task_id(text) for text in visit.lists.get("ids", ())]
    if None in ids:
        raise InvalidOption("ids", visit.lists["ids"], "name tasks by their numbers")
    return list(dict.fromkeys(id for id in ids if id is not None))


async def _ask(visit: Visit, bulk: Bulk) -> Question:
    ids = _chosen(visit)
    if ids:
        kept = tuple(("ids", str(id)) for id in ids)
        facts = (("Tasks", ", ".join(f"#{id}" for id in ids[:12]) + (" …" if ids[12:] else "")),)
        what = plural(len(ids), "task")
        asked = _question(visit, bulk, what, facts=facts, kept=kept, back=_back(visit, ids))
        return await with_preview(visit, bulk, asked, ids) if is_unseen(visit, bulk) else asked
    wanted = _wanted(visit)
    states = [state for state in wanted.states if state in bulk.states]
    asked_at = await visit.service.read_now(visit.caller) + timedelta(milliseconds=1)
    said: dict[str, Any] = dict(wanted.address)
    said["state"] = [str(state) for state in states]
    # What comes later was not meant.
    until = said.pop(bulk.until, [asked_at.isoformat(timespec="milliseconds")])[-1]
    look: dict[str, Any] = dict(wanted.filter) | {"state": tuple(said["state"])}
    look.setdefault(bulk.until, asked_at)
    try:
        counted = await visit.service.count_tasks(
            visit.caller, most=_MOST_COUNTED, timeout=_COUNT_WITHIN, **look
        )
        what = plural(counted.tasks, "task")
        if counted.capped:
            what = f"more than {what}"
        total = counted.tasks
    except TimedOut:
        what, total = "tasks (too many to count in time)", 0
    sure = () if wanted.is_narrowed else (_sure_field(total),)
    asked = _question(
        visit,
        bulk,
        what,
        facts=_facts(wanted, states),
        kept=(*_pairs(said), ("total", str(total))),
        back=visit.link("tasks", **wanted.address),
        more=(Field(bulk.until, MOMENTS[bulk.until], value=until, hint=_UNTIL), *sure),
    )
    if not is_unseen(visit, bulk):
        return asked
    return await with_preview(visit, bulk, asked, await newest(visit, look))


def _sure_field(total: int) -> Field:
    """Return what has to be typed where no filter narrows: a click alone is too near."""
    return Field(
        "sure",
        "Are you sure?",
        hint=f"No filter narrows this. Type {_sure(total)} to change all of them.",
    )


def _sure(total: int) -> str:
    """Return the word that is to be typed: how many they are, or all if that is not known."""
    return str(total) if 0 < total < _MOST_COUNTED else "all"


def _check_sure(visit: Visit, wanted: Wanted) -> None:
    said, word = visit.form.get("sure", "").strip(), _sure(_number(visit, "total"))
    if not wanted.is_narrowed and said.replace(",", "").lower() != word:
        raise InvalidOption("sure", said, f"no filter narrows this: type {word} to change them all")


def _back(visit: Visit, ids: Sequence[int]) -> str:
    return visit.link("task", id=ids[0]) if len(ids) == 1 else visit.link("tasks")


def _question(
    visit: Visit,
    bulk: Bulk,
    what: str,
    *,
    facts: tuple[tuple[str, str], ...],
    kept: tuple[tuple[str, str], ...],
    back: str,
    more: tuple[Field, ...] = (),
) -> Question:
    return Question(
        title=f"{bulk.word} {what}?",
        text=bulk.text,
        button=f"{bulk.word} {what}",
        back=back,
        leave="Leave them" if bulk.word == "Cancel" else "Cancel",
        danger=bulk.danger,
        facts=facts,
        fields=(*bulk.fields, *more, REASON),
        kept=kept,
    )


def _facts(wanted: Wanted, states: Sequence[State]) -> tuple[tuple[str, str], ...]:
    labels = {"id": "Number", **TEXTS, "payload": "Payload has", **MOMENTS}
    said = [(labels[name], texts[-1]) for name, texts in wanted.said.items() if name != "state"]
    if "queue" not in wanted.said:
        said.append(("Queues", "all"))
    return (*said, ("State", ", ".join(STATES[state][1] for state in states)))


async def _act(visit: Visit, bulk: Bulk) -> Went | Question | Shown:
    if is_unseen(visit, bulk):
        return await _ask(visit, bulk)
    ids = _chosen(visit)
    if ids:
        changed = await bulk.call(visit, 0, ids=ids)
        done = _done(changed)
        to = visit.link("tasks") if bulk.deletes else _back(visit, ids)
        return Went(to, _said(visit, bulk, done, len(ids) - done), is_good=done > 0)
    wanted = _wanted(visit)
    _check_sure(visit, wanted)
    done, left = _number(visit, "done"), _number(visit, "left")
    after = _number(visit, "after") or None
    until = monotonic() + _STEP_SECONDS
    patched = has_patch(visit, bulk)
    most = min(_PAGE_TASKS, MERGED_AT_ONCE) if patched else _PAGE_TASKS
    while not visit.form.get("stopped"):
        changed = await bulk.call(visit, done, filter=wanted.filter, limit=most, after=after)
        good = _done(changed)
        done, left, after = done + good, left + len(changed.answers) - good, changed.after
        if after is None:
            return Went(visit.link("tasks", **wanted.address), _said(visit, bulk, done, left))
        if monotonic() >= until:
            break
    said = {
        **{name: visit.form.get(name, "") for name in _asked_by(bulk)},
        "reason": reason_of(visit) or "",
        "total": str(_number(visit, "total")),
        "done": str(done),
        "left": str(left),
        "after": str(after or ""),
    }
    if patched:
        said |= {name: visit.form[name] for name in _IN_NO_ADDRESS}
        return _going(visit, bulk, wanted, said, is_stopped=bool(visit.form.get("stopped")))
    state = {"do": bulk.path, **wanted.address, **said}
    # As a visit of that address has it, range aside.
    sealed = visit.link("", **state, range=None).partition("?")[2]
    stamp = seal(visit.word, parse_qsl(sealed, keep_blank_values=True))
    return Went(visit.link("tasks-going", **state, seal=stamp), "")


async def show_going(visit: Visit) -> Shown:
    """Show how far a change of many tasks is, with the form that goes on."""
    bulk = next((each for each in BULKS if each.path == visit.query.get("do")), None)
    is_ours = not any(visit.query.get(name) for name in _IN_NO_ADDRESS)
    if bulk is None or not is_ours or Right.ADMIN not in visit.caller.rights:
        return Shown("going.html", "Nothing is under way", {"bulk": None})
    names = (*_asked_by(bulk), "reason", "total", "done", "left", "after")
    said = {name: visit.query.get(name, "") for name in names}
    is_stopped = visit.query.get("stopped") == "1" or not _is_sealed(visit)
    stop = visit.link("tasks-going", **{**visit.lists, "stopped": "1"})
    return _going(visit, bulk, _wanted(visit), said, is_stopped=is_stopped, stop=stop)


def _asked_by(bulk: Bulk) -> tuple[str, ...]:
    """Return what is asked before a change, but what stands in no address."""
    names = (*(field.name for field in bulk.fields), "sure")
    return tuple(name for name in names if name not in _IN_NO_ADDRESS)


def _going(
    visit: Visit,
    bulk: Bulk,
    wanted: Wanted,
    said: Mapping[str, str],
    *,
    is_stopped: bool,
    stop: str | None = None,
) -> Shown:
    """Show how far a change is; *said* goes along. Without *stop* the page has no address."""
    done, left, total = (number_of(said[name]) for name in ("done", "left", "total"))
    values = {
        "bulk": bulk,
        "kept": [*_pairs(wanted.address), *((name, text) for name, text in said.items() if text)],
        "done": done,
        "left": left,
        "total": max(total, done + left),
        "is_known": total > 0,
        "facts": _facts(wanted, [state for state in wanted.states if state in bulk.states]),
        "back": visit.link("tasks", **wanted.address),
        "is_stopped": is_stopped,
        "is_answer": stop is None,
        "stop": stop,
    }
    return Shown("going.html", f"{number(done)} {bulk.past} so far", values)


def _is_sealed(visit: Visit) -> bool:
    """Say whether the address is as this visitor's own change left it."""
    said = [(name, text) for name, texts in visit.lists.items() for text in texts]
    own = [(name, text) for name, text in said if name not in ("seal", "range")]
    return bool(visit.word) and compare_digest(
        seal(visit.word, own).encode(), visit.query.get("seal", "").encode()
    )


def _wanted(visit: Visit) -> Wanted:
    wanted = Wanted.of(visit)
    if wanted.trouble:
        raise InvalidOption("filter", dict(wanted.said), wanted.trouble)
    return wanted


def _pairs(said: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, texts in said.items() for text in texts)


def _number(visit: Visit, name: str) -> int:
    return number_of(visit.form.get(name) or visit.query.get(name, ""))


def _done(changed: Changed) -> int:
    return sum(change.answer in _GOOD for change in changed.answers)


def _said(visit: Visit, bulk: Bulk, done: int, left: int) -> str:
    said = f"{plural(done, 'task')} {'was' if done == 1 else 'were'} {bulk.past}"
    if left:
        said += f"; {number(left)} could not be, as they had changed meanwhile"
        if visit.form.get("merge_payload"):
            said += ", or as their payloads take no such change"
    return f"{said}."


def _action(bulk: Bulk) -> Action:
    async def ask(visit: Visit) -> Question:
        return await _ask(visit, bulk)

    async def act(visit: Visit) -> Went | Question | Shown:
        return await _act(visit, bulk)

    return Action(bulk.path, ask, act, nav="tasks")


PAGES = (Page("tasks-going", show_going, nav="tasks"),)
ACTIONS = tuple(map(_action, BULKS))

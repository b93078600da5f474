"""Hostile texts at the doors of the library and of plain SQL: data, or refused before it is stored.

Never an error of syntax, never one text taken for another; the doors of a server have the like in
tests/security/test_fuzz.py and tests/server/grpc/test_fuzz.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import wherry
from tests.fuzz.hostile import EVERY, TEXTS
from tests.pg.doors import DOORS, Door
from tests.pg.support import Session

# Where a text may stand in a task, and how it is read back.
PLACES: dict[str, tuple[Callable[[str], dict[str, Any]], Callable[[wherry.Task], Any]]] = {
    "queue": (lambda text: {"queue": text}, lambda task: task.queue),
    "type": (lambda text: {"type": text}, lambda task: task.type),
    "key": (lambda text: {"key": text}, lambda task: task.key),
    "tag": (lambda text: {"tags": [text]}, lambda task: task.tags[0]),
    "header": (lambda text: {"headers": {text: "v"}}, lambda task: next(iter(task.headers))),
    "header's value": (lambda text: {"headers": {"h": text}}, lambda task: task.headers["h"]),
    "payload": (lambda text: {"payload": {"a": text}}, lambda task: task.payload["a"]),
    "payload's key": (lambda text: {"payload": {text: 1}}, lambda task: next(iter(task.payload))),
}


# Of a parameter; or, before it comes to that, of a text that is none, or of JSON.
REFUSED = ("22023", "22021", "22P05", "22P02")


def outcome(session: Session, door: Door, place: str, text: str) -> Any:
    """Return what a door made of a text: what is read back, or None if it was refused."""
    given, read = PLACES[place]
    try:
        answer = door(session, **given(text))
    except (wherry.InvalidTask, UnicodeEncodeError):
        return None
    except psycopg.DataError as error:
        # Where there is no SQLSTATE, the driver would not send it.
        return error if error.sqlstate not in (*REFUSED, None) else None
    return read(session.task(answer.id))


@pytest.mark.parametrize("place", PLACES)
def test_both_doors_take_the_same_texts_and_give_them_back(session: Session, place: str) -> None:
    wrong: list[str] = []
    for text in EVERY:
        made = [outcome(session, door, place, text) for door in DOORS]

        if made not in ([text, text], [None, None]):
            wrong.append(f"{text!a:.60} came back as {made!a:.200}")
    assert wrong == []


def test_whatever_an_app_is_told_is_taken_or_refused(dsn: str) -> None:
    wrong: list[str] = []
    with wherry.App(dsn) as app:
        for text in EVERY:
            for name, call in calls(app, text).items():
                try:
                    call()
                except (wherry.WherryError, ValueError):
                    continue
                except Exception as error:
                    wrong.append(f"{name} of {text!a:.60} raised {error!r:.200}")
    assert wrong == []


def test_filters_of_any_text_find_that_text_only(dsn: str) -> None:
    with wherry.App(dsn) as app:
        taken: dict[str, int] = {}
        for text in TEXTS:
            try:
                made = app.enqueue("t", queue=text, tags=[text], key=text)
            except wherry.InvalidTask:
                continue
            taken[text] = made.id

        for text, id_ in taken.items():
            assert [task.id for task in app.list_tasks(queue=text).tasks] == [id_]
            assert [task.id for task in app.list_tasks(tag=text).tasks] == [id_]
            found = app.get_task(queue=text, key=text)
            assert found is not None
            assert found.id == id_
    assert len(taken) > 50


def calls(app: wherry.App, text: str) -> dict[str, Callable[[], object]]:
    """Return every call of an App that takes a text, with *text* in its place."""

    def leased() -> wherry.Lease:
        app.enqueue("t")
        [lease] = app.lease(worker="w")
        return lease

    return {
        "lease(worker)": lambda: app.lease(worker=text),
        "lease(queues)": lambda: app.lease(worker="w", queues=[text]),
        "lease(types)": lambda: app.lease(worker="w", queues=["none"], types=[text]),
        "fail": lambda: app.fail(leased(), text, retry=False),
        "fail(exception)": lambda: app.fail(leased(), ValueError(text), retry=False),
        "complete(result)": lambda: app.complete(leased(), result={"a": text}),
        "cancel(reason)": lambda: app.cancel(app.enqueue("t").id, reason=text),
        "pause(queue)": lambda: app.pause_queue(text),
        "pause(reason)": lambda: app.pause_queue("paused", reason=text),
        "resume": lambda: app.resume_queue(text),
        "list(queue)": lambda: app.list_tasks(queue=text),
        "list(type)": lambda: app.list_tasks(type=text),
        "list(tag)": lambda: app.list_tasks(tag=text),
        "list(key)": lambda: app.list_tasks(key=text),
        "list(worker)": lambda: app.list_tasks(worker=text),
        "count": lambda: app.count_tasks(queue=text, tag=text),
        "list(error)": lambda: app.list_tasks(error=text),
        "list(state)": lambda: app.list_tasks(state=text),
        "get(key)": lambda: app.get_task(queue="default", key=text),
        "get(queue)": lambda: app.get_task(queue=text, key="k"),
    }

"""What every process of a run was asked, was told, and did: one line each, in a file of its own.

A line goes to the kernel in one write, so a process that is killed has said everything up to that
moment, and a call without an end in the file is one that the kill interrupted.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import psycopg

import wherry

FOLDER_VARIABLE = "NEMESIS_FOLDER"
NAME_VARIABLE = "NEMESIS_NAME"


class History:
    """The file of one process; any of its threads may write to it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._file = os.open(
            folder / f"{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        self._numbers = itertools.count(1)

    def note(self, what: str, **said: Any) -> None:
        """Write a line."""
        line = json.dumps({"at": time(), "what": what, **said}, default=str)
        os.write(self._file, f"{line}\n".encode())

    @contextmanager
    def asking(self, what: str, **asked: Any) -> Iterator[Asking]:
        """Write that something is asked; the block says what was told.

        A database that is out of reach ends the block as `unknown`, anything that no caller should
        have to expect as `broke`.
        """
        asking = Asking(self, what, next(self._numbers))
        self.note(what, ask=asking.number, **asked)
        try:
            yield asking
        except (wherry.Unavailable, psycopg.OperationalError, psycopg.InterfaceError) as error:
            asking.ends("unknown", error=repr(error))
        except Exception:
            asking.ends("broke", error=traceback.format_exc())


class Asking:
    """A call that is under way."""

    def __init__(self, history: History, what: str, number: int) -> None:
        self.number = number
        self._history = history
        self._what = what

    def told(self, **answer: Any) -> None:
        """Write the answer."""
        self.ends("told", **answer)

    def ends(self, end: str, **said: Any) -> None:
        """Write how the call ended."""
        self._history.note(self._what, ask=self.number, end=end, **said)


_of_this_process: list[History] = []
_lock = threading.Lock()


def mine() -> History:
    """Return the history of this process, where the one that started it wants it."""
    with _lock:
        if not _of_this_process:
            folder, name = os.environ[FOLDER_VARIABLE], os.environ[NAME_VARIABLE]
            _of_this_process.append(History(Path(folder), name))
        return _of_this_process[0]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a process did or met."""

    who: str
    at: float
    what: str
    said: dict[str, Any]


@dataclass(slots=True)
class Call:
    """Something that a process asked; `end` is told, unknown, rolled_back, broke or killed."""

    who: str
    what: str
    asked_at: float
    asked: dict[str, Any]
    end: str = "killed"
    ended_at: float = math.inf
    told: dict[str, Any] = field(default_factory=dict)


def read(folder: Path) -> tuple[list[Call], list[Note]]:
    """Return the calls and the notes of all processes, each in the order in which they began."""
    calls: dict[tuple[str, int], Call] = {}
    notes: list[Note] = []
    for path in sorted(folder.glob("*.jsonl")):
        who = path.name.removesuffix(".jsonl")
        for line in path.read_text().splitlines():
            said = json.loads(line)
            at, what = said.pop("at"), said.pop("what")
            ask = said.pop("ask", None)
            if ask is None:
                notes.append(Note(who, at, what, said))
            elif (who, ask) not in calls:
                calls[who, ask] = Call(who, what, at, said)
            else:
                call = calls[who, ask]
                call.end, call.ended_at, call.told = said.pop("end"), at, said
    return (
        sorted(calls.values(), key=lambda call: call.asked_at),
        sorted(notes, key=lambda note: note.at),
    )

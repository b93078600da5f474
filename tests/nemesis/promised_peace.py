"""What is promised of the end, and of how it gets there: all ends, nobody fails, nothing is left.

Faults are expected to be survived quietly: an error in a log, a process that gave up, or a
statement that the server refused is a bug even where no task suffered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.nemesis.evidence import Evidence
from tests.nemesis.history import Note
from tests.nemesis.tasks import LEASE_SECONDS, SHUTDOWN_SECONDS, TAKEN_ALONG, UNREACHABLE
from wherry.worker.sweeper import CLEAN_UP_SECONDS

# Until it has begun to work a process may end for reasons that are none later.
START_SECONDS = 60.0
KILLED = -9
DISMISSED = -15
# A worker that was dismissed while the server was down could not report all it had.
LEFT_SOME = 1
_UNREPORTED = "could not be stored, they will run again"
# From SIGTERM to that word: the time for handlers, and twice that for cleaning up.
_LEAVING_SECONDS = SHUTDOWN_SECONDS + 2 * CLEAN_UP_SECONDS
# A fault lasts no longer, nor what it takes to recover from it: a server of ours is a new process.
_FAULT_SECONDS = 2 * LEASE_SECONDS
# The way was there if something was stored so shortly before: whatever was left had its chance.
_CHANCE_SECONDS = 2.0
# What takes away a worker's way to its tasks, wholly or for some of them.
_IN_THE_WAY = {
    "restart the server", "kill a backend", "terminate backends", "exhaust connections",
    "lock a table", "lose replies", "delay what is sent", "hold what is sent",
    "kill a door", "pause a door", "dismiss a door", "lose a door's replies",
}  # fmt: skip
_REFUSAL = re.compile(
    r"\[(?P<pid>\d+)\] \((?P<who>.*)\) (?:ERROR|PANIC):  (?P<what>.*?)(?: at character \d+)?$"
)
# The driver asks for it when a coroutine is canceled that waits on a connection of its own.
_CANCELED = "canceling statement due to user request"
_ON_ITS_OWN = re.compile(r"bank|hasty-.*|wherry app")
# An enqueue that was held up, and that its caller has given up and sent again: the copy came first.
# Who had sent it is gone, as the server finds out when it answers.
_TWICE = 'duplicate key value violates unique constraint "live_pkey"'
_GONE = re.compile(
    r"\[(?P<pid>\d+)\] \(wherry app\) LOG:  "
    r"(could not (send data to|receive data from) client|unexpected EOF on client connection)"
)
# What those provoke who lock in no order, and whose database has little patience.
_PROVOKED = {
    "deadlock detected": re.compile(r"bank"),
    "canceling statement due to lock timeout": re.compile(r"bank|wherry .*worker-3|wherry app"),
    "canceling statement due to statement timeout": re.compile(
        r"bank|wherry .*worker-3|wherry app"
    ),
}
# What the nemesis itself does not get.
_OURS = "nemesis"


def all_ends(evidence: Evidence) -> Iterator[str]:
    """O2, O4: when faults stop, every task ends, every process leaves, and no trace remains."""
    yield from evidence.left_over


def nobody_fails(evidence: Evidence) -> Iterator[str]:
    """A process ends only because it was killed, by us or by its task, or was told to."""
    for ended in evidence.ended:
        expected = {0, TAKEN_ALONG} | ({KILLED} if ended.killed else set())
        if ended.dismissed:
            expected.add(LEFT_SOME)
        if ended.seconds < START_SECONDS:
            # Started while the server was down, or dismissed before it could hear it.
            expected |= {UNREACHABLE, DISMISSED}
        if ended.code not in expected:
            yield f"{ended.name} ended with {ended.code} after {ended.seconds:.1f} s"
    for note in evidence.noted("failed"):
        yield f"{note.who}: {note.said['text']}"


def nothing_breaks(evidence: Evidence) -> Iterator[str]:
    """No call raises what its caller should not have to expect, no worker logs an error."""
    for call in evidence.calls:
        if call.end == "broke":
            yield f"{call.who} {call.what} {call.asked}: {call.told['error']}"
    for note in evidence.noted("logged"):
        if _UNREPORTED in note.said["text"]:
            yield from _unless_cut_off(evidence, note)
        elif " is dead after " not in note.said["text"]:
            yield f"{note.who} logged: {note.said['text']}"


def _unless_cut_off(evidence: Evidence, note: Note) -> Iterator[str]:
    """Say why a worker should have stored all it had, if it left something behind.

    It may when it was told to leave and its way was cut for as long as it was leaving: then its
    tasks run again. That they do, and end, is for O2 and the promises of outcomes.
    """
    dismissed = any(ended.name == note.who and ended.dismissed for ended in evidence.ended)
    if not dismissed:
        yield f"{note.who} left, though nobody told it to, and logged: {note.said['text']}"
    stored = [n.at for n in evidence.noted("reported") if n.who == note.who and n.at <= note.at]
    if stored and note.at - max(stored) < _CHANCE_SECONDS:
        yield (
            f"{note.who} had its way {note.at - max(stored):.1f} s before it left, and logged:"
            f" {note.said['text']}"
        )
    since = note.at - _LEAVING_SECONDS - _FAULT_SECONDS
    if not any(
        since <= fault.at <= note.at and fault.said["kind"] in _IN_THE_WAY
        for fault in evidence.noted("fault")
    ):
        yield f"nothing was in the way of {note.who}, which logged: {note.said['text']}"


def the_server_refuses_nothing(evidence: Evidence) -> Iterator[str]:
    """No statement fails, not even one that is sent again: no deadlock, no broken constraint."""
    # The nemesis cancels some as well.
    canceled = evidence.faults["cancel statements"]
    gone = {found["pid"] for found in _GONE.finditer(evidence.server_log)}
    for line in evidence.server_log.splitlines():
        found = _REFUSAL.search(line)
        if found is None or found["who"] == _OURS:
            continue
        provoked = _PROVOKED.get(found["what"])
        if provoked is not None and provoked.fullmatch(found["who"]):
            continue
        if found["what"] == _TWICE and found["pid"] in gone:
            continue
        if found["what"] == _CANCELED:
            if _ON_ITS_OWN.fullmatch(found["who"]):
                continue
            canceled -= 1
            if canceled >= 0:
                continue
        yield line


PROMISES: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "O2 all ends": all_ends,
    "nobody fails": nobody_fails,
    "nothing breaks": nothing_breaks,
    "the server refuses nothing": the_server_refuses_nothing,
}

"""What is promised of the end, and of how it gets there: all ends, nobody fails, nothing is left.

Faults are expected to be survived quietly: an error in a log, a process that gave up, or a
statement that the server refused is a bug even where no task suffered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.nemesis.evidence import Evidence
from tests.nemesis.tasks import TAKEN_ALONG, UNREACHABLE

# Until it has begun to work a process may end for reasons that are none later.
START_SECONDS = 60.0
KILLED = -9
DISMISSED = -15
# A worker that was dismissed while the server was down could not report all it had.
LEFT_SOME = 1
_REFUSAL = re.compile(r"\] \((?P<who>.*)\) (?:ERROR|PANIC):  (?P<what>.*?)(?: at character \d+)?$")
# The driver asks for it when a coroutine is canceled that waits on a connection of its own.
_CANCELED = "canceling statement due to user request"
_ON_ITS_OWN = re.compile(r"bank|hasty-.*|wherry app")
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
        if " is dead after " not in note.said["text"]:
            yield f"{note.who} logged: {note.said['text']}"


def the_server_refuses_nothing(evidence: Evidence) -> Iterator[str]:
    """No statement fails, not even one that is sent again: no deadlock, no broken constraint."""
    # The nemesis cancels some as well.
    canceled = evidence.faults["cancel statements"]
    for line in evidence.server_log.splitlines():
        found = _REFUSAL.search(line)
        if found is None or found["who"] == _OURS:
            continue
        provoked = _PROVOKED.get(found["what"])
        if provoked is not None and provoked.fullmatch(found["who"]):
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

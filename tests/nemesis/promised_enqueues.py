"""What is promised to who enqueues: nothing is lost, nothing appears from nowhere, a key is a task.

A task is told by the nonce in its payload, never by its id alone: an id that was promised twice is
one of the bugs looked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.nemesis.evidence import Evidence, Wish
from tests.nemesis.lives import Life
from tests.nemesis.tasks import SCHEDULED

# From the entry of a step to its commit, which a crash or an open transaction may hold up.
COMMIT_SECONDS = 3.0


def acknowledged_is_there(evidence: Evidence) -> Iterator[str]:
    """W1: a task whose id was told is in the database, as it was asked for, until purged."""
    for wish in evidence.wishes():
        if wish.id is None or wish.call.end != "told":
            continue
        life = evidence.lives.get(wish.id)
        if life is None:
            yield f"task {wish.id} was told to {wish.call.who} and is nowhere: {wish.task}"
        elif wish.created and life.payload != wish.task["payload"]:
            yield f"task {wish.id} was told for {wish.task['payload']}, but it is {life}"
        elif wish.id not in evidence.states and life.last.kind != "purged":
            yield f"task {wish.id} is gone:\n{life}"
    for call in evidence.of("look", "told"):
        life = evidence.lives.get(call.asked["id"])
        purged = life is not None and life.last.kind == "purged"
        if not call.told["found"] and not purged:
            yield f"not found by {call.who} at {call.asked_at}: task {call.asked['id']}\n{life}"


def tables_agree_with_audit(evidence: Evidence) -> Iterator[str]:
    """W1: what is in the tables is what the last step left there."""
    for life in evidence.lives.values():
        state = life.last.state
        shown = "queued" if state in ("ready", "delayed", "parked") else state
        if evidence.states.get(life.id) != shown:
            yield f"task {life.id} is {evidence.states.get(life.id)} in the tables:\n{life}"
    for id_ in evidence.states.keys() - evidence.lives.keys():
        yield f"task {id_} is in the tables, and no trigger saw it come"


def rolled_back_is_never_seen(evidence: Evidence) -> Iterator[str]:
    """W3: a task of a transaction that rolled back is not stored, leased, or run."""
    # A key's payload may be stored by somebody else.
    gone = {w.nonce for w in evidence.wishes() if w.call.end == "rolled_back"}
    gone -= {w.nonce for w in evidence.wishes() if w.call.end != "rolled_back"}
    for life in evidence.lives.values():
        if life.payload["nonce"] in gone:
            yield f"the task was rolled back:\n{life}"
    for note in evidence.noted("began"):
        if note.said["nonce"] in gone:
            yield f"{note.who} ran {note.said}, which was rolled back"


def no_phantoms(evidence: Evidence) -> Iterator[str]:
    """W4, W5: every task was asked for, with that payload; and is one task, not two."""
    asked: dict[str, list[Wish]] = defaultdict(list)
    for wish in evidence.wishes():
        asked[wish.nonce].append(wish)
    stored = Counter(str(life.payload["nonce"]) for life in evidence.lives.values())
    for life in evidence.lives.values():
        nonce = str(life.payload["nonce"])
        if nonce == SCHEDULED or nonce.startswith("after-"):
            # Of a schedule (S1), or asked for by a transfer in its transaction (C4).
            continue
        if all(wish.task["payload"] != life.payload for wish in asked[nonce]):
            yield f"nobody asked for\n{life}"
        if stored[nonce] > 1:
            yield f"{stored[nonce]} tasks come from one wish:\n{life}"


def one_key_is_one_task(evidence: Evidence) -> Iterator[str]:
    """K1, K4: each reply for a key that is kept names the same task, and no reply is empty."""
    ids: dict[str, set[int]] = defaultdict(set)
    for wish in evidence.wishes():
        if wish.call.end != "told":
            continue
        if wish.id is None or wish.created is None:
            yield f"an empty reply to {wish.call}"
        elif wish.task.get("key") and not str(wish.task["key"]).startswith("worn"):
            ids[str(wish.task["key"])].add(wish.id)
    purged = {life.id for life in evidence.lives.values() if life.last.kind == "purged"}
    for key, named in ids.items():
        if len(named) > 1 and not named & purged:
            yield f"key {key} named the tasks {sorted(named)}"


def created_once(evidence: Evidence) -> Iterator[str]:
    """K1: a task is told as created to one caller only, and a match is told as it is (K3)."""
    created: Counter[int] = Counter()
    for wish in evidence.wishes():
        if wish.call.end != "told" or wish.id is None:
            continue
        created[wish.id] += bool(wish.created)
        life = evidence.lives.get(wish.id)
        if wish.task.get("key") and life is not None:
            matches = life.payload == wish.task["payload"]
            if wish.matches is not matches:
                yield f"matches={wish.matches} was told to {wish.task} of\n{life}"
    for id_, times in created.items():
        if times > 1:
            yield f"task {id_} was told as created {times} times"


def keys_do_not_overlap(evidence: Evidence) -> Iterator[str]:
    """K2: of all tasks with one key, at most one at a time has not ended."""
    by_key: dict[tuple[str, str], list[Life]] = defaultdict(list)
    for life in evidence.lives.values():
        if life.key is not None:
            by_key[life.queue, life.key].append(life)
    for (_, key), lives in by_key.items():
        spans = sorted(span for life in lives for span in _spans(life))
        for (_, end, one), (start, _, other) in pairwise(spans):
            if start < end:
                yield f"key {key} had the tasks {one} and {other} at once"


def free_keys_are_given(evidence: Evidence) -> Iterator[str]:
    """K1: a key that is kept for no time is free once its task has ended."""
    for wish in evidence.wishes():
        if wish.created is not False or wish.task.get("key_ttl") != 0.0 or wish.id is None:
            continue
        life = evidence.lives.get(wish.id)
        if life is None or life.last.kind != "ended":
            continue
        if life.last.at + COMMIT_SECONDS < wish.call.asked_at:
            yield f"the key was still taken at {wish.call.asked_at} for {wish.call.who} by\n{life}"


def _spans(life: Life) -> Iterator[tuple[float, float, int]]:
    """Return when a task was live: from entry to entry, which the key's row lock orders."""
    start: float | None = None
    for step in life.steps:
        if step.kind in ("born", "requeued"):
            start = step.n
        elif step.kind == "ended" and start is not None:
            yield start, step.n, life.id
            start = None
    if start is not None:
        yield start, float("inf"), life.id


PROMISES: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "W1 acknowledged is there": acknowledged_is_there,
    "W1 the tables agree with the audit": tables_agree_with_audit,
    "W3 rolled back is never seen": rolled_back_is_never_seen,
    "W4 no phantoms": no_phantoms,
    "K1 one key is one task": one_key_is_one_task,
    "K1 created once": created_once,
    "K1 free keys are given": free_keys_are_given,
    "K2 keys do not overlap": keys_do_not_overlap,
}

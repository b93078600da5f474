"""What must hold after any schedule, whatever its order.

The rows that are there must follow from what was answered: a task is where the accepted ends and
returns have put it, its token counts its leases, its history its losses. Nothing is checked by
replaying: these are sums, which hold for every order or for none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.race.player import Outcome
from tests.race.scenes import Scene
from wherry.commands.fronts import Rescued
from wherry.domain.lease import Reported
from wherry.domain.task import Canceled, Purged, RequeueAnswer

ENDS = (Reported.FAILED, Reported.DEAD, Reported.CANCELED)


@dataclass
class After:
    """The rows of a scene once everybody has finished."""

    live: list[dict[str, Any]]
    finished: list[dict[str, Any]]
    lease: list[dict[str, Any]]
    attempt: list[dict[str, Any]]
    key: list[dict[str, Any]]


async def look(scene: Scene) -> After:
    tables = ("live", "finished", "lease", "attempt", "key")
    columns = ", ".join(
        f"(select coalesce(json_agg(t), '[]') from wherry.{table} t where t.queue = %s)"
        for table in tables
    )
    [row] = await scene.sql(f"select {columns}", *[scene.queue] * len(tables))
    return After(*row)


@dataclass
class Count:
    """What the committed operations were told, in numbers."""

    leases: int = 0
    settled: int = 0
    done: int = 0
    ends: int = 0
    released: int = 0
    failed: int = 0
    lost: int = 0
    requeues: int = 0
    purges: int = 0
    created: tuple[int, ...] = ()
    # Without a key.
    others: tuple[int, ...] = ()
    named: tuple[int, ...] = ()


def count(scene: Scene, outcomes: Sequence[Outcome[Any]]) -> Count:
    told = Count()
    for outcome in outcomes:
        if outcome.committed:
            _count(scene, outcome.name, outcome.answer, told)
    return told


def _count(scene: Scene, name: str, answer: Any, told: Count) -> None:
    match name:
        case "lease" | "lease_past_front":
            told.leases += sum(lease.id == scene.task for lease in answer)
        case "lease_for_pollers":
            told.leases += sum(lease.id == scene.task for leases in answer for lease in leases)
        case "complete" | "complete_unlocked" | "complete_in_transaction":
            accepted = answer is None or answer == [Reported.DONE]
            told.settled += accepted
            told.done += accepted
            told.ends += accepted
        case "fail" | "release" | "release_unconfirmed":
            accepted = answer[0] in (Reported.REQUEUED, *ENDS)
            told.settled += accepted
            told.ends += answer[0] in ENDS
            told.failed += accepted and name == "fail"
            told.released += accepted and name != "fail"
        case "reap":
            gone = (*answer.queued, *answer.dead, *answer.canceled)
            told.settled += scene.task in gone
            told.lost += scene.task in gone
            told.ends += scene.task in (*answer.dead, *answer.canceled)
        case "cancel":
            told.ends += answer[0] is Canceled.CANCELED
        case "discard":
            told.ends += scene.task in answer.ids
        case "requeue":
            told.requeues += answer[0].answer is RequeueAnswer.QUEUED
        case "purge":
            told.purges += answer[0] is Purged.PURGED
        case "enqueue_one":
            told.others += (answer[0].id,)
        case "enqueue":
            told.named += (answer[0].id,)
            told.created += (answer[0].id,) if answer[0].created else ()
        case _:
            pass


def broken(scene: Scene, outcomes: Sequence[Outcome[Any]], after: After) -> Iterator[str]:
    """Yield a sentence for every invariant that does not hold."""
    told = count(scene, outcomes)
    yield from _places(scene, told, after)
    yield from _leases(after)
    yield from _numbers(scene, told, after)
    yield from _keys(scene, told, after, outcomes)
    yield from _answers(scene, outcomes, after, told)


def _places(scene: Scene, told: Count, after: After) -> Iterator[str]:
    places = Counter(row["id"] for row in (*after.live, *after.finished))
    if any(n > 1 for n in places.values()):
        yield f"a task is in two places: {places}"
    is_live = any(row["id"] == scene.task for row in after.live)
    is_finished = any(row["id"] == scene.task for row in after.finished)
    if is_live != (not scene.is_final) - told.ends + told.requeues:
        yield f"{told.ends} ends and {told.requeues} requeues, but live is {is_live}"
    if is_finished != scene.is_final + told.ends - told.requeues - told.purges:
        yield f"{told.ends} ends, {told.purges} purges, but finished is {is_finished}"
    is_leased = any(row["id"] == scene.task and row["state"] == "leased" for row in after.live)
    if is_leased != scene.holds + told.leases - told.settled:
        yield f"{told.leases} leases and {told.settled} outcomes, but leased is {is_leased}"
    if told.settled > scene.holds:
        yield "an outcome was accepted from a lease that is not, or no longer, the task's"


def _leases(after: After) -> Iterator[str]:
    for row in after.live:
        owners = [
            lease
            for lease in after.lease
            if lease["lease_id"] == row["lease_id"] and row["id"] in lease["task_ids"]
        ]
        if row["state"] == "leased" and len(owners) != 1:
            yield f"a leased task has {len(owners)} lease rows"
        if row["state"] == "leased" and row["leased_at"] is None:
            yield "a leased task does not say since when"
        if row["state"] != "leased" and row["cancel_requested_at"] is not None:
            yield "a task whose cancel was asked for went back to its queue"
    for lease in after.lease:
        if len(set(lease["task_ids"])) != len(lease["task_ids"]):
            yield "a lease row names a task twice"


def _numbers(scene: Scene, told: Count, after: After) -> Iterator[str]:
    for row in (*after.live, *after.finished):
        if row["id"] != scene.task:
            continue
        if row["token"] != scene.token + told.leases:
            yield f"token {row['token']} after {told.leases} leases from {scene.token}"
        if not 0 <= row["attempts"] <= row["max_attempts"]:
            yield f"{row['attempts']} attempts of {row['max_attempts']}"
        expected = scene.attempts + told.leases - told.released
        if not told.requeues and row["attempts"] != expected:
            yield f"{row['attempts']} attempts instead of {expected}"
    history = 0 if told.purges else scene.history + told.failed + told.lost
    if len(after.attempt) != history:
        yield f"{len(after.attempt)} rows of history instead of {history}"
    if sum(row["outcome"] == "lost" for row in after.attempt) != told.lost and not told.purges:
        yield "the history does not tell of the loss"


def _keys(
    scene: Scene, told: Count, after: After, outcomes: Sequence[Outcome[Any]]
) -> Iterator[str]:
    living = [row["id"] for row in after.live if row["key"] == "k"]
    if len(living) > 1:
        yield f"one key has {len(living)} living tasks"
    named = [row["task_id"] for row in after.key]
    if living and named != living:
        yield f"the key names {named}, and {living} lives"
    if len(told.created) > 1:
        yield "two enqueues of one key have each created a task"
    for id_ in (*told.created, *told.others):
        if not any(row["id"] == id_ for row in (*after.live, *after.finished)):
            yield "an acknowledged enqueue is gone"
    undone = [o.answer[0].id for o in outcomes if o.name == "enqueue_rolled_back"]
    stored = {row["id"] for row in (*after.live, *after.finished)} - {scene.task}
    for id_ in undone:
        if id_ != scene.task and id_ not in told.created and id_ in stored:
            yield "a task of a transaction that was rolled back is there"
    if not set(told.named) <= {scene.task, *told.created}:
        yield f"a reply named {told.named}, which nobody had created"
    if stored - {*told.created, *told.others}:
        yield "there is a task that nobody has acknowledged"


def _answers(
    scene: Scene, outcomes: Sequence[Outcome[Any]], after: After, told: Count
) -> Iterator[str]:
    lease = scene.held
    mine = next((row for row in after.live if row["id"] == scene.task), None)
    holds = (
        mine is not None
        and mine["state"] == "leased"
        and (mine["token"], mine["lease_id"]) == (lease.token, lease.lease_id)
    )
    told_to = {outcome.name: outcome.answer for outcome in outcomes if outcome.committed}
    taken_back = told_to.get("release_unconfirmed", [Reported.LOST]) != [Reported.LOST]
    if taken_back and told_to.get("heartbeat") == [Reported.EXTENDED]:
        yield "a lease was extended, and taken back as if nobody had confirmed it"
    for outcome in outcomes:
        answer = outcome.answer[0] if isinstance(outcome.answer, list) and outcome.answer else None
        match outcome.name:
            case "heartbeat" if holds and not scene.has_run_out and answer is Reported.LOST:
                yield "a heartbeat called a lease lost that holds"
            case "complete" | "complete_unlocked" | "fail" | "release" if (
                holds and not scene.has_run_out
            ):
                if answer is not Reported.BUSY:
                    yield f"{outcome.name} was answered {answer}, and the lease still holds"
            case "complete" | "complete_unlocked" if (
                answer is Reported.ALREADY_DONE and not told.done
            ):
                if not scene.is_final:
                    yield "a complete was answered already done by nobody"
            case "complete_in_transaction" if holds and not outcome.committed:
                yield "a completion in a transaction lost a lease that holds"
            case "complete" | "complete_unlocked" | "fail" | "release" | "heartbeat" if (
                scene.has_run_out
            ):
                if answer not in (Reported.LOST, Reported.ALREADY_DONE):
                    yield f"{outcome.name} was answered {answer} after the lease had run out"
            case "rescue" if outcome.answer == Rescued(1) and mine and mine["state"] == "ready":
                if any(mine["position"] < each.start for each in scene.front.stretches):
                    yield "a task that was rescued still stands in front of the front"
            case "cancel" if answer is Canceled.UNKNOWN and not told.purges:
                yield "a cancel did not know the task"
            case _:
                pass

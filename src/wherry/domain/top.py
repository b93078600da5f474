"""What somebody who watches sees first: what is wrong, and how each queue changes meanwhile.

Pure: who looks, and how often, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from wherry.domain.durations import span
from wherry.domain.flow import OTHER
from wherry.domain.task import PausedType, QueueDepth
from wherry.domain.worker import Directive, WorkerSeen

_LATE_SECONDS = 60.0
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment, by the looker's own monotonic clock, in seconds."""

    at: float
    queues: tuple[QueueDepth, ...]
    workers: tuple[WorkerSeen, ...]
    paused_types: tuple[PausedType, ...] = ()


def problems_in(look: Look) -> list[str]:
    """Return what is wrong, one sentence each, of queues what holds most tasks first."""
    of_queues, of_workers = problems_of_each(look)
    return of_queues + of_workers


def problems_of_each(look: Look) -> tuple[list[str], list[str]]:
    """Return what is wrong with queues, what holds most tasks first, and with workers."""
    served: set[str] | None = set()
    for worker in look.workers:
        if not worker.alive or served is None:
            continue
        served = None if worker.queues is None else served.union(worker.queues)
    found = sorted(
        (said for depth in look.queues for said in _of_queue(depth, served, look.paused_types)),
        key=lambda s: -s[0],
    )
    return [text for _, text in found], list(_of_workers(look.workers))


def changes(before: Look | None, now: Look) -> Mapping[str, float]:
    """Return by how many live tasks each queue grew in a second; nothing at the first look."""
    if before is None or now.at <= before.at:
        return {}
    then = {depth.queue: _live(depth) for depth in before.queues}
    names = {*then, *(depth.queue for depth in now.queues)}
    ours = {depth.queue: _live(depth) for depth in now.queues}
    seconds = now.at - before.at
    return {name: (ours.get(name, 0) - then.get(name, 0)) / seconds for name in names}


def _live(depth: QueueDepth) -> int:
    return depth.ready + depth.delayed + depth.parked + depth.leased


def _of_queue(
    depth: QueueDepth, served: AbstractSet[str] | None, paused_types: Sequence[PausedType]
) -> Iterator[tuple[int, str]]:
    """`served` None: live workers serve every queue."""
    waiting = depth.ready + depth.parked
    # Those that the sums do not tell apart: who serves them is not known here.
    is_one = depth.queue != OTHER
    name = f"queue {depth.queue}"
    if depth.paused_at is not None:
        by = f" by {depth.paused_by}" if depth.paused_by else ""
        why = f": {depth.pause_reason}" if depth.pause_reason else ""
        yield waiting, f"{name} is paused{by}{why}"
    elif waiting and is_one and served is not None and depth.queue not in served:
        yield waiting, f"{name} holds {waiting:,} that wait, and no live worker serves it"
    elif (depth.oldest_due_seconds or 0.0) > _LATE_SECONDS:
        late = span(depth.oldest_due_seconds or 0.0)
        yield waiting, f"{name} is behind: its oldest due task has waited for {late}"
    if depth.parked:
        # A depth counts all that are parked: which of the two each is, is not known here.
        paused = {each.type: None for each in paused_types if each.queue in (None, depth.queue)}
        types = f"that are paused ({_few(list(paused))}) or " if paused else ""
        yield depth.parked, f"{name} has {depth.parked:,} of types {types}that no live worker knows"


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join([*names[:_MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])


def _of_workers(workers: Sequence[WorkerSeen]) -> Iterator[str]:
    names = {worker.name for worker in workers if worker.alive}
    for worker in workers:
        if not worker.alive and worker.name not in names:
            yield f"worker {worker.name} fell silent without a goodbye"
        elif worker.alive and worker.directive is not Directive.NONE:
            yield f"worker {worker.name} was told to {worker.directive}"
        if worker.alive and (worker.deaf_seconds or 0.0) > _LATE_SECONDS:
            deaf = span(worker.deaf_seconds or 0.0)
            yield f"worker {worker.name} has heard no notification for {deaf}, and only polls"

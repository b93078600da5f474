"""What people ask about tasks, over HTTP."""

from __future__ import annotations

from msgspec import UNSET

from wherry.server.http import looking_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import given, read_id, write_instant, write_instant_if
from wherry.server.http.finding_calls import of_query


async def why_task(call: Call, _query: object) -> Reply:
    """Tell why a task is where it is."""
    why = await call.service.why_task(call.caller, id=read_id(call.id or ""))
    reasons = [
        bodies.Reason(
            code=reason.code,
            text=reason.text,
            advice=given(reason.advice or None),
            at=write_instant_if(reason.at),
        )
        for reason in why.reasons
    ]
    answer = bodies.WhyTaskResponse(
        id=str(why.id),
        reasons=reasons,
        state=UNSET if why.state is None else why.state,
        queue=given(why.queue),
        at=write_instant_if(why.at),
    )
    return Reply(answer)


async def group_dead_tasks(call: Call, query: bodies.GroupDeadTasksQuery) -> Reply:
    """Group dead and failed tasks."""
    found = await call.service.group_dead_tasks(call.caller, **of_query(query))
    groups = [
        bodies.DeadGroup(
            fingerprint=group.fingerprint,
            type=group.type,
            tasks=group.tasks,
            first_at=write_instant(group.first_at),
            last_at=write_instant(group.last_at),
            sample_id=str(group.sample_id),
            sample_error=group.sample_error,
            queues=list(group.queues),
            spread=list(group.spread),
        )
        for group in found.groups
    ]
    answer = bodies.GroupDeadTasksResponse(
        groups=groups, capped=found.capped, since=write_instant_if(found.since)
    )
    return Reply(answer)

"""What people ask about tasks, over HTTP."""

from __future__ import annotations

from msgspec import UNSET

from wherry.server.http import looking_bodies as bodies
from wherry.server.http.call import Call, Reply
from wherry.server.http.fields import given, read_id, write_instant_if


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

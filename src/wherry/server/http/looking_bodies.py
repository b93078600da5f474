"""What people ask about tasks as JSON, field by field as in `proto/wherry/v1/tasks.proto`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from wherry.domain.state import State
from wherry.server.http.bodies import Answer
from wherry.server.http.fields import Id, Instant


class Reason(Answer):
    """One reason."""

    code: Annotated[str, Meta(description="Stable, for programs, such as `queue_paused`.")]
    text: Annotated[str, Meta(description="For people: what holds it.")]
    advice: Annotated[str, Meta(description="For people: what to do about it.")] | UnsetType = UNSET
    at: Annotated[Instant, Meta(description="The moment that it is about.")] | UnsetType = UNSET


class WhyTaskResponse(Answer):
    """Why a task is where it is."""

    id: Id
    reasons: Annotated[list[Reason], Meta(description="At least one, the most important first.")]
    state: Annotated[State, Meta(description="Left out if there is no such task.")] | UnsetType = (
        UNSET
    )
    queue: str | UnsetType = UNSET
    at: Annotated[Instant, Meta(description="When this was so.")] | UnsetType = UNSET

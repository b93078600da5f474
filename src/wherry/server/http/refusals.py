"""What is told of an error over HTTP: problem details (RFC 9457), always as JSON.

`reason` is for programs and is the same over gRPC. `type` is a name, not an address to rely on: it
stays the same behind a proxy's prefix, where a relative address would not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wherry.server.http.bodies import Answer
from wherry.server.http.fields import Seconds, given, write_seconds
from wherry.server.problems import Problem

MEDIA_TYPE: Final = "application/problem+json"
# A text that came from outside and is repeated may be of any length.
_LONGEST_DETAIL: Final = 1000


class ProblemDetails(Answer):
    """Why a request was refused."""

    type: Annotated[str, Meta(description="A name for the kind, such as `/problems/lease-lost`.")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="For people: what, where, and what to do.")]
    reason: Annotated[str, Meta(description="Stable, for programs, such as `LEASE_LOST`.")]
    field: Annotated[str, Meta(description="The path of what is to blame.")] | UnsetType = UNSET
    index: Annotated[int, Meta(description="Which item of the batch, from 0.")] | UnsetType = UNSET
    id: (
        Annotated[str, Meta(description="By this the server's operator finds it in the log.")]
        | UnsetType
    ) = UNSET
    retry_after: Annotated[Seconds, Meta(description="Try again after this.")] | UnsetType = UNSET


class Refused(Exception):
    """A request that HTTP itself lets us refuse: wrong media type, too large, too slow."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})
        super().__init__(detail)


class Gone(Exception):
    """The client hung up; nobody is there to be answered."""


def refused_body(refused: Refused) -> bytes:
    """Return the problem details of a request that was refused."""
    details = ProblemDetails(
        type=type_of(refused.reason),
        title=_title_of(refused.reason),
        status=refused.status,
        detail=_short(refused.detail),
        reason=refused.reason,
        field=given(refused.field),
    )
    return msgspec.json.encode(details)


def problem_body(problem: Problem) -> bytes:
    """Return the problem details of an error of the service."""
    details = ProblemDetails(
        type=type_of(problem.reason),
        title=_title_of(problem.reason),
        status=problem.http_status,
        detail=_short(problem.detail),
        reason=problem.reason,
        field=given(problem.field),
        index=UNSET if problem.index is None else problem.index,
        id=given(problem.id),
        retry_after=write_seconds(problem.retry_seconds),
    )
    return msgspec.json.encode(details)


def problem_headers(problem: Problem) -> dict[str, str]:
    """Return the headers that go along with a problem."""
    headers: dict[str, str] = {}
    if problem.retry_seconds is not None:
        # Whole seconds are all that the header can say; the body is exact.
        headers["retry-after"] = str(max(1, math.ceil(problem.retry_seconds)))
    if problem.http_status == 401:
        headers["www-authenticate"] = 'Bearer realm="wherry"'
    return headers


def type_of(reason: str) -> str:
    """Return the name of a kind of problem, as a reference."""
    return f"/problems/{reason.lower().replace('_', '-')}"


def _title_of(reason: str) -> str:
    return reason.replace("_", " ").capitalize()


def _short(text: str) -> str:
    clean = text.encode(errors="replace").decode()
    return clean if len(clean) <= _LONGEST_DETAIL else f"{clean[:_LONGEST_DETAIL]}…"

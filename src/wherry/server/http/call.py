"""What a call over HTTP knows, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wherry.domain.lease import Lease
from wherry.server.caller import Caller
from wherry.server.http.bodies import Answer

if TYPE_CHECKING:
    from wherry.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Who calls what; `id` is that of the path, as text that was not looked at yet."""

    service: Service
    caller: Caller
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a call; `leases` are those that it hands out, if it does."""

    answer: Answer
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    leases: tuple[Lease, ...] = ()

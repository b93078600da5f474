"""What all rpcs share. An rpc is a method of the same name in small letters: caller, request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherry.errors import LimitReached

if TYPE_CHECKING:
    from wherry.server.service import Service


class Verbs:
    """The ground of the rpcs."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def refuse_too_many(self, count: int, *, of: str, most: int | None = None) -> None:
        """Raise LimitReached for a larger batch, before anything of it is looked at."""
        limit = self.service.settings.batch_limit if most is None else most
        if count > limit:
            raise LimitReached(f"{count:,} {of} in one call; the limit is {limit:,}: split it")

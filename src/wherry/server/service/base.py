"""What all parts of the service share: the App that carries, the desk that leases, the limits."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wherry.config import DEFAULT_QUEUE, ServerSettings
from wherry.domain.options import check_name
from wherry.errors import InvalidOption, InvalidPayload, LimitReached, PermissionDenied
from wherry.server.caller import Caller, Right

if TYPE_CHECKING:
    from wherry.app.app import App
    from wherry.server.desk import Desk


class Base:
    """The ground of the service."""

    def __init__(self, app: App, *, desk: Desk, settings: ServerSettings | None = None) -> None:
        self.app = app
        self.desk = desk
        self.settings = settings or ServerSettings()

    def refuse_too_many(self, items: Sized, *, of: str, most: int | None = None) -> None:
        """Raise LimitReached for more items than one call may have.

        Every verb that takes many asks it, and the gRPC door before: a refusal is not to cost the
        decoding of each item. The schemas of the HTTP door have their own bound.
        """
        limit = self.settings.batch_limit if most is None else most
        if len(items) > limit:
            raise LimitReached(f"{len(items):,} {of} in one call; the limit is {limit:,}: split it")


@contextmanager
def within(place: str) -> Generator[None]:
    """Let what is refused in here be refused by its path from *place*, such as `schedules[3]`."""
    try:
        yield
    except InvalidPayload as error:
        path = error.path.removeprefix("$")
        raise InvalidPayload(f"{place}.payload{path}", error.reason) from None
    except InvalidOption as error:
        raise InvalidOption(f"{place}.{error.option}", error.value, error.reason) from None


def queue_of(options: Mapping[str, Any], *, index: int | None = None) -> str:
    """Return the queue into which a task is to go. Raises InvalidOption for an empty name."""
    queue = options.get("queue")
    return DEFAULT_QUEUE if queue is None else check_name(queue, option="queue", index=index)


def require_right(caller: Caller, right: Right) -> None:
    """Raise PermissionDenied unless the caller has *right*, on whatever queues."""
    if right not in caller.rights:
        has = ", ".join(sorted(caller.rights)) or "none"
        raise PermissionDenied(f"the right {right} is needed for this, and the token has: {has}")

"""What all rpcs share. An rpc is a method of the same name in small letters: caller, request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wherry.server.service import Service


class Verbs:
    """The ground of the rpcs."""

    def __init__(self, service: Service) -> None:
        self.service = service

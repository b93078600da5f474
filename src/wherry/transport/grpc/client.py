"""A channel to a server, over which commands go instead of to a database.

What was lost on the way is sent again until the patience ends, if that is harmless; see
`trouble.py`. Every call has a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from time import monotonic
from typing import Any, TypeVar

import grpc

from wherry.commands.base import Command
from wherry.domain.worker import Directive
from wherry.dsn import ServerAddress
from wherry.errors import NotFound, Unauthenticated, Unavailable
from wherry.transport.grpc.channel import Token, aopen_channel
from wherry.transport.grpc.forks import aunder_way
from wherry.transport.grpc.operator_rpcs import directive_in
from wherry.transport.grpc.rpc import Rpc
from wherry.transport.grpc.rpcs import rpc_of
from wherry.transport.grpc.trouble import Troubles
from wherry.transport.patience import SOON_SECONDS, Patience
from wherry.wire.v1.task_queue_pb2_grpc import TaskQueueStub

R = TypeVar("R")

# An enqueue waits for an open transaction that has its key, as long as the database lets it.
ANSWER_SECONDS = 65.0


class GrpcTransport:
    """Carries commands over one channel.

    *patience_seconds*: for how long trouble is tried through; with none it is raised at once.
    *answer_seconds*: how long a call may take, beside what the server is asked to wait.
    *worker*, *instance*: whose heartbeats go here; *heard* gets what that worker is asked to do.
    """

    def __init__(
        self,
        address: ServerAddress,
        *,
        patience_seconds: float = 0.0,
        answer_seconds: float = ANSWER_SECONDS,
        worker: str = "",
        instance: str = "",
        heard: Callable[[Directive], object] | None = None,
    ) -> None:
        self._address = address
        self._patience_seconds = patience_seconds
        self._answer_seconds = answer_seconds
        self._worker = worker
        self._instance = instance
        self._heard = heard
        self._token = Token(address)
        self._troubles = Troubles(address)
        self._channel = aopen_channel(address)
        self._stub = TaskQueueStub(self._channel)
        self._closed = False

    async def open(self) -> None:
        """Do nothing: a channel connects when it is first used."""

    async def close(self) -> None:
        """Close the channel; calls under way end."""
        self._closed = True
        async with aunder_way():
            await self._channel.close()

    async def call(self, command: Command[R]) -> R:
        """Return the command's answer.

        Raises Unavailable when the server, or its database, stays out of reach; PermissionDenied,
        Unauthenticated and LimitReached as the server says; ConfigError for what only a database
        can do.
        """
        deadline = monotonic() + self._patience_seconds
        patience = Patience(longest=SOON_SECONDS)
        while True:
            rpc = rpc_of(command, worker=self._worker, instance=self._instance)
            try:
                response = await self._once(rpc)
            except grpc.RpcError as error:
                trouble = self._troubles.of(error, rpc)
                if rpc.if_missing is not None and isinstance(trouble.error, NotFound):
                    return rpc.if_missing()
                if isinstance(trouble.error, Unauthenticated):
                    self._token.refused()
                    raise Unauthenticated(f"{trouble.error}: {self._token.told()}") from error
                if not trouble.may_repeat or monotonic() >= deadline:
                    raise trouble.error from error
                pause = trouble.pause_seconds
            else:
                self._troubles.answered()
                directive = directive_in(response)
                if self._heard is not None and directive is not None:
                    self._heard(directive)
                return rpc.read(response)
            await asyncio.sleep(patience.next_pause() if pause is None else pause)

    async def _once(self, rpc: Rpc[Any]) -> Any:
        if self._closed:
            raise Unavailable(f"the connection to {self._address} is closed")
        method: Any = getattr(self._stub, rpc.method)
        # What waits for tasks is at rest, and must not hold up a fork for so long.
        async with nullcontext() if rpc.wait_seconds else aunder_way():
            return await method(
                rpc.request,
                timeout=rpc.wait_seconds + self._answer_seconds,
                metadata=self._token.metadata(),
            )

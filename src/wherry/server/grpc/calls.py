"""The way of every call: who asks, what is asked, the answer or the refusal.

Every rpc is one message, answered by one. To gRPC they are streams, which is the same on the wire,
for here it counts when something is done: a request is read after its caller is known, and in
bounded time; it is decoded here, since gRPC would answer UNKNOWN for bytes that are no message; and
only of a stream's answer it is told whether it could be sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from wherry.domain.lease import Lease
from wherry.errors import InvalidTask, LimitReached
from wherry.server.caller import Caller
from wherry.server.grpc.leases import LeaseVerbs
from wherry.server.grpc.leasing import LeaseVerb
from wherry.server.grpc.looking import LookingVerbs
from wherry.server.grpc.operators import OperatorVerbs
from wherry.server.grpc.refusals import refusal_of
from wherry.server.grpc.schedules import ScheduleVerbs
from wherry.server.grpc.tasks import TaskVerbs
from wherry.server.grpc.unknown import refuse_unknown
from wherry.server.underway import UnderWay
from wherry.telemetry.incoming import TRACEPARENT, TRACESTATE, tell
from wherry.wire.v1 import task_queue_pb2

if TYPE_CHECKING:
    from wherry.server.auth import Authenticator, Polls
    from wherry.server.service import Service

SERVICE: Final = task_queue_pb2.DESCRIPTOR.services_by_name["TaskQueue"]
# A grpc.aio.ServicerContext, of which there is no type that its callers and gRPC agree upon.
Context = Any
_OF_TRACE: Final = (TRACEPARENT, TRACESTATE)
_Requests = AsyncIterator[bytes]
_Verb = Callable[[Caller, Any], Coroutine[Any, Any, Message]]


class _Verbs(TaskVerbs, LookingVerbs, LeaseVerbs, OperatorVerbs, ScheduleVerbs):
    """All rpcs but Lease."""


class Calls:
    """Answers the calls of TaskQueue."""

    def __init__(self, service: Service, *, authenticator: Authenticator, polls: Polls) -> None:
        self._service = service
        self._authenticator = authenticator
        self._polls = polls
        self._leasing = LeaseVerb(service)
        self.underway = UnderWay()

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return what gRPC needs to find every rpc by its name."""
        verbs = _Verbs(self._service)
        methods: dict[str, Any] = {}
        for method in SERVICE.methods:
            kind = GetMessageClass(method.input_type)
            if method.name == "Lease":
                methods[method.name] = grpc.stream_stream_rpc_method_handler(self._lease)
                continue
            verb = getattr(verbs, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower())
            answer = self._answering(method.name, kind, verb)
            methods[method.name] = grpc.stream_unary_rpc_method_handler(answer)
        return grpc.method_handlers_generic_handler(SERVICE.full_name, methods)

    async def caller_of(self, context: Context) -> Caller:
        """Return who calls. Raises Unauthenticated."""
        given = [value for name, value in context.invocation_metadata() if name == "authorization"]
        # Whoever sends two of them may have had one put in front of theirs.
        authorization = given[0] if len(given) == 1 and isinstance(given[0], str) else None
        return await self._authenticator.caller_of(authorization, peer=host_of(context.peer()))

    def _answering(
        self, name: str, kind: type[Message], verb: _Verb
    ) -> Callable[[_Requests, Context], Awaitable[bytes]]:
        async def answer(requests: _Requests, context: Context) -> bytes:
            try:
                caller = await self.caller_of(context)
                _tell_of_trace(context)
                request = await self._read(kind, requests)
                response = await self.underway.to_the_end(verb(caller, request))
                return response.SerializeToString()
            except Exception as error:  # noqa: BLE001 - the server's edge: whatever it is, it is told
                refusal = refusal_of(error, doing=name)
            await context.abort(refusal.code, refusal.text, refusal.metadata)
            raise AssertionError("abort has raised")

        return answer

    async def _lease(self, requests: _Requests, context: Context) -> None:
        try:
            caller = await self.caller_of(context)
            request: Any = await self._read(GetMessageClass(_LEASE_REQUEST), requests)
            with self._polls.taken(caller):
                handout = await self._leasing.lease(
                    caller, request, left_seconds=context.time_remaining()
                )
            await self._confirm(caller, [*handout.leases, *handout.surplus])
        except Exception as error:  # noqa: BLE001 - the server's edge: whatever it is, it is told
            refusal = refusal_of(error, doing="Lease")
        else:
            if handout.surplus:
                self.underway.begin(self._service.undelivered(handout.surplus))
            try:
                await context.write(handout.response.SerializeToString())
            except BaseException:
                # The caller is gone: nobody knows of these leases.
                self.underway.begin(self._service.undelivered(handout.leases))
                raise
            return
        await context.abort(refusal.code, refusal.text, refusal.metadata)

    async def _confirm(self, caller: Caller, leases: Sequence[Lease]) -> None:
        """Raise Unauthenticated, and give *leases* back, if the token ended while they waited."""
        if not leases:
            return
        try:
            await self._authenticator.confirm(caller)
        except BaseException:
            self.underway.begin(self._service.undelivered(leases))
            raise

    async def _read(self, kind: type[Message], requests: _Requests) -> Message:
        """Return the request.

        Raises InvalidTask if it is none, says more than is known here, or is too long in coming,
        and LimitReached if it is too large.
        """
        settings = self._service.settings
        seconds = settings.request_timeout.total_seconds()
        name = kind.DESCRIPTOR.full_name
        try:
            async with asyncio.timeout(seconds):
                async for data in requests:
                    if len(data) > settings.request_limit_bytes:
                        told = f"the request takes {len(data):,} bytes; the limit is"
                        raise LimitReached(f"{told} {settings.request_limit_bytes:,}: split it")
                    request = kind.FromString(data)
                    refuse_unknown(request, data)
                    return request
        except TimeoutError:
            raise InvalidTask(f"no {name} came within {seconds:g} s") from None
        except DecodeError:
            raise InvalidTask(f"the request is no {name} as protobuf writes it") from None
        raise InvalidTask(f"the request holds no {name}")


def _tell_of_trace(context: Context) -> None:
    given = {name: value for name, value in context.invocation_metadata() if name in _OF_TRACE}
    tell(*(given.get(name) for name in _OF_TRACE))


_LEASE_REQUEST = SERVICE.methods_by_name["Lease"].input_type


def host_of(peer: str) -> str:
    """Return the host of a peer as gRPC names it: "ipv4:10.0.0.7:4711", "ipv6:%5B::1%5D:4711"."""
    kind, _, address = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind
    return address.rpartition(":")[0].strip("[]")

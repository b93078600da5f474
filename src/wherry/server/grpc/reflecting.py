"""Reflection: tools such as grpcurl and `buf curl` ask the server itself what can be called.

With authentication it answers only who has a valid token; the contract is public, but how large a
server's surface is need not be. The protocol's versions v1 and v1alpha differ in nothing but name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from wherry.server.grpc.calls import Calls, Context
from wherry.server.grpc.refusals import refusal_of

_NAMES: Final = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


class Reflection:
    """Tells callers with a valid token what there is."""

    def __init__(self, calls: Calls, *, services: tuple[str, ...]) -> None:
        self._calls = calls
        # Its types know only the blocking one.
        module: Any = reflection
        self._servicer: Any = module.aio.ReflectionServicer(services)

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return what gRPC needs to find it, by both of its names."""
        method: Any = grpc.stream_stream_rpc_method_handler(
            self._tell,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        methods = {"ServerReflectionInfo": method}
        return tuple(grpc.method_handlers_generic_handler(name, methods) for name in _NAMES)

    async def _tell(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        try:
            await self._calls.caller_of(context)
        except Exception as error:  # noqa: BLE001 - the server's edge: whatever it is, it is told
            refusal = refusal_of(error, doing="ServerReflectionInfo")
            await context.abort(refusal.code, refusal.text, refusal.metadata)
        async for answer in self._servicer.ServerReflectionInfo(requests, context):
            yield answer

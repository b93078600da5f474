"""Calls a server through either door with the same fields, and tells what came back alike.

Fields are those of the messages, as protobuf writes them in JSON; over HTTP they go where the
operation wants them. What is refused has the name of its gRPC status, whichever door said so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import httpx
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from wherry.server.http.operation import Operation
from wherry.server.http.operations import OPERATIONS, PREFIX
from wherry.wire.v1 import task_queue_pb2

SERVICE = task_queue_pb2.DESCRIPTOR.services_by_name["TaskQueue"]
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}

# What is shown as `authorization`: nothing, or one value, or several.
Shown = Sequence[str | bytes]
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """An answer: `code` is OK or the name of a status, `text` is all of it, `body` its fields."""

    code: str
    text: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class GrpcCalls:
    """The gRPC door."""

    name = "grpc"

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    async def __call__(self, rpc: str, fields: Fields, *shown: str | bytes) -> Said:
        method = SERVICE.methods_by_name[rpc]
        request = json_format.ParseDict(dict(fields), GetMessageClass(method.input_type)())
        call: Any = self.channel.unary_unary(
            f"/{SERVICE.full_name}/{rpc}",
            request_serializer=_serialized,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        metadata = [("authorization", value) for value in shown]
        try:
            answer = await call(request, metadata=metadata, timeout=90)
        except grpc.aio.AioRpcError as error:
            trailing = "".join(f"{k}: {v!r}\n" for k, v in error.trailing_metadata() or ())
            return Said(error.code().name, f"{error.details()}\n{trailing}")
        body = json_format.MessageToDict(answer, preserving_proto_field_name=True)
        return Said("OK", json.dumps(body), body)


class HttpCalls:
    """The HTTP door."""

    name = "http"

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def __call__(self, rpc: str, fields: Fields, *shown: str | bytes) -> Said:
        method, path, body = over_http(rpc, fields)
        headers: list[tuple[bytes, bytes]] = [
            (b"authorization", value.encode("latin-1") if isinstance(value, str) else value)
            for value in shown
        ]
        if method == "GET":
            found = await self.client.request(method, path, headers=headers, params=body)
        else:
            headers.append((b"content-type", b"application/json"))
            content = json.dumps(body).encode()
            found = await self.client.request(method, path, headers=headers, content=content)
        return said_of(found)


Calls = GrpcCalls | HttpCalls


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def said_of(found: httpx.Response) -> Said:
    """Return what an answer over HTTP says."""
    code = "OK" if found.is_success else STATUSES.get(found.status_code, f"{found.status_code}")
    body = found.json() if "json" in found.headers.get("content-type", "") else None
    return Said(code, found.text, body, found.headers)


def over_http(rpc: str, fields: Fields) -> tuple[str, str, dict[str, Any]]:
    """Return method, path, and the body (of a GET, the query) of a call."""
    said = dict(fields)
    operation = _operation(rpc, said)
    path = PREFIX + operation.path
    if "{id}" in path:
        path = path.replace("{id}", str(said.pop("id")))
    if rpc == "GetTask":
        said = dict(said.get("key", {}))
    if rpc in ("ListTasks", "CountTasks", "GroupDeadTasks"):
        said |= said.pop("filter", {})
        if "states" in said:
            said["state"] = said.pop("states")
    return operation.method, path, {name: _value(name, value) for name, value in said.items()}


def _operation(rpc: str, fields: Fields) -> Operation:
    found = [operation for operation in OPERATIONS if operation.rpc == rpc]
    return next(o for o in found if len(found) == 1 or ("{id}" in o.path) == ("id" in fields))


def _value(name: str, value: Any) -> Any:
    if name in ("payload", "merge_payload", "result"):
        return json.loads(value)
    if name == "ids":
        return [str(id) for id in value]
    if isinstance(value, dict):
        return {inner: _value(inner, each) for inner, each in value.items()}
    if isinstance(value, list):
        return [_value("", each) for each in value]
    if isinstance(value, str):
        for enum in ("DIRECTIVE_", "STATE_"):
            if value.startswith(enum):
                return value.removeprefix(enum).lower().replace("unspecified", "none")
    return value

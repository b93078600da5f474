"""Draws requests that are wrong in some way, the same for the same seed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from tests.security.doors import SERVICE, over_http
from tests.security.places import Place
from tests.security.rights import NEEDS
from wherry.server.http.operations import OPERATIONS, PREFIX

TEXTS = (
    "", "a", "mail", "*", "[", "\0", "\x1b[31m", "é", "😀" * 70, "x" * 600, "\ud83d", "-5s",
    "1e99s", "30s", "99999999999999s", "2026-01-01T00:00:00Z",
    "9999999999999999999", "null", "' or 1=1 --",
)  # fmt: skip
NUMBERS = (
    "0", "-1", "1", "1.5", "-0", "1e5", "1e400", "-1e400", "9" * 19, "9" * 400, "0." + "3" * 300,
    "2147483648", "-2147483649", "9223372036854775808",
)  # fmt: skip
F = FieldDescriptor


def any_json(draw: random.Random, depth: int = 0) -> str:
    """Return some JSON, as text, so that it may hold what no program would write."""
    kind = draw.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return draw.choice(NUMBERS)
    if kind < 4:
        return json.dumps(draw.choice(TEXTS))
    if kind < 6:
        return draw.choice(("true", "false", "null"))
    if kind == 6:
        return "[" * (n := draw.choice((1, 2, 50, 2000))) + "]" * n
    if kind == 7:
        return f"[{','.join(any_json(draw, depth + 1) for _ in range(draw.randrange(4)))}]"
    names = [json.dumps(draw.choice((*TEXTS, "a"))) for _ in range(draw.randrange(4))]
    return f"{{{','.join(f'{name}:{any_json(draw, depth + 1)}' for name in names)}}}"


def spoiled(draw: random.Random, body: dict[str, Any]) -> bytes:
    """Return *body* as JSON with something wrong in it; now and then with nothing wrong."""
    fields = {json.dumps(name): json.dumps(value) for name, value in body.items()}
    for _ in range(draw.randint(0, 2)):
        name = draw.choice([*fields, json.dumps(draw.choice(TEXTS))])
        match draw.randrange(3):
            case 0:
                fields.pop(name, None)
            case _:
                fields[name] = any_json(draw)
    pairs = [f"{name}:{value}" for name, value in fields.items()]
    if pairs and draw.random() < 0.1:
        pairs.append(draw.choice(pairs))
    data = f"{{{','.join(pairs)}}}".encode(errors="surrogatepass")
    if draw.random() < 0.2:
        cut = draw.randrange(len(data) + 1)
        data = data[:cut] + draw.randbytes(draw.randrange(3)) + data[cut + draw.randrange(3) :]
    return data


def http_request(
    draw: random.Random, places: Sequence[Place]
) -> tuple[str, bytes, bytes, dict[str, str]]:
    """Return method, target, body and headers of a request for one of the routes."""
    rpc = draw.choice(list(NEEDS))
    method, path, body = over_http(rpc, NEEDS[rpc].fields(draw.choice(places)))
    target = path.encode()
    headers = {"content-type": "application/json"}
    data = b""
    if method == "POST":
        data = spoiled(draw, body)
    else:
        pairs = [(name, str(value)) for name, value in body.items()]
        for _ in range(draw.randrange(3)):
            pairs.append((draw.choice(("state", "queue", "page_size", "page_token", "x")), ""))
            pairs[-1] = (pairs[-1][0], draw.choice((*NUMBERS, "a", "%00", "%ff", "queued", "%zz")))
        if pairs:
            target += b"?" + b"&".join(f"{k}={v}".encode() for k, v in pairs)
    if draw.random() < 0.1:
        operation = draw.choice(OPERATIONS)
        id = draw.choice((*NUMBERS, "x", "%00", "%2e%2e", "é".encode().hex()))
        target = (PREFIX + operation.path.replace("{id}", id)).encode()
    if draw.random() < 0.1:
        method = draw.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH"))
    if draw.random() < 0.1:
        types = ("text/plain", "", "application/json; charset=latin-1", "application/x-protobuf")
        headers["content-type"] = draw.choice(types)
    if draw.random() < 0.05:
        headers["content-encoding"] = draw.choice(("gzip", "br", "identity", "x" * 300))
    if draw.random() < 0.05:
        headers["accept"] = draw.choice(("text/html", "*/*;q=0", ",,,;;", "application/json;q=x"))
    return method, target, data, headers


def grpc_request(draw: random.Random, places: Sequence[Place]) -> tuple[str, bytes]:
    """Return the name of an rpc and the bytes of a request."""
    rpc = draw.choice(list(NEEDS))
    kind = SERVICE.methods_by_name[rpc].input_type
    leases = [place.lease for place in places]
    data = bytes(_message(draw, kind, leases).SerializeToString())
    if draw.random() < 0.2:
        cut = draw.randrange(len(data) + 1)
        data = data[:cut] + draw.randbytes(draw.randrange(6)) + data[cut + draw.randrange(3) :]
    return rpc, data


def _message(draw: random.Random, kind: Descriptor, leases: Sequence[str], depth: int = 0) -> Any:
    found: Any = GetMessageClass(kind)()
    texts = [text for text in TEXTS if text != "\ud83d"]
    for field in kind.fields:
        # A poll that waits is nothing that is tried a thousand times; a search that is given no
        # time is told so.
        is_limit = field.name == "timeout" and "filter" in kind.fields_by_name
        if field.name == "wait" or is_limit or draw.random() < 0.5:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(found, field.name)[draw.choice(texts)] = draw.choice(texts)
            continue
        count = draw.randrange(3) if field.is_repeated else 1
        for _ in range(count):
            if field.message_type is not None:
                if depth > 5:
                    continue
                value = _message(draw, field.message_type, leases, depth + 1)
                place = getattr(found, field.name)
                if field.is_repeated:
                    place.append(value)
                else:
                    place.CopyFrom(value)
                continue
            value = _scalar(draw, field, texts, leases)
            if field.is_repeated:
                getattr(found, field.name).append(value)
            else:
                setattr(found, field.name, value)
    return found


def _scalar(
    draw: random.Random, field: FieldDescriptor, texts: Sequence[str], leases: Sequence[str]
) -> Any:
    bits = {F.TYPE_INT32: 31, F.TYPE_INT64: 63, F.TYPE_ENUM: 31}.get(field.type)
    if bits is not None:
        return draw.choice((0, 1, -1, 5, 2**bits - 1, -(2**bits)))
    if field.type == F.TYPE_BOOL:
        return draw.random() < 0.5
    if field.type == F.TYPE_DOUBLE:
        return draw.choice((0.0, -0.0, 1.5, -1.0, 1e308, math.inf, -math.inf, math.nan))
    if field.name in ("lease", "leases"):
        return draw.choice((*leases, *texts))
    if field.name in ("payload", "merge_payload", "result") and draw.random() < 0.8:
        return any_json(draw).encode(errors="replace").decode()
    return draw.choice(texts)

"""Whatever is sent: bad input is never answered as if it were the server's fault."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.hostile import EVERY
from tests.server.grpc.asking import Stub, enqueued, leasing
from wherry.wire.v1 import task_queue_pb2

METHODS = {
    method.name: method
    for method in task_queue_pb2.DESCRIPTOR.services_by_name["TaskQueue"].methods
}
# An answer that does not come at all is one of ours too.
FAULTS = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
PATIENCE_SECONDS = 60.0
# More with `--fuzz-calls`.
OF_EACH = 25

F = FieldDescriptor
# A message holds no lone surrogate.
_HOSTILE = [text for text in EVERY if text.isprintable() or text.isascii()]
_TEXTS = (
    st.text(max_size=8)
    | st.sampled_from(_HOSTILE)
    | st.sampled_from(
        [
            "mail",
            "shop.send",
            "*",
            "w",
            "{}",
            '{"x":1}',
            "[",
            "1",
            "\0",
            "\x1f",
            "😀" * 70,
            "x" * 600,
        ]
    )
)
_INTS = {F.TYPE_INT32: 31, F.TYPE_INT64: 63, F.TYPE_ENUM: 31}


def _scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type in _INTS:
        bits = _INTS[field.type]
        return st.integers(-(2**bits), 2**bits - 1) | st.integers(-1, 12)
    if field.type == F.TYPE_BOOL:
        return st.booleans()
    if field.type == F.TYPE_DOUBLE:
        return st.floats()
    assert field.type == F.TYPE_STRING, field.full_name
    return _TEXTS


def _leases(held: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(held) | _TEXTS


def messages(kind: Descriptor, held: list[str]) -> st.SearchStrategy[Any]:
    """Return messages of *kind* that protobuf takes; *held* are leases that hold."""
    made = GetMessageClass(kind)

    @st.composite
    def message(draw: st.DrawFn) -> Any:
        found = made()
        for field in kind.fields:
            if draw(st.booleans()):
                continue
            if field.message_type and field.message_type.GetOptions().map_entry:
                getattr(found, field.name).update(draw(st.dictionaries(_TEXTS, _TEXTS, max_size=2)))
                continue
            if field.name in ("lease", "leases"):
                values = _leases(held)
            elif field.message_type:
                values = messages(field.message_type, held)
            else:
                values = _scalars(field)
            is_limit = field.name == "timeout" and "filter" in kind.fields_by_name
            if field.name in ("wait", "confirm_within") or is_limit:
                # A poll that waits is nothing that is tried a hundred times; a search that is given
                # no time is told so.
                continue
            if field.is_repeated:
                getattr(found, field.name).extend(draw(st.lists(values, max_size=3)))
            elif field.message_type:
                getattr(found, field.name).CopyFrom(draw(values))
            else:
                setattr(found, field.name, draw(values))
        return found

    return message()


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Return *count* examples, the same at each run."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


async def held_leases(stub: Stub) -> list[str]:
    for n in range(8):
        await enqueued(stub, key=f"k{n}")
    return [task.lease for task in (await leasing(stub, max_tasks=5)).tasks]


@pytest.mark.parametrize("name", METHODS)
async def test_no_message_is_our_fault(
    stub: Stub, name: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    held = await held_leases(stub)
    most: Any = request.config.getoption("--fuzz-calls")
    messages_of_it = drawn(messages(METHODS[name].input_type, held), OF_EACH * int(most) // 800)

    for message in messages_of_it:
        code = await getattr(stub, name)(message, timeout=PATIENCE_SECONDS).code()

        assert code not in FAULTS, f"{name}({message}) was answered {code}: {caplog.text}"


@pytest.mark.parametrize("name", METHODS)
async def test_no_bytes_are_our_fault(channel: grpc.aio.Channel, name: str) -> None:
    call: Any = channel.unary_unary(f"/wherry.v1.TaskQueue/{name}")
    garbage = [b"\xff", b"\x0a\xff", b"\x0a\x02\xff\xfe", b"\x00" * 100, b"\x0a" * 10_000]

    codes = await asyncio.gather(
        *(call(data).code() for data in [*garbage, *drawn(st.binary(max_size=40), 20)])
    )

    assert not FAULTS & set(codes)
    assert grpc.StatusCode.INVALID_ARGUMENT in codes

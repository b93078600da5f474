"""HTTP has what gRPC has: every rpc a route, every message a body with the same fields."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor

from wherry.domain.cron import Missed, Overlap, TickOutcome
from wherry.domain.state import State
from wherry.domain.task import Canceled, Purged, Replanned, RequeueAnswer
from wherry.domain.worker import Directive
from wherry.server.http import (
    change_bodies,
    filter_bodies,
    lease_bodies,
    looking_bodies,
    operator_bodies,
    schedule_bodies,
    task_bodies,
)
from wherry.server.http.operation import Operation
from wherry.server.http.operations import OPERATIONS
from wherry.wire.v1 import leases_pb2, operators_pb2, schedules_pb2, task_queue_pb2, tasks_pb2

SERVICE = task_queue_pb2.DESCRIPTOR.services_by_name["TaskQueue"]
BODIES = (
    *(task_bodies, filter_bodies, change_bodies, looking_bodies, lease_bodies, operator_bodies),
    schedule_bodies,
)
# What a path or a query says, or what a path makes needless.
ASKED_OTHERWISE = {
    "GetTaskRequest",
    "ListTasksRequest",
    "CountTasksRequest",
    "GroupDeadTasksRequest",
    "WhyTaskRequest",
    "ListQueuesRequest",
    "ListWorkersRequest",
    "ListPausedTypesRequest",
    "ListSchedulesRequest",
    "GetServerRequest",
}


def messages() -> dict[str, Descriptor]:
    """Every message, also those within others, by its own name."""
    found: dict[str, Descriptor] = {}
    for file in (tasks_pb2, leases_pb2, operators_pb2, schedules_pb2):
        waiting = list(file.DESCRIPTOR.message_types_by_name.values())
        while waiting:
            message = waiting.pop()
            if not message.GetOptions().map_entry:
                assert message.name not in found
                found[message.name] = message
                waiting += message.nested_types
    return found


def structs() -> dict[str, type[msgspec.Struct]]:
    return {
        name: kind
        for module in BODIES
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }


def fields_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def of_path(path: str) -> set[str]:
    return set(re.findall(r"{(\w+)}", path))


def operations_of(rpc: str) -> list[Operation]:
    return [operation for operation in OPERATIONS if operation.rpc == rpc]


@pytest.mark.parametrize("rpc", [method.name for method in SERVICE.methods])
def test_every_rpc_has_a_route_with_its_answer(rpc: str) -> None:
    found = operations_of(rpc)

    assert found
    for operation in found:
        assert operation.answer.__name__ == SERVICE.methods_by_name[rpc].output_type.name
        if operation.has_body:
            assert operation.asked.__name__ == SERVICE.methods_by_name[rpc].input_type.name


def test_every_route_is_an_rpc() -> None:
    assert {operation.rpc for operation in OPERATIONS} == set(SERVICE.methods_by_name)


def test_names_of_operations_are_unique() -> None:
    names = [operation.name for operation in OPERATIONS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", sorted(set(messages()) - ASKED_OTHERWISE))
def test_every_message_is_a_body_with_the_same_fields(name: str) -> None:
    of_paths = {
        field
        for operation in OPERATIONS
        if operation.asked.__name__ == name
        for field in of_path(operation.path)
    }

    assert fields_of(structs()[name]) | of_paths == set(messages()[name].fields_by_name)


def test_a_listing_is_asked_for_by_its_filter_and_its_page() -> None:
    flat = set(messages()["TaskFilter"].fields_by_name) | set(
        messages()["ListTasksRequest"].fields_by_name
    )

    # In a query a repeated parameter has the name of one.
    wanted = flat - {"filter", "states"} | {"state"}
    assert fields_of(filter_bodies.ListTasksQuery) == wanted


def test_a_count_is_asked_for_by_its_filter_and_where_to_stop() -> None:
    flat = set(messages()["TaskFilter"].fields_by_name) | set(
        messages()["CountTasksRequest"].fields_by_name
    )

    assert fields_of(filter_bodies.CountTasksQuery) == flat - {"filter", "states"} | {"state"}


def test_a_task_is_asked_for_by_its_id_or_its_key() -> None:
    by_path = [of_path(operation.path) for operation in operations_of("GetTask")]

    assert sorted(by_path, key=len) == [set(), {"id"}]
    assert set(messages()["GetTaskRequest"].fields_by_name) == {"id", "key"}


def test_a_task_of_a_batch_says_all_but_what_is_the_batchs_own() -> None:
    alone = fields_of(task_bodies.EnqueueRequest)

    assert alone - fields_of(task_bodies.BatchTask) == {"notify"}


def test_no_body_is_without_a_message() -> None:
    # In a batch a task is all of an EnqueueRequest but what is the batch's own.
    ours = {"Request", "Answer", "Struct", "NoQuery", "TaskKey", "BatchTask", "DeclaredTask"} | {
        *("Narrowing", "TaskQuery", "ListTasksQuery", "CountTasksQuery"),
        "GroupDeadTasksQuery",
        # What a queue's limits are is one message, asked and told.
        *("AskedLimits", "AskedRate"),
    }

    assert set(structs()) - ours == set(messages()) - ASKED_OTHERWISE - {"TaskKey"}


@pytest.mark.parametrize(
    ("names", "numbers", "unspecified"),
    [
        (State, tasks_pb2.State.DESCRIPTOR, None),
        (Canceled, tasks_pb2.CancelAnswer.DESCRIPTOR, None),
        (RequeueAnswer, tasks_pb2.RequeueAnswer.DESCRIPTOR, None),
        (Purged, tasks_pb2.PurgeAnswer.DESCRIPTOR, None),
        (Replanned, tasks_pb2.ReplanAnswer.DESCRIPTOR, None),
        (lease_bodies.Reported, leases_pb2.Reported.DESCRIPTOR, None),
        (Directive, leases_pb2.Directive.DESCRIPTOR, Directive.NONE),
        (Missed, schedules_pb2.MissedPolicy.DESCRIPTOR, None),
        (Overlap, schedules_pb2.OverlapPolicy.DESCRIPTOR, None),
        (TickOutcome, schedules_pb2.TickOutcome.DESCRIPTOR, None),
    ],
)
def test_words_are_those_of_the_enums(
    names: type[StrEnum], numbers: EnumDescriptor, unspecified: Any
) -> None:
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", numbers.name).upper()
    words = {name.removeprefix(f"{prefix}_").lower() for name in numbers.values_by_name}

    assert {str(name) for name in names} - {unspecified} == words - {"unspecified"}

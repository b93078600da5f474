"""Writes the OpenAPI 3.1 document from the table of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from wherry import __version__
from wherry.domain.filter import NARROWING
from wherry.domain.state import State
from wherry.server.http.fields import Id
from wherry.server.http.lease_bodies import Outcome
from wherry.server.http.operation import Operation
from wherry.server.http.operations import OPERATIONS
from wherry.server.http.refusals import MEDIA_TYPE, ProblemDetails
from wherry.server.http.task_bodies import BatchTask

_REF: Final = "#/components/schemas/{name}"
_ALWAYS: Final = {
    400: "The request is wrong, and stays so: `field` says where.",
    401: "No valid token came along.",
    403: "This is not for the holder of this token.",
    406: "The answer is JSON, which is not accepted.",
    429: "Too many, or too often.",
    431: "The address, or what is sent with it, is too long.",
    503: "The database is out of reach: try again.",
}
_WITH_BODY: Final = {
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not sent as JSON.",
}
_OWN: Final = {
    200: "Done.",
    201: "Stored.",
    404: "There is no such task, or schedule, or it is not for the caller to see.",
    409: "It cannot be done as things stand: the lease is lost (`LEASE_LOST`), somebody is settling"
    " the task in an open transaction (`BUSY`), the key names another task (`KEY_TAKEN`), or the"
    " task has not ended (`NOT_FINAL`).",
    504: "The search took longer than it may; nothing was changed.",
}
_DESCRIPTION: Final = """\
A task queue in PostgreSQL: the same verbs as over gRPC.

* Lengths of time are strings of seconds (`"30s"`, `"0.25s"`), times are RFC 3339 with a zone, ids
  are strings. Payloads and results are JSON inside of JSON and come back equal.
* What is not known is refused by the server, with its path. Clients should step over fields that
  they do not know: answers may get more of them.
* Errors are problem details. `reason` is stable, for programs; `detail` is for people.
"""


def _exactly_one(*names: str) -> dict[str, Any]:
    return {
        "oneOf": [
            {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names
        ]
    }


def _not_both(*names: str) -> dict[str, Any]:
    properties = {name: {"not": {"type": "null"}} for name in names}
    return {"not": {"required": list(names), "properties": properties}}


def _states(*states: State) -> dict[str, Any]:
    """What a verb's filter may name: it is about tasks in these states only."""
    rule: dict[str, Any] = {"items": {"enum": [str(state) for state in states]}}
    for name in ("states", "filter", "selection"):
        rule = {"properties": {name: rule}}
    return {"allOf": [rule]}


_ENDED: Final = tuple(state for state in State if state.is_final)

# What holds between the fields of one body, which types alone do not say.
_RULES: Final[dict[str, dict[str, Any]]] = {
    "CancelTasksRequest": _states(State.QUEUED, State.LEASED),
    "RequeueTasksRequest": _states(*_ENDED),
    "PurgeTasksRequest": _states(*_ENDED),
    "ReprioritizeTasksRequest": _states(State.QUEUED),
    "RescheduleTasksRequest": _states(State.QUEUED) | _exactly_one("delay", "run_after"),
    "BatchTask": _not_both("delay", "run_after"),
    "EnqueueRequest": _not_both("delay", "run_after"),
    "RetryPolicy": _exactly_one("full_jitter", "additive", "fixed"),
    "Outcome": _exactly_one("complete", "fail", "cancel", "snooze", "release"),
    "Selection": _exactly_one("ids", "filter"),
    "TaskFilter": {
        "anyOf": [
            {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
            for name in NARROWING
        ]
    },
}


# Verbs of a batch answer with what they did, as `Canceled`: the enum in it is named as over gRPC.
_OWN_NAMES: Final = {
    "wherry.domain.task.Canceled": "CancelAnswer",
    "wherry.domain.task.Purged": "PurgeAnswer",
    "wherry.domain.task.Replanned": "ReplanAnswer",
    "wherry.domain.cron.Missed": "MissedPolicy",
    "wherry.domain.cron.Overlap": "OverlapPolicy",
}


def document() -> dict[str, Any]:
    """Return the whole document."""
    bodies = [operation.asked for operation in OPERATIONS if operation.has_body]
    answers = [operation.answer for operation in OPERATIONS]
    # Those that are read by themselves, as items of a batch, stand in no other type.
    kinds = list(dict.fromkeys([*bodies, *answers, BatchTask, Outcome, ProblemDetails]))
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    schemas = _plainly_named(schemas)
    for name, rule in _RULES.items():
        schemas[name] |= rule
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Wherry", "version": __version__, "description": _DESCRIPTION},
        # Relative to the document's own address, so that it holds behind a proxy's prefix too.
        "servers": [{"url": "api/v1"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token that `wherry tokens create` gave, unless the server"
                    " runs without.",
                }
            },
        },
    }


def _plainly_named(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the components without modules in their names, which two of one name have."""
    names = {name: _OWN_NAMES.get(name) or name.rpartition(".")[2] for name in schemas}
    assert len(set(names.values())) == len(names)
    refs = {_REF.format(name=old): _REF.format(name=new) for old, new in names.items()}

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: refs.get(v, v) if k == "$ref" else named(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(value, list):
            return [named(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    return {
        names[old]: named(schema) | ({"title": names[old]} if "title" in schema else {})
        for old, schema in schemas.items()
    }


def _operation(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[1].split(":")[0]],
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.has_body:
        found["requestBody"] = {"required": True, "content": _json(operation.asked.__name__)}
    return found


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{id}" in operation.path:
        found.append({"name": "id", "in": "path", "required": True, "schema": _schema(Id)})
    if operation.has_body:
        return found
    for field in msgspec.structs.fields(operation.asked):
        schema = _schema(field.type)
        description = schema.pop("description", None)
        if "anyOf" in schema:
            # Null is what JSON has for "not given"; a query leaves it out.
            [schema] = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
        parameter: dict[str, Any] = {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            "schema": schema,
        }
        if description or schema.get("description"):
            parameter["description"] = description or schema.get("description")
        found.append(parameter)
    return found


def _schema(kind: Any) -> dict[str, Any]:
    [schema], components = msgspec.json.schema_components([kind], ref_template=_REF)
    assert set(components) <= {"State"}
    return schema


def _responses(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in sorted({200, *operation.statuses}):
        is_good = status < 300
        content = _json(operation.answer.__name__) if is_good else _problem()
        found[str(status)] = {"description": _OWN[status], "content": content}
        if status == 201:
            location = {"description": "Where the task is.", "schema": {"type": "string"}}
            found["201"]["headers"] = {"Location": location}
    others = _ALWAYS | (_WITH_BODY if operation.has_body else {})
    for status, description in others.items():
        found[str(status)] = {"description": description, "content": _problem()}
    return dict(sorted(found.items()))


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=name)}}}


def _problem() -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="ProblemDetails")}}}


def names_in(schema: Any) -> Sequence[str]:
    """Return the names of the components that *schema* points to."""
    found: list[str] = []
    if isinstance(schema, dict):
        for key, value in schema.items():  # pyright: ignore[reportUnknownVariableType]
            if key == "$ref":
                found.append(str(value).rpartition("/")[2])  # pyright: ignore[reportUnknownArgumentType]
            else:
                found += names_in(value)
    elif isinstance(schema, list):
        for item in schema:  # pyright: ignore[reportUnknownVariableType]
            found += names_in(item)
    return found

"""What an App is told is checked at its door: nothing is clamped, guessed or left to the driver."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

import wherry
from wherry.testing import context

NOWHERE = "host=/nonexistent"
CALLS: list[Callable[..., object]] = [
    lambda app, id: app.get_task(id),
    lambda app, id: app.cancel(id),
    lambda app, id: app.requeue(id),
    lambda app, id: app.purge(id),
    lambda app, id: app.result(id, timeout=1),
    lambda app, id: app.cancel_many([id]),
    lambda app, id: app.requeue_many([id]),
    lambda app, id: app.purge_many([id]),
    lambda app, id: app.list_tasks(after=id),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("id", ["5", True, 5.0, None, 0, -1, 2**63, 2**70])
def test_what_is_no_id_is_refused_everywhere(call: Callable[..., object], id: Any) -> None:
    app = wherry.App(NOWHERE)
    if id is None and call is CALLS[-1]:
        id = b"5"

    with pytest.raises(wherry.InvalidOption, match="must be"):
        call(app, id)


@pytest.mark.parametrize("ids", ["12", 12, {"id": 1}, b"12"])
def test_ids_are_a_list(ids: Any) -> None:
    with pytest.raises(wherry.InvalidOption, match="must be a list of ids"):
        wherry.App(NOWHERE).cancel_many(ids)


@pytest.mark.parametrize("name", ["tx", "notify"])
def test_what_is_of_the_whole_batch_is_refused_in_a_task_of_it(name: str) -> None:
    with pytest.raises(wherry.InvalidOption, match="whole batch") as refused:
        wherry.App(NOWHERE).enqueue_many([{"type": "a"}, {"type": "b", name: None}])

    assert (refused.value.index, refused.value.option) == (1, name)


@pytest.mark.parametrize("task", ["mail.send", None, ("mail.send", {})])
def test_a_task_of_a_batch_is_a_dict(task: Any) -> None:
    with pytest.raises(wherry.InvalidTask, match="must be a dict") as refused:
        wherry.App(NOWHERE).enqueue_many([{"type": "a"}, task])

    assert refused.value.index == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (1, "must be a dict"),
        (None, "must be a dict"),
        ("", "must be a dict"),
        ([("n", 1)], "must be a dict"),
        ({1: 2}, "has a key of type int"),
        ({"n": 1, 1: 2}, "has a key of type int"),
        ({"m": {1, 2}}, "JSON has no word for set"),
    ],
)
async def test_a_call_of_a_batch_has_its_arguments_by_name(call: Any, said: str) -> None:
    app = wherry.App(NOWHERE)

    @app.task(name="t")
    def t(n: int) -> None: ...

    for tx in (None, object()):
        with pytest.raises(wherry.InvalidTask, match=said) as refused:
            await t.using(tx=tx).aenqueue_many([{"n": 1}, call])
        assert refused.value.index == 1
    with pytest.raises(wherry.HandlerError, match="task 1 of the batch"):
        await t.aenqueue_many([{"n": 1}, {"m": 1}])


@pytest.mark.parametrize("many", ["mail.send", b"", 5, None, {"type": "mail.send"}])
async def test_many_tasks_are_a_list(many: Any) -> None:
    app = wherry.App(NOWHERE)

    @app.task(name="t")
    def t(n: int) -> None: ...

    for call in (app.enqueue_many, app.aenqueue_many, t.enqueue_many, t.aenqueue_many):
        with pytest.raises(wherry.InvalidOption, match="must be a list of dicts"):
            await called if isawaitable(called := call(many)) else called


@pytest.mark.parametrize("payload", [[], "", 0, False])
def test_a_payload_that_is_empty_is_still_a_dict(payload: Any) -> None:
    with pytest.raises(wherry.InvalidPayload, match="must be a dict"):
        wherry.App(NOWHERE).enqueue("mail.send", payload)


@pytest.mark.parametrize(
    "told",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": 1001},
        {"limit": True},
        {"limit": "10"},
        {"state": "done"},
        {"queue": 5},
        {"type": "\0"},
        {"tag": "\ud800"},
        {"error": b"x"},
        {"older_than": float("nan")},
    ],
)
def test_a_listing_refuses_what_makes_no_sense(told: dict[str, Any]) -> None:
    with pytest.raises(wherry.InvalidOption) as refused:
        wherry.App(NOWHERE).list_tasks(**told)

    assert refused.value.option == next(iter(told))


@pytest.mark.parametrize(
    "told",
    [
        {"max_tasks": -1},
        {"max_tasks": 0},
        {"max_tasks": True},
        {"max_tasks": 10**9},
        {"lease_for": 0},
        {"lease_for": float("nan")},
        {"lease_for": 86_401},
        {"worker": ""},
        {"worker": None},
        {"queues": "mail"},
        {"queues": []},
        {"types": "mail.send"},
        {"wait": -1},
    ],
)
def test_a_lease_refuses_what_makes_no_sense(told: dict[str, Any]) -> None:
    """RET-07."""
    with pytest.raises(wherry.InvalidOption) as refused:
        wherry.App(NOWHERE).lease(**{"worker": "w", **told})

    assert refused.value.option == next(iter(told))


@pytest.mark.parametrize("lease_for", [0, -1, float("nan"), 86_401, "soon"])
async def test_every_bad_length_of_a_lease_is_one_and_the_same_error(lease_for: Any) -> None:
    app = wherry.App(NOWHERE)

    with pytest.raises(wherry.InvalidOption, match="lease_for"):
        await app.aheartbeat([], lease_for=lease_for)
    with pytest.raises(wherry.InvalidOption, match="lease_for"):
        await app.alease(worker="w", lease_for=lease_for)
    with pytest.raises(wherry.InvalidOption, match="lease_for"):
        await app.awork(lease_for=lease_for)


@pytest.mark.parametrize(
    "told",
    [
        {"pool_timeout": -5},
        {"pool_timeout": 0},
        {"pool_timeout": "soon"},
        {"pool_timeout": float("inf")},
        {"pool_size": 0},
        {"pool_size": 1001},
        {"pool_size": "10"},
        {"pool_size": True},
    ],
)
def test_an_app_refuses_a_pool_that_makes_no_sense(told: dict[str, Any]) -> None:
    with pytest.raises(wherry.InvalidOption) as refused:
        wherry.App(NOWHERE, **told)

    assert refused.value.option == next(iter(told))


@pytest.mark.parametrize("schema", ["", "a\0b", "x" * 64, 5, None])
def test_an_app_refuses_a_schema_that_cannot_be(schema: Any) -> None:
    with pytest.raises(wherry.ConfigError, match="schema name"):
        wherry.App(NOWHERE, schema=schema)


@pytest.mark.parametrize("option", ["key", "delay", "run_after", "qeue"])
def test_a_type_declares_no_option_of_a_single_enqueue(option: str) -> None:
    told: dict[str, Any] = {option: None}

    with pytest.raises(wherry.InvalidOption, match="no such option"):
        wherry.App(NOWHERE).task(**told)


def test_a_misspelled_option_of_using_is_refused() -> None:
    def send() -> None: ...

    task = wherry.App(NOWHERE).task(name="mail.send")(send)

    with pytest.raises(wherry.InvalidOption, match="prority"):
        task.using(prority=1)  # type: ignore[call-arg]
    with pytest.raises(wherry.InvalidOption, match="notify"):
        task.using(notify="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", [5, "\0", "x" * 10_000])
def test_the_reason_of_a_cancel_is_a_text_that_can_be_stored(reason: Any) -> None:
    with pytest.raises(wherry.InvalidOption, match="reason"):
        wherry.App(NOWHERE).cancel(1, reason=reason)


async def test_a_result_of_what_no_app_stored_is_refused_with_a_sentence() -> None:
    with context() as ctx:
        enqueued = ctx.enqueue("mail.send")

    with pytest.raises(wherry.ConfigError, match="no App stored task 1"):
        enqueued.result(timeout=1)
    with pytest.raises(wherry.ConfigError, match="no App stored task 1"):
        await enqueued.aresult(timeout=1)


def test_a_handler_cannot_cancel_itself_through_its_context() -> None:
    from wherry.worker.context import Context

    assert not hasattr(Context, "cancel")


def test_an_option_of_the_type_is_told_where_it_belongs() -> None:
    app = wherry.App("postgresql://nowhere.invalid/x")

    with pytest.raises(wherry.InvalidOption, match=r"belongs to the type, as in @app.task\(store"):
        app.enqueue("x", {}, store_result=True)  # type: ignore[call-arg]

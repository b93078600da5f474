"""What of ours can be copied, and sent to another process; an App can be neither."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

import wherry
from wherry import errors, signals

KINDS = sorted(
    {
        kind
        for module in (errors, signals)
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, wherry.WherryError | wherry.Signal)
    },
    key=lambda kind: kind.__name__,
)
WAYS: list[Callable[[Exception], Exception]] = [
    *(lambda error, p=p: pickle.loads(pickle.dumps(error, p)) for p in range(6)),
    copy.copy,
    copy.deepcopy,
]


class OfUsers(wherry.Fail):
    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def refuse() -> None:
    raise wherry.InvalidPayload("$.a", "not this one", index=3)


@pytest.mark.parametrize("kind", [*KINDS, OfUsers], ids=lambda kind: kind.__name__)
def test_whatever_is_raised_comes_out_of_another_process_as_it_was(kind: type[Exception]) -> None:
    error = kind.__new__(kind, "what it says")
    error.task_id = 3  # type: ignore[attr-defined]
    error.add_note("a note")

    for way in WAYS:
        again = way(error)

        assert type(again) is kind
        assert (again.args, again.__dict__) == (error.args, error.__dict__)
        assert str(again) == "what it says"


def test_what_a_call_in_a_pool_of_processes_raises_ends_no_pool() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        with pytest.raises(wherry.InvalidPayload) as raised:
            processes.submit(refuse).result(timeout=60)
        # It is still there.
        assert processes.submit(abs, -3).result(timeout=60) == 3

    assert (raised.value.path, raised.value.index) == ("$.a", 3)


def test_a_snooze_keeps_its_reason() -> None:
    again = pickle.loads(pickle.dumps(wherry.Snooze(60, "the shop is closed")))

    assert (again.delay, str(again)) == (60, "the shop is closed")


def test_an_app_that_is_copied_says_what_to_do_instead() -> None:
    app = wherry.App()

    for way in (copy.copy, copy.deepcopy, lambda app: copy.deepcopy({"app": app})):
        with pytest.raises(TypeError, match=r"share this one.*or make another with App\(\.\.\.\)"):
            way(app)
    with pytest.raises(TypeError, match="into another process"):
        pickle.dumps(app)


async def test_an_answer_is_a_value_without_its_app(app: wherry.App) -> None:
    answer = await app.aenqueue("t", key="k")
    pickled = pickle.loads(pickle.dumps(answer))

    assert pickled == answer == copy.copy(answer) == copy.deepcopy([answer])[0]
    assert dataclasses.asdict(answer) == {
        "id": answer.id,
        "created": True,
        "payload_matches": True,
    }
    with pytest.raises(TimeoutError):
        await copy.deepcopy(answer).aresult(timeout=0)
    with pytest.raises(wherry.ConfigError, match=rf"app\.result\({answer.id}, timeout"):
        await pickled.aresult(timeout=0)

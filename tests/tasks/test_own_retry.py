"""A single enqueue's retry policy is stored with its task, or refused: never taken and ignored."""

from __future__ import annotations

import pytest

import wherry


def later(attempt: int, error: BaseException | None) -> float:
    return 60.0


def test_using_refuses_a_retry_function_since_no_worker_could_know_of_it() -> None:
    @wherry.App("host=nowhere").task(name="mail.send")
    def send() -> None: ...

    with pytest.raises(wherry.InvalidOption, match=r"retry=.*@app\.task\(retry=\.\.\.\)"):
        send.using(retry=later)


def test_a_batch_refuses_a_retry_function_and_names_the_task() -> None:
    app = wherry.App("host=nowhere")

    with pytest.raises(wherry.InvalidOption) as refused:
        app.enqueue_many([{"type": "a"}, {"type": "b", "retry": later}])

    assert (refused.value.index, refused.value.option) == (1, "retry")


def test_a_retry_function_of_the_type_itself_is_taken(app: wherry.App) -> None:
    @app.task(name="mail.send", retry=later)
    def send() -> None: ...

    enqueued = app.enqueue_many([{"type": "mail.send"}, {"type": "mail.send", "priority": 1}])

    assert [each.created for each in enqueued] == [True, True]

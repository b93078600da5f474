"""Errors come out of a client as the library would have raised them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from wherry import errors
from wherry.server.grpc.refusals import problem_message, refusal_of
from wherry.wire.status import DETAILS_KEY, error_of, read_problem, write_status


class Call:
    """A call that has failed."""

    def __init__(self, code: Any, text: str | None, metadata: Any = ()) -> None:
        self._end = (code, text, metadata)

    def code(self) -> Any:
        return self._end[0]

    def details(self) -> str | None:
        return self._end[1]

    def trailing_metadata(self) -> Any:
        return self._end[2]


def sent(error: Exception) -> errors.WherryError:
    refusal = refusal_of(error, doing="Complete")
    return error_of(Call(refusal.code, refusal.text, refusal.metadata), doing="Complete")


RAISED = [
    errors.InvalidOption("queue", "x" * 300, "is too long", index=4),
    errors.InvalidOption("delay", -1, "must not be negative"),
    errors.InvalidPayload("payload.a[3]", "holds NaN", index=2),
    errors.InvalidTask("is no task"),
    errors.NotFound(17),
    errors.NotFound(None, key="k"),
    errors.LeaseLost(17, token=3),
    errors.KeyTaken(17, key="day ☃", taken_by=18),
    errors.NotFinal("task 17 is queued"),
    errors.Busy(17),
    errors.Unauthenticated("a token is needed"),
    errors.PermissionDenied("the right admin is needed"),
    errors.LimitReached("too many", retry_seconds=1.5),
    errors.LimitReached("too large"),
    errors.TimedOut(3.5),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_it_was_raised(error: errors.WherryError) -> None:
    found = sent(error)

    assert type(found) is type(error)
    assert str(found) == str(error)
    for name in ("task_id", "token", "key", "taken_by", "index", "option", "path"):
        if hasattr(error, name):
            assert getattr(found, name) == getattr(error, name)
    if isinstance(error, errors.LimitReached):
        assert isinstance(found, errors.LimitReached)
        assert found.retry_seconds == error.retry_seconds


def test_an_option_has_the_wires_name_in_the_answer_and_the_librarys_in_the_error() -> None:
    found = sent(errors.InvalidOption("lease_for", 0, "must be longer than zero"))

    assert isinstance(found, errors.InvalidOption)
    assert found.option == "lease_for"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.Unavailable("host=10.0.0.1 password=secret"), errors.Unavailable),
        (errors.ReadOnly("host=10.0.0.1 password=secret"), errors.ReadOnly),
        (errors.SchemaMissing("secret"), errors.SchemaError),
        (RuntimeError("secret"), errors.WherryError),
    ],
)
def test_what_is_the_servers_fault_is_told_without_a_word_of_its_own(
    error: Exception, kind: type[Exception]
) -> None:
    found = sent(error)

    assert type(found) is kind
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.Unavailable),
        (grpc.StatusCode.CANCELLED, errors.Unavailable),
        (grpc.StatusCode.INTERNAL, errors.Unavailable),
        (grpc.StatusCode.UNKNOWN, errors.Unavailable),
        (grpc.StatusCode.UNIMPLEMENTED, errors.ConfigError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.LimitReached),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDenied),
        (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidTask),
        (grpc.StatusCode.DATA_LOSS, errors.WherryError),
    ],
)
def test_a_status_that_somebody_on_the_way_answered_is_understood(
    code: grpc.StatusCode, kind: type[Exception]
) -> None:
    found = error_of(Call(code, "the proxy says no", None), doing="Complete")

    assert type(found) is kind
    assert "Complete" in str(found)
    assert "the proxy says no" in str(found)


def test_an_older_server_is_called_that() -> None:
    found = error_of(Call(grpc.StatusCode.UNIMPLEMENTED, None), doing="WhyTask")

    assert "does not know the call WhyTask: it is older than this client" in str(found)


@pytest.mark.parametrize("details", [b"\xff\xff\xff", b"", b"\x0a\x02xx"])
def test_details_that_nobody_can_read_are_as_good_as_none(details: bytes) -> None:
    call = Call(grpc.StatusCode.UNAVAILABLE, "gone", ((DETAILS_KEY, details),))

    assert type(error_of(call, doing="Complete")) is errors.Unavailable


def test_a_reason_from_a_newer_server_is_told_in_its_words() -> None:
    status = write_status(
        grpc.StatusCode.FAILED_PRECONDITION, reason="MOON_FULL", message="wait a day", id="f00"
    )
    call = Call(
        grpc.StatusCode.FAILED_PRECONDITION,
        "wait a day",
        ((DETAILS_KEY, status.SerializeToString()),),
    )

    found = error_of(call, doing="Complete")

    assert type(found) is errors.WherryError
    assert str(found) == "the server refused Complete: wait a day (id f00)"


@pytest.mark.parametrize("letter", ["x", "☃", "😀", "\x1f"])
def test_the_longest_error_fits_into_the_trailers(letter: str) -> None:
    refusal = refusal_of(
        errors.InvalidPayload(f"payload.{letter * 9000}", letter * 9000), doing="Enqueue"
    )

    # The text goes percent-encoded, the details as base64; there are eight KiB for both.
    [(_, details)] = refusal.metadata
    assert 3 * len(refusal.text.encode()) + len(details) * 4 / 3 < 7500


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_the_problem_of_one_item_comes_back_as_its_error(error: errors.WherryError) -> None:
    found = read_problem(problem_message(error, doing="Report"))

    assert type(found) is type(error)
    assert str(found) == str(error)
